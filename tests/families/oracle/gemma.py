"""Gemma's families: norms that GGUF has with 1 added, scaled embeddings that are the head, GELU, softcaps, windows."""
import math

import gguf
import transformers as tf

from dense import BASE, PLAIN, Dense
from family import identity, zero
from recipe import VOCAB

WINDOW = 64


class Gemma(Dense):
    name = "gemma"
    config_class, model_class = tf.GemmaConfig, tf.GemmaForCausalLM
    tied = True
    norm_shift = 1.0
    head_dim = 24
    branch = 0.6  # beside embeddings that are scaled by 8

    def config(self):
        return super().config() | dict(hidden_activation="gelu_pytorch_tanh", hidden_act="gelu_pytorch_tanh")

    def mutants(self):
        return {"GELU": {"hidden_activation": "silu", "hidden_act": "silu"}, "scale of embeddings": scale_nothing}


def scale_nothing(model):
    """Take the scale of embeddings away, wherever this version of transformers has it."""
    embed = model.model.embed_tokens
    if hasattr(embed, "embed_scale"):
        embed.embed_scale.fill_(1.0)
        return
    forward = embed.forward
    embed.forward = lambda ids: forward(ids) / model.config.hidden_size**0.5


class Gemma2(Gemma):
    """Softcaps of attention and logits, a window in every other layer, norms before and behind."""
    name = "gemma2"
    config_class, model_class = tf.Gemma2Config, tf.Gemma2ForCausalLM
    softcaps = {"attn_logit_softcapping": 8.0, "final_logit_softcapping": 10.0}

    def config(self):
        return super().config() | self.softcaps | dict(query_pre_attn_scalar=self.head_dim, sliding_window=WINDOW)

    def metadata(self):
        super().metadata()
        self.recipe.add("add_sliding_window", WINDOW)
        self.recipe.add("add_attn_logit_softcapping", self.softcaps["attn_logit_softcapping"])
        self.recipe.add("add_final_logit_softcapping", self.softcaps["final_logit_softcapping"])

    def layer(self, ours, theirs):
        self.norm_before(ours + "attn_norm", theirs + "input_layernorm")
        self.attention(ours, theirs + "self_attn.")
        self.norm_before(ours + "post_attention_norm", theirs + "post_attention_layernorm", around=self.branch)
        self.norm_before(ours + "ffn_norm", theirs + "pre_feedforward_layernorm")
        self.feed_forward(ours, theirs + "mlp.")
        self.norm_before(ours + "post_ffw_norm", theirs + "post_feedforward_layernorm", around=self.branch)

    def mutants(self):
        return super().mutants() | {
            "softcap of attention": {"attn_logit_softcapping": None}, "softcap of logits": {"final_logit_softcapping": None},
            "windows": {"layer_types": ["full_attention"] * self.layers}, "layers without a window": {"layer_types": ["sliding_attention"] * self.layers},
            "norm behind attention": lambda model: identity(model, "post_attention_layernorm"),
            "norm behind feed-forward": lambda model: identity(model, "post_feedforward_layernorm")}


class Gemma3(Gemma2):
    """Five layers with a window to one without, each kind with its own frequencies, and norms of heads instead of softcaps. Six layers, so that both are there."""
    name = "gemma3"
    config_class, model_class = tf.Gemma3TextConfig, tf.Gemma3ForCausalLM
    softcaps = {}
    head_norms = True
    layers = 6
    rope = {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0}

    def config(self):
        ropes = {"full_attention": self.rope, "sliding_attention": PLAIN}
        kinds = ["sliding_attention" if (layer + 1) % 6 else "full_attention" for layer in range(self.layers)]
        return super().config() | dict(rope_parameters=ropes, layer_types=kinds)

    def metadata(self):
        super(Gemma2, self).metadata()
        self.recipe.add("add_sliding_window", WINDOW)
        self.recipe.add("add_rope_freq_base_swa", BASE)
        self.recipe.add("add_rope_scaling_type", gguf.RopeScalingType.LINEAR)
        self.recipe.add("add_rope_scaling_factor", self.rope["factor"])

    def mutants(self):
        kept = {quirk: change for quirk, change in super().mutants().items() if "softcap" not in quirk}
        both = lambda full, window: {"rope_parameters": {"full_attention": full, "sliding_attention": window}}
        return kept | {"frequencies of layers with a window": both(self.rope, self.rope), "frequencies of layers without": both(PLAIN, PLAIN),
                       "scaling of layers without a window": both(PLAIN | {"rope_theta": 1e6}, PLAIN),
                       "norm of heads of Q": lambda model: identity(model, "q_norm"), "norm of heads of K": lambda model: identity(model, "k_norm")}


