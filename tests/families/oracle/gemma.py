"""Gemma's families: norms that GGUF has with 1 added, scaled embeddings that are the head, GELU, softcaps, windows."""
import gguf
import transformers as tf

from dense import BASE, PLAIN, Dense
from family import identity

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


FAMILIES = [Gemma, Gemma2, Gemma3]
