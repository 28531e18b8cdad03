"""llama.cpp's logits, from the library inside the package xllamacpp (PyPI), whose own interface does not give them.

The library takes and returns structures by value. Those of parameters are handled as words whose places are checked against the defaults; a version that has
moved them is refused."""
import ctypes
import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BATCH = 512
MINUS_ONE = 0xBF800000  # as a float
F32 = 0
# Word -> its default, in llama_context_params: they tell whether the places below are right.
DEFAULTS = {0: 512, 1: 2048, 2: 512, 3: 1, 13: 0xFFFFFFFF, 16: MINUS_ONE, 17: MINUS_ONE, 21: MINUS_ONE, 26: 1, 27: 1}
CONTEXT, BATCH_MAX, PHYSICAL_BATCH, FLASH_ATTENTION, OBSERVER, CACHE_K, CACHE_V = 0, 1, 2, 13, 22, 26, 27


class Words(ctypes.Structure):
    """More words than any structure of parameters has: what a callee does not know it does not read."""
    _fields_ = [("words", ctypes.c_uint32 * 256)]


class Batch(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int32), ("token", ctypes.POINTER(ctypes.c_int32)), ("embedding", ctypes.c_void_p),
                ("position", ctypes.POINTER(ctypes.c_int32)), ("sequences", ctypes.POINTER(ctypes.c_int32)),
                ("sequence", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))), ("logits", ctypes.POINTER(ctypes.c_int8))]


class Tensor(ctypes.Structure):
    """ggml_tensor; a program that observes a pass is shown each of its operations as one."""


Tensor._fields_ = [("type", ctypes.c_int), ("buffer", ctypes.c_void_p), ("ne", ctypes.c_int64 * 4), ("nb", ctypes.c_size_t * 4), ("op", ctypes.c_int),
                   ("op_params", ctypes.c_int32 * 16), ("flags", ctypes.c_int32), ("src", ctypes.POINTER(Tensor) * 10),
                   ("view_src", ctypes.c_void_p), ("view_offs", ctypes.c_size_t), ("data", ctypes.c_void_p), ("name", ctypes.c_char * 64)]

# Called before an operation, to ask whether it is of interest, and again behind it if so.
OBSERVE = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.POINTER(Tensor), ctypes.c_bool, ctypes.c_void_p)
LOG = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


def library_path():
    """Return the library of this Python's package, or of the one in build/venv, or None where neither is installed."""
    spec = importlib.util.find_spec("xllamacpp")
    folders = [Path(spec.origin).parent] if spec and spec.origin else ROOT.glob("build/venv/lib/python*/site-packages/xllamacpp")
    found = sorted(path for folder in folders for path in folder.glob("*.so"))
    return found[0] if found else None


class LlamaCpp:
    def __init__(self):
        self.library = ctypes.CDLL(str(library_path()))
        self.messages = []
        self.log = LOG(lambda level, text, _: self.messages.append(text.decode(errors="replace")))
        self.library.llama_log_set(self.log, None)
        self.library.llama_backend_init()
        for name, result, arguments in (
                ("llama_model_default_params", Words, []), ("llama_context_default_params", Words, []),
                ("llama_model_load_from_file", ctypes.c_void_p, [ctypes.c_char_p, Words]),
                ("llama_init_from_model", ctypes.c_void_p, [ctypes.c_void_p, Words]), ("llama_decode", ctypes.c_int32, [ctypes.c_void_p, Batch]),
                ("llama_get_logits", ctypes.POINTER(ctypes.c_float), [ctypes.c_void_p]), ("llama_free", None, [ctypes.c_void_p]),
                ("llama_model_free", None, [ctypes.c_void_p]), ("ggml_op_name", ctypes.c_char_p, [ctypes.c_int])):
            function = getattr(self.library, name)
            function.restype, function.argtypes = result, arguments

    def context_parameters(self, positions):
        parameters = self.library.llama_context_default_params()
        moved = {word: parameters.words[word] for word, value in DEFAULTS.items() if parameters.words[word] != value}
        if moved:
            raise RuntimeError(f"this version of xllamacpp has other parameters: {moved}")
        for word, value in ((CONTEXT, positions), (BATCH_MAX, BATCH), (PHYSICAL_BATCH, BATCH), (FLASH_ATTENTION, 0), (CACHE_K, F32), (CACHE_V, F32)):
            parameters.words[word] = value
        return parameters

    def logits(self, path, tokens, vocab_size, context, observe=None):
        """Return a row of logits for each token. The cache is F32. A RuntimeError says why a file is refused. `observe` is an OBSERVE."""
        self.messages.clear()
        parameters = self.context_parameters(context)
        if observe is not None:
            address = ctypes.cast(observe, ctypes.c_void_p).value
            parameters.words[OBSERVER], parameters.words[OBSERVER + 1] = address & 0xFFFFFFFF, address >> 32
        model = self.library.llama_model_load_from_file(str(path).encode(), self.library.llama_model_default_params())
        if not model:
            raise RuntimeError("".join(self.messages[-4:]).strip())
        session = self.library.llama_init_from_model(model, parameters)
        try:
            if not session or self.library.llama_decode(session, batch_of(tokens)) != 0:
                raise RuntimeError("".join(self.messages[-4:]).strip())
            flat = self.library.llama_get_logits(session)
            return [[flat[row * vocab_size + token] for token in range(vocab_size)] for row in range(len(tokens))]
        finally:
            if session:
                self.library.llama_free(session)
            self.library.llama_model_free(model)


def batch_of(tokens):
    count = len(tokens)
    sequence = ctypes.pointer(ctypes.c_int32(0))
    return Batch(count, (ctypes.c_int32 * count)(*tokens), None, (ctypes.c_int32 * count)(*range(count)), (ctypes.c_int32 * count)(*[1] * count),
                 (ctypes.POINTER(ctypes.c_int32) * count)(*[sequence] * count), (ctypes.c_int8 * count)(*[1] * count))