class Gemma4(Gemma2):
    """The dense kind. Layers without a window have larger heads, fewer of K and V, and rotate a quarter of a head, slowly; in the first model their V is their K.
    Attention has no scale, V a norm without weights, and each layer's output is scaled. Norms are stored as they are."""
    name = "gemma4"
    config_class, model_class = tf.Gemma4TextConfig, tf.Gemma4ForCausalLM
    norm_shift = 0.0
    softcaps = {"final_logit_softcapping": 10.0}
    head_norms = True
    head_norm = 0.75
    head_dim, whole_head_dim, whole_kv_heads = 16, 32, 1
    rope = {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25}
    infinity = 1e30  # divides the frequencies of the rest of a head

    inputs = shared = 0  # elements of a layer's own input; layers that attend to K and V of others

    def is_whole(self, layer):
        return layer == self.layers - 1

    def has_kv(self, layer):
        return layer < self.layers - self.shared

    def takes_key(self, layer):
        """Is the layer's V its K, of which there are fewer heads?"""
        return self.is_whole(layer) and self.variant == 0

    def config(self):
        kinds = ["full_attention" if self.is_whole(layer) else "sliding_attention" for layer in range(self.layers)]
        shared = self.variant == 0
        return super().config() | dict(rope_parameters={"full_attention": self.rope, "sliding_attention": PLAIN}, layer_types=kinds,
                                       global_head_dim=self.whole_head_dim, num_global_key_value_heads=self.whole_kv_heads if shared else None,
                                       attention_k_eq_v=shared, hidden_size_per_layer_input=self.inputs, num_kv_shared_layers=self.shared)

    def metadata(self):
        add = self.recipe.add
        self.common_metadata()
        kv_heads = [self.whole_kv_heads if self.takes_key(layer) else self.kv_heads for layer in range(self.layers)]
        self.recipe.metadata = [entry for entry in self.recipe.metadata if entry[0] != "add_head_count_kv"]
        add("add_head_count_kv", kv_heads)
        add("add_layer_norm_rms_eps", self.epsilon)
        add("add_rope_freq_base", self.rope["rope_theta"])
        add("add_rope_freq_base_swa", BASE)
        add("add_rope_dimension_count", self.whole_head_dim)
        add("add_rope_dimension_count_swa", self.head_dim)
        add("add_key_length", self.whole_head_dim)
        add("add_value_length", self.whole_head_dim)
        add("add_key_length_swa", self.head_dim)
        add("add_value_length_swa", self.head_dim)
        add("add_sliding_window", WINDOW)
        add("add_sliding_window_pattern", [not self.is_whole(layer) for layer in range(self.layers)])
        add("add_final_logit_softcapping", self.softcaps["final_logit_softcapping"])
        add("add_embedding_length_per_layer_input", self.inputs)
        add("add_shared_kv_layers", self.shared)
        rotated = int(self.rope["partial_rotary_factor"] * self.whole_head_dim // 2)
        self.recipe.give("rope_freqs.weight", [1.0] * rotated + [self.infinity] * (self.whole_head_dim // 2 - rotated))

    def attention(self, ours, theirs):
        layer = int(ours.split(".")[1])
        whole = self.is_whole(layer)
        size = self.whole_head_dim if whole else self.head_dim
        kv_heads = self.whole_kv_heads if self.takes_key(layer) else self.kv_heads
        self.project(ours + "attn_q", theirs + "q_proj", "q", self.heads * size, self.width)
        if self.has_kv(layer):
            self.project(ours + "attn_k", theirs + "k_proj", "k", kv_heads * size, self.width)
        if self.has_kv(layer) and not self.takes_key(layer):
            self.project(ours + "attn_v", theirs + "v_proj", "v", kv_heads * size, self.width)
        self.project(ours + "attn_output", theirs + "o_proj", "o", self.width, self.heads * size)
        self.norm_before(ours + "attn_q_norm", theirs + "q_norm", size, self.head_norm)
        if self.has_kv(layer):
            self.norm_before(ours + "attn_k_norm", theirs + "k_norm", size, self.head_norm)

    def layer(self, ours, theirs):
        super().layer(ours, theirs)
        self.set(theirs + "layer_scalar", self.recipe.draw(ours + "layer_output_scale.weight", (1,), 0.1, 0.8))

    def mutants(self):
        kept = {quirk: change for quirk, change in super().mutants().items() if "attention" not in quirk or "norm" in quirk}
        kept.pop("windows"), kept.pop("layers without a window")  # kinds of layers have their own shapes
        both = lambda full, window: {"rope_parameters": {"full_attention": full, "sliding_attention": window}}
        return kept | {"frequencies of layers with a window": both(self.rope, PLAIN | {"rope_theta": 1e6}),
                       "frequencies of layers without": both(self.rope | {"rope_theta": BASE}, PLAIN),
                       "part that is not rotated": both(self.rope | {"partial_rotary_factor": 1.0}, PLAIN),
                       "windows": {"sliding_window": 256},
                       "scales of layers": lambda model: [layer.layer_scalar.fill_(1.0) for layer in model.model.layers],
                       "norm of V": lambda model: identity(model, "v_norm"),
                       "norm of heads of Q": lambda model: identity(model, "q_norm"), "norm of heads of K": lambda model: identity(model, "k_norm")}


class Gemma4Shared(Gemma4):
    """The smaller sizes' kind. The last layers attend to K and V of the last layers of their kinds before them, in the first model with a feed-forward of twice the
    size; each layer gets something of the token besides. Of the layers with K and V of their own
    the last but one has a window and the last has none: llama.cpp knows no other order."""
    name, architecture = "gemma4-shared", "gemma4"
    inputs, shared = 32, 2

    def vary(self):
        self.layers = 8 if self.variant == 0 else 6

    def is_whole(self, layer):
        return layer in (5, 7) if self.variant == 0 else layer in (3, 5)

    def config(self):
        return super().config() | dict(attention_k_eq_v=False, num_global_key_value_heads=None, use_double_wide_mlp=self.variant == 0,
                                       vocab_size_per_layer_input=VOCAB)

    def metadata(self):
        super().metadata()
        self.recipe.metadata = [entry for entry in self.recipe.metadata if entry[0] != "add_feed_forward_length"]
        self.recipe.add("add_feed_forward_length", [self.ffn_of(layer) for layer in range(self.layers)])

    def ffn_of(self, layer):
        return 2 * self.ffn if self.variant == 0 and not self.has_kv(layer) else self.ffn

    def embed(self):
        super().embed()
        all_inputs = self.layers * self.inputs
        self.set("model.embed_tokens_per_layer.weight", self.recipe.draw("per_layer_token_embd.weight", (VOCAB, all_inputs), 1 / math.sqrt(self.inputs)))
        self.project("per_layer_model_proj", "model.per_layer_model_projection", "inputs", all_inputs, self.width)
        self.norm_before("per_layer_proj_norm", "model.per_layer_projection_norm", self.inputs)

    def takes_key(self, layer):
        return False

    def feed_forward(self, ours, theirs):
        usual, self.ffn = self.ffn, self.ffn_of(int(ours.split(".")[1]))
        super().feed_forward(ours, theirs)
        self.ffn = usual

    def layer(self, ours, theirs):
        super().layer(ours, theirs)
        self.project(ours + "inp_gate", theirs + "per_layer_input_gate", "gate", self.inputs, self.width)
        self.project(ours + "proj", theirs + "per_layer_projection", "projection", self.width, self.inputs)
        self.norm_before(ours + "post_norm", theirs + "post_per_layer_input_norm", around=self.branch)

    def mutants(self):
        return super().mutants() | {
            "what inputs have of the token": lambda model: zero(model, "embed_tokens_per_layer.weight"),
            "what inputs have of the embedding": lambda model: zero(model, "per_layer_model_projection.weight"),
            "norm of inputs": lambda model: identity(model, "per_layer_projection_norm"),
            "norm behind inputs": lambda model: identity(model, "post_per_layer_input_norm")}


FAMILIES = [Gemma, Gemma2, Gemma3, Gemma4, Gemma4Shared]
