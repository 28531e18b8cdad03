"""Families of Llama's kind: RMS norms, gated feed-forward, rotated heads."""
import math

import gguf
import numpy as np
import transformers as tf

from family import Family, identity, zero
from recipe import VOCAB

BASE = 10000.0
PLAIN = {"rope_type": "default", "rope_theta": BASE}


class Dense(Family):
    biases = ()         # of "q", "k", "v", "o"
    tied = False
    rope = PLAIN
    head_norm = 1.6     # around which norms of heads lie, so that attention is peaked
    norm_shift = 0.0    # what GGUF's norms have more than transformers'
    head_norms = False
    rotated = None      # elements of a head, if not all

    def config(self):
        return self.common_config() | dict(rms_norm_eps=self.epsilon, tie_word_embeddings=self.tied, rope_parameters=self.rope, head_dim=self.head_dim)

    def fill(self):
        self.metadata()
        self.embed()
        for layer in range(self.layers):
            self.layer(f"blk.{layer}.", f"model.layers.{layer}.")
        self.head()

    def metadata(self):
        self.common_metadata()
        self.recipe.add("add_layer_norm_rms_eps", self.epsilon)
        self.recipe.add("add_rope_freq_base", self.rope["rope_theta"])
        self.recipe.add("add_rope_dimension_count", self.rotated or self.head_dim)
        self.recipe.add("add_key_length", self.head_dim)
        self.recipe.add("add_value_length", self.head_dim)

    def embed(self):
        self.set("model.embed_tokens.weight", self.recipe.draw("token_embd.weight", (VOCAB, self.width), 3 / math.sqrt(self.width) if self.tied else 0.5))

    def head(self):
        self.set("model.norm.weight", self.norm("output_norm.weight", self.width) - self.norm_shift)
        if not self.tied:
            self.set("lm_head.weight", self.matrix("output.weight", VOCAB, self.width, 3.0))

    def layer(self, ours, theirs):
        self.norm_before(ours + "attn_norm", theirs + "input_layernorm")
        self.attention(ours, theirs + "self_attn.")
        self.norm_before(ours + "ffn_norm", theirs + "post_attention_layernorm")
        self.feed_forward(ours, theirs + "mlp.")

    def norm_before(self, ours, theirs, size=None, around=1.0):
        self.set(theirs + ".weight", self.norm(ours + ".weight", size or self.width, around) - self.norm_shift)

    def project(self, ours, theirs, part, outputs, inputs, heads=None, gain=1.0):
        """A matrix and its bias, if it has one. `heads`: it is rotated afterwards."""
        order = (lambda values: self.rows(values, heads)) if heads else (lambda values: values)
        self.set(theirs + ".weight", order(self.matrix(ours + ".weight", outputs, inputs, gain)))
        if part in self.biases:
            self.set(theirs + ".bias", order(self.bias(ours + ".bias", outputs)))

    def attention(self, ours, theirs):
        query, key = self.heads * self.head_dim, self.kv_heads * self.head_dim
        self.project(ours + "attn_q", theirs + "q_proj", "q", query, self.width, self.heads, self.attention_gain)
        self.project(ours + "attn_k", theirs + "k_proj", "k", key, self.width, self.kv_heads, self.attention_gain)
        self.project(ours + "attn_v", theirs + "v_proj", "v", key, self.width)
        self.project(ours + "attn_output", theirs + "o_proj", "o", self.width, query, gain=self.branch)
        if self.head_norms:
            self.norm_before(ours + "attn_q_norm", theirs + "q_norm", self.head_dim, self.head_norm)
            self.norm_before(ours + "attn_k_norm", theirs + "k_norm", self.head_dim, self.head_norm)

    def feed_forward(self, ours, theirs):
        self.project(ours + "ffn_gate", theirs + "gate_proj", "gate", self.ffn, self.width, gain=1.5)
        self.project(ours + "ffn_up", theirs + "up_proj", "up", self.ffn, self.width)
        self.project(ours + "ffn_down", theirs + "down_proj", "down", self.width, self.ffn, gain=self.branch)


class Llama(Dense):
    """Llama 3's frequencies, then Llama 2's kind with linear scaling."""
    name = "llama"
    config_class, model_class = tf.LlamaConfig, tf.LlamaForCausalLM
    pair_neighbours = True

    def vary(self):
        self.rope = [{"rope_type": "llama3", "rope_theta": BASE, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                      "original_max_position_embeddings": 64}, {"rope_type": "linear", "rope_theta": BASE, "factor": 4.0}][self.variant]

    def metadata(self):
        super().metadata()
        if self.variant == 0:
            self.recipe.give("rope_freqs.weight", llama3_factors(self.rope, self.head_dim))
        else:
            self.recipe.add("add_rope_scaling_type", gguf.RopeScalingType.LINEAR)
            self.recipe.add("add_rope_scaling_factor", self.rope["factor"])

    def mutants(self):
        return {"frequencies' scaling": {"rope_parameters": PLAIN}}


