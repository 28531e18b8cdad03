"""Families with layer norms instead of RMS norms, and a feed-forward without a gate."""
import math

import transformers as tf

from dense import PLAIN, Dense
from family import CONTEXT, zero
from recipe import VOCAB


class LayerNorm(Dense):
    """Norms with biases."""

    def metadata(self):
        self.common_metadata()
        self.recipe.add("add_layer_norm_eps", self.epsilon)

    def norm_before(self, ours, theirs, size=None, around=1.0):
        super().norm_before(ours, theirs, size, around)
        self.set(theirs + ".bias", self.bias(ours + ".bias", size or self.width))


class Starcoder2(LayerNorm):
    """Biases everywhere, GELU."""
    name = "starcoder2"
    config_class, model_class = tf.Starcoder2Config, tf.Starcoder2ForCausalLM
    biases = ("q", "k", "v", "o", "up", "down")
    rope = {"rope_type": "default", "rope_theta": 1e6}

    def vary(self):
        self.tied = self.variant == 1

    def config(self):
        return super().config() | dict(norm_epsilon=self.epsilon, use_bias=True, hidden_act="gelu_pytorch_tanh", sliding_window=None)

    def metadata(self):
        super().metadata()
        self.recipe.add("add_rope_freq_base", self.rope["rope_theta"])
        self.recipe.add("add_rope_dimension_count", self.head_dim)

    def feed_forward(self, ours, theirs):
        self.project(ours + "ffn_up", theirs + "c_fc", "up", self.ffn, self.width, gain=1.5)
        self.project(ours + "ffn_down", theirs + "c_proj", "down", self.width, self.ffn, gain=self.branch)

    def head(self):
        self.norm_before("output_norm", "model.norm")
        if not self.tied:
            self.set("lm_head.weight", self.matrix("output.weight", VOCAB, self.width, 3.0))

    def mutants(self):
        return {f"bias of {name}": lambda model, name=name: zero(model, f"{name}.bias")
                for name in ("q_proj", "k_proj", "v_proj", "o_proj", "c_fc", "c_proj", "input_layernorm", "post_attention_layernorm", "model.norm")} | {
            "GELU": {"hidden_act": "silu"}, "base of the frequencies": {"rope_parameters": PLAIN}}


class Gpt2(LayerNorm):
    """Learned positions; Q, K and V are one matrix with a bias. transformers has matrices with inputs first."""
    name = "gpt2"
    config_class, model_class = tf.GPT2Config, tf.GPT2LMHeadModel
    kv_heads = 4
    biases = ("qkv", "o", "up", "down")

    def vary(self):
        self.tied = self.variant == 0

    def config(self):
        return dict(vocab_size=VOCAB, n_embd=self.width, n_inner=self.ffn, n_layer=self.layers, n_head=self.heads, n_positions=CONTEXT,
                    layer_norm_epsilon=self.epsilon, activation_function="gelu_new", tie_word_embeddings=self.tied, attn_implementation="eager",
                    bos_token_id=1, eos_token_id=2)

    def embed(self):
        self.set("transformer.wte.weight", self.recipe.draw("token_embd.weight", (VOCAB, self.width), 3 / math.sqrt(self.width)))
        self.set("transformer.wpe.weight", self.recipe.draw("position_embd.weight", (CONTEXT, self.width), 0.3))

    def set(self, parameter, values):
        parameter = parameter.replace("model.layers", "transformer.h")
        turned = values.ndim == 2 and ".h." in parameter
        super().set(parameter, values.T.copy() if turned else values)

    def layer(self, ours, theirs):
        self.norm_before(ours + "attn_norm", theirs + "ln_1")
        self.project(ours + "attn_qkv", theirs + "attn.c_attn", "qkv", 3 * self.width, self.width, gain=self.attention_gain)
        self.project(ours + "attn_output", theirs + "attn.c_proj", "o", self.width, self.width, gain=self.branch)
        self.norm_before(ours + "ffn_norm", theirs + "ln_2")
        self.project(ours + "ffn_up", theirs + "mlp.c_fc", "up", self.ffn, self.width, gain=1.5)
        self.project(ours + "ffn_down", theirs + "mlp.c_proj", "down", self.width, self.ffn, gain=self.branch)

    def head(self):
        self.norm_before("output_norm", "transformer.ln_f")
        if not self.tied:
            self.set("lm_head.weight", self.matrix("output.weight", VOCAB, self.width, 3.0))

    def mutants(self):
        return {f"bias of {name}": lambda model, name=name: zero(model, f"{name}.bias")
                for name in ("c_attn", "attn.c_proj", "c_fc", "mlp.c_proj", "ln_1", "ln_2", "ln_f")} | {
            "positions": lambda model: zero(model, "wpe.weight"), "GELU": {"activation_function": "silu"}}


FAMILIES = [Starcoder2, Gpt2]
