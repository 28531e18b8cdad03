"""A recipe: the head of a GGUF file, from which the whole file can be made again without floats being stored.

The file SEED.gguf-head is a GGUF file up to its data. Its metadata say besides how each tensor's elements are drawn:

    recipe.seed, recipe.scales [tensors], recipe.shifts [tensors]    element = shift + scale * integer
    recipe.values.TENSOR [elements]                                  those that are not drawn but given
    recipe.tokens [positions]                                        the text whose logits are stored beside it, in SEED.f32

The integers are the sum of a 64-bit number's four 16-bit parts, less its mean. The numbers are splitmix64's, started with the
hash (FNV-1a) of the tensor's name and with the seed. tests/families/family_file.c draws the same.
"""
import numpy as np
import gguf

GOLDEN = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1
UNIT = 65536 / 3**0.5  # the integers' standard deviation
ALIGNMENT = 32
VOCAB = 64


def hash_of(name):
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 & MASK
    return value


def integers(name, seed, count):
    z = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN) + np.uint64(hash_of(name) ^ seed * GOLDEN & MASK)
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    parts = [(z >> np.uint64(shift) & np.uint64(0xFFFF)).astype(np.int64) for shift in (0, 16, 32, 48)]
    return sum(parts) - 2 * 65535


class Recipe:
    """Tensors by GGUF name, each drawn when it is added, and metadata. Shapes are numpy's, the reverse of GGUF's."""

    def __init__(self, architecture, seed):
        self.architecture, self.seed = architecture, seed
        self.tensors, self.scales, self.shifts, self.given = {}, {}, {}, set()
        self.metadata = []  # (name of a GGUFWriter's method, arguments)

    def draw(self, name, shape, deviation, shift=0.0):
        """Add a tensor of random elements and return it."""
        scale, shift = np.float32(deviation / UNIT), np.float32(shift)
        drawn = integers(name, self.seed, int(np.prod(shape))).astype(np.float64)
        self.scales[name], self.shifts[name] = scale, shift
        self.tensors[name] = (np.float64(scale) * drawn + np.float64(shift)).astype(np.float32).reshape(shape)
        return self.tensors[name]

    def give(self, name, values):
        """Add a tensor of these elements."""
        self.scales[name] = self.shifts[name] = np.float32(0)
        self.tensors[name] = np.asarray(values, dtype=np.float32)
        self.given.add(name)

    def add(self, method, *arguments, **named):
        """Add metadata, as GGUFWriter.METHOD does."""
        self.metadata.append((method, arguments, named))

    def tokens(self, count):
        return (integers("recipe.tokens", self.seed, count) % VOCAB).tolist()

    def write(self, path, tokens):
        writer = gguf.GGUFWriter(path, self.architecture)
        for method, arguments, named in self.metadata:
            getattr(writer, method)(*arguments, **named)
        add_vocabulary(writer)
        writer.add_uint32("recipe.seed", self.seed)
        writer.add_array("recipe.scales", [float(self.scales[name]) for name in self.tensors])
        writer.add_array("recipe.shifts", [float(self.shifts[name]) for name in self.tensors])
        writer.add_array("recipe.tokens", tokens)
        for name, values in self.tensors.items():
            if name in self.given:
                writer.add_array(f"recipe.values.{name}", [float(x) for x in values.ravel()])
            writer.add_tensor_info(name, values.shape, values.dtype, values.nbytes)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        writer.close()
        head = path.read_bytes()
        path.write_bytes(head + bytes(-len(head) % ALIGNMENT))


def add_vocabulary(writer):
    tokens = ["<unk>", "<s>", "</s>"] + [chr(ord("0") + i) for i in range(VOCAB - 3)]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * VOCAB)
    writer.add_token_types([2, 3, 3] + [1] * (VOCAB - 3))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_vocab_size(VOCAB)
