"""A family: how a small random model of it is made, as a recipe and as transformers' model of the same weights.

A subclass says the rest in `fill`: metadata, tensors, and which parameter of transformers' model is made of which tensors. `mutants` are its quirks: each
changes transformers' model into one without the quirk, whose logits must differ by far.
"""
import math

import torch

from recipe import VOCAB, Recipe

CONTEXT = 256


class Family:
    name = architecture = None  # the recipe's and GGUF's
    width, ffn, layers, heads, kv_heads, head_dim = 64, 96, 4, 4, 2, 16
    epsilon = 1e-5
    seeds = 1, 2             # others where too few positions have a clear greedy id
    pair_neighbours = False  # llama.cpp's order of the rows of Q and K where a rotation's pairs are neighbours
    attention_gain = 1.6     # deviation of Q and K, so that attention is peaked
    branch = 0.1            # of what attention and feed-forward add: a residual that is mostly the embedding passes roundings on, but does not amplify them

    def __init__(self, variant):
        self.variant = variant
        self.recipe = Recipe(self.architecture or self.name, self.seeds[variant])
        self.parameters = {}  # of transformers' model
        self.vary()
        self.fill()

    def vary(self):
        """Change what differs between the two seeds' models."""

    def common_config(self):
        return dict(vocab_size=VOCAB, hidden_size=self.width, intermediate_size=self.ffn, num_hidden_layers=self.layers, num_attention_heads=self.heads,
                    num_key_value_heads=self.kv_heads, max_position_embeddings=CONTEXT, attn_implementation="eager", bos_token_id=1, eos_token_id=2,
                    pad_token_id=0)

    def common_metadata(self):
        add = self.recipe.add
        add("add_context_length", CONTEXT)
        add("add_block_count", self.layers)
        add("add_embedding_length", self.width)
        add("add_feed_forward_length", self.ffn)
        add("add_head_count", self.heads)
        add("add_head_count_kv", self.kv_heads)

    def matrix(self, name, outputs, inputs, gain=1.0):
        return self.recipe.draw(name, (outputs, inputs), gain / math.sqrt(inputs))

    def norm(self, name, size, shift=1.0):
        return self.recipe.draw(name, (size,), 0.25 * shift, shift)

    def bias(self, name, size, deviation=0.3):
        return self.recipe.draw(name, (size,), deviation)

    def set(self, parameter, values):
        assert parameter not in self.parameters
        self.parameters[parameter] = values

    def rows(self, values, heads):
        """Put rows of Q or K, which llama.cpp has with neighbours as pairs, into transformers' order."""
        if not self.pair_neighbours:
            return values
        return values.reshape(heads, -1, 2, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)

    def build(self, **overrides):
        """Return transformers' model; `overrides` replace values of its configuration."""
        model = self.model_class(self.config_class(**(self.config() | overrides))).eval()
        state = {name: torch.tensor(values) for name, values in self.parameters.items()}
        missing, unexpected = model.load_state_dict(state, strict=False)
        tied = {"lm_head.weight"} if model.config.tie_word_embeddings else set()
        names = {name for name, _ in model.named_parameters()}
        assert not (set(missing) & names) - tied and not set(unexpected) - set(self.forgiven()), (missing, unexpected)
        return model

    def forgiven(self):
        """Return parameters that a mutant's model may lack."""
        return [name for name in self.parameters if "bias" in name or "lm_head" in name]

    def mutants(self):
        """Return {quirk: overrides of the configuration, or a function that changes the model}."""
        return {}


@torch.no_grad()
def zero(model, *endings):
    """Set the parameters with these names' endings to 0, of all layers."""
    found = [parameter for name, parameter in model.named_parameters() if name.endswith(endings)]
    assert found, endings
    for parameter in found:
        parameter.zero_()


def replace(model, ending, change):
    """Replace the modules with this end of their names by what `change` makes of them."""
    names = [name for name, _ in model.named_modules() if name.endswith(ending)]
    assert names, ending
    for name in names:
        parent, _, child = name.rpartition(".")
        owner = model.get_submodule(parent)
        setattr(owner, child, change(getattr(owner, child)))


def identity(model, ending):
    replace(model, ending, lambda _: torch.nn.Identity())