def llama3_factors(rope, head_dim):
    """Return the numbers by which Llama 3's rule divides each frequency."""
    turns = rope["original_max_position_embeddings"] * BASE ** (-np.arange(0, head_dim, 2) / head_dim) / (2 * math.pi)
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return 1 / ((1 - smooth) / rope["factor"] + smooth)


class Mistral(Dense):
    """A head size of its own: heads together are wider than the model."""
    name, architecture = "mistral", "llama"
    config_class, model_class = tf.MistralConfig, tf.MistralForCausalLM
    pair_neighbours = True
    head_dim = 24
    rope = {"rope_type": "default", "rope_theta": 1e6}

    def config(self):
        return super().config() | dict(sliding_window=None)

    def mutants(self):
        return {"base of the frequencies": {"rope_parameters": PLAIN}}


class Qwen2(Dense):
    name = "qwen2"
    config_class, model_class = tf.Qwen2Config, tf.Qwen2ForCausalLM
    biases = ("q", "k", "v")
    rope = {"rope_type": "default", "rope_theta": 1e6}

    def vary(self):
        self.tied = self.variant == 1

    def mutants(self):
        return {"base of the frequencies": {"rope_parameters": PLAIN}} | {
            f"bias of {part}": lambda model, part=part: zero(model, f"{part}_proj.bias") for part in self.biases}


class Qwen3(Dense):
    name = "qwen3"
    seeds = 4, 2
    config_class, model_class = tf.Qwen3Config, tf.Qwen3ForCausalLM
    head_norms = True
    head_dim = 24
    rope = {"rope_type": "default", "rope_theta": 1e6}

    def vary(self):
        self.tied = self.variant == 1

    def mutants(self):
        return {"norm of heads of Q": lambda model: identity(model, "q_norm"), "norm of heads of K": lambda model: identity(model, "k_norm"),
                "base of the frequencies": {"rope_parameters": PLAIN}}


class Yarn(Qwen3):
    """Qwen 3 with its scaling of frequencies for long contexts, which also scales rotated heads."""
    name, architecture = "yarn", "qwen3"
    seeds = 4, 2
    rope = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 64}

    def vary(self):
        self.tied = False

    def metadata(self):
        super().metadata()
        self.recipe.add("add_rope_scaling_type", gguf.RopeScalingType.YARN)
        self.recipe.add("add_rope_scaling_factor", self.rope["factor"])
        self.recipe.add("add_rope_scaling_orig_ctx_len", self.rope["original_max_position_embeddings"])

    def mutants(self):
        return {"frequencies' scaling": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
                "scale of heads": {"rope_parameters": self.rope | {"attention_factor": 1.0}},
                "frequencies in between": {"rope_parameters": self.rope | {"beta_fast": 1.0, "beta_slow": 0.25}}}


class Mistral3(Mistral):
    """The same scaling without that of heads, and queries that grow with the position (as Llama 4's)."""
    name, architecture = "mistral3", "mistral3"
    seeds = 4, 2
    config_class, model_class = tf.Ministral3Config, tf.Ministral3ForCausalLM
    rope = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 64, "beta_fast": 32.0, "beta_slow": 1.0,
            "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.5}

    def metadata(self):
        super().metadata()
        self.recipe.add("add_rope_scaling_type", gguf.RopeScalingType.YARN)
        self.recipe.add("add_rope_scaling_factor", self.rope["factor"])
        self.recipe.add("add_rope_scaling_orig_ctx_len", self.rope["original_max_position_embeddings"])
        self.recipe.add("add_rope_scaling_yarn_beta_fast", self.rope["beta_fast"])
        self.recipe.add("add_rope_scaling_yarn_beta_slow", self.rope["beta_slow"])
        self.recipe.add("add_rope_scaling_yarn_log_mul", self.rope["mscale_all_dim"])
        self.recipe.add("add_attn_temperature_scale", self.rope["llama_4_scaling_beta"])

    def mutants(self):
        whole = {key: self.rope[key] for key in ("rope_theta", "llama_4_scaling_beta", "original_max_position_embeddings")}
        return {"frequencies' scaling": {"rope_parameters": whole | {"rope_type": "default"}},
                "growth of queries": {"rope_parameters": self.rope | {"llama_4_scaling_beta": 0.0}}}


FAMILIES = [Llama, Qwen2, Qwen3, Yarn, Mistral, Mistral3]
