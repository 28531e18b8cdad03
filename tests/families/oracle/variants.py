"""Families like Llama's with other norms, scales, orders of tensors or rotations."""
import math

import numpy as np
import transformers as tf

from dense import BASE, PLAIN, Dense
from family import identity, zero

ORIGINAL_CONTEXT = 64


class Fused(Dense):
    """Q, K and V are one matrix, and so are gate and up, in this order, in GGUF and in transformers."""
    fused_attention = True

    def attention(self, ours, theirs):
        if not self.fused_attention:
            super().attention(ours, theirs)
            return
        query, key = self.heads * self.head_dim, self.kv_heads * self.head_dim
        self.project(ours + "attn_qkv", theirs + "qkv_proj", "qkv", query + 2 * key, self.width, gain=self.attention_gain)
        self.project(ours + "attn_output", theirs + "o_proj", "o", self.width, query, gain=self.branch / self.attention_gain)

    def feed_forward(self, ours, theirs):
        self.project(ours + "ffn_up", theirs + "gate_up_proj", "up", 2 * self.ffn, self.width, gain=1.3)
        self.project(ours + "ffn_down", theirs + "down_proj", "down", self.width, self.ffn, gain=self.branch)


class Phi3(Fused):
    """A window first, then two tables of frequencies (longrope), of which a text beyond the original context takes the long one."""
    name = "phi3"
    seeds = 4, 2
    config_class, model_class = tf.Phi3Config, tf.Phi3ForCausalLM

    def vary(self):
        if self.variant == 1:
            self.rotated = 12
            steps = np.arange(self.rotated // 2)
            self.short, self.long = 1 + 0.1 * steps, 1 + 0.7 * steps
            self.rope = {"rope_type": "longrope", "rope_theta": BASE, "short_factor": self.short.tolist(), "long_factor": self.long.tolist(),
                         "original_max_position_embeddings": ORIGINAL_CONTEXT, "partial_rotary_factor": self.rotated / self.head_dim}

    def config(self):
        return super().config() | dict(sliding_window=[64, None][self.variant], original_max_position_embeddings=ORIGINAL_CONTEXT)

    def metadata(self):
        super().metadata()
        if self.variant == 0:
            self.recipe.add("add_sliding_window", 64)
            return
        factor = 256 / ORIGINAL_CONTEXT
        self.recipe.add("add_rope_scaling_orig_ctx_len", ORIGINAL_CONTEXT)
        self.recipe.add("add_rope_scaling_attn_factors", math.sqrt(1 + math.log(factor) / math.log(ORIGINAL_CONTEXT)))
        self.recipe.give("rope_factors_long.weight", self.long)
        self.recipe.give("rope_factors_short.weight", self.short)

    def mutants(self):
        if self.variant == 0:
            return {"window": {"sliding_window": None}}
        whole = {"rope_type": "default", "rope_theta": BASE, "partial_rotary_factor": 0.75}
        return {"long factors": {"rope_parameters": self.rope | {"long_factor": self.rope["short_factor"]}},
                "factors and scale of attention": {"rope_parameters": whole},
                "scale of attention": {"rope_parameters": self.rope | {"attention_factor": 1.0}},
                "part that is not rotated": {"rope_parameters": PLAIN}}


class Olmo2(Dense):
    """Norms behind attention and feed-forward instead of before, and norms of all of Q and of all of K."""
    name = "olmo2"
    config_class, model_class = tf.Olmo2Config, tf.Olmo2ForCausalLM

    def layer(self, ours, theirs):
        self.attention(ours, theirs + "self_attn.")
        self.norm_before(ours + "attn_q_norm", theirs + "self_attn.q_norm", self.heads * self.head_dim, 1.6)
        self.norm_before(ours + "attn_k_norm", theirs + "self_attn.k_norm", self.kv_heads * self.head_dim, 1.6)
        self.norm_before(ours + "post_attention_norm", theirs + "post_attention_layernorm", around=self.branch)
        self.feed_forward(ours, theirs + "mlp.")
        self.norm_before(ours + "post_ffw_norm", theirs + "post_feedforward_layernorm", around=self.branch)

    def mutants(self):
        return {f"norm {name}": lambda model, name=name: identity(model, name)
                for name in ("q_norm", "k_norm", "post_attention_layernorm", "post_feedforward_layernorm")}


class Granite(Dense):
    name = "granite"
    config_class, model_class = tf.GraniteConfig, tf.GraniteForCausalLM
    pair_neighbours = True
    branch = 0.8
    scales = {"embedding_multiplier": 6.0, "residual_multiplier": 0.7, "attention_multiplier": 0.17, "logits_scaling": 3.0}

    def config(self):
        return super().config() | self.scales

    def metadata(self):
        super().metadata()
        self.recipe.add("add_embedding_scale", self.scales["embedding_multiplier"])
        self.recipe.add("add_residual_scale", self.scales["residual_multiplier"])
        self.recipe.add("add_attention_scale", self.scales["attention_multiplier"])
        self.recipe.add("add_logit_scale", self.scales["logits_scaling"])

    def head(self):
        self.set("model.norm.weight", self.norm("output_norm.weight", self.width))
        self.set("lm_head.weight", self.matrix("output.weight", 64, self.width, 9.0))

    def mutants(self):
        neutral = {"embedding_multiplier": 1.0, "residual_multiplier": 1.0, "attention_multiplier": self.head_dim**-0.5, "logits_scaling": 1.0}
        return {name: {name: value} for name, value in neutral.items()}


class SmolLM3(Dense):
    """Every fourth layer rotates nothing."""
    name = "smollm3"
    config_class, model_class = tf.SmolLM3Config, tf.SmolLM3ForCausalLM
    pair_neighbours = True
    tied = True
    rope = {"rope_type": "default", "rope_theta": 5e6}

    def config(self):
        return super().config() | dict(no_rope_layers=[1, 1, 1, 0], no_rope_layer_interval=4, use_sliding_window=False)

    def mutants(self):
        return {"layer that rotates nothing": {"no_rope_layers": [1, 1, 1, 1]}}


class Glm4(Fused):
    """Norms before and behind, biases, half of a head rotated in pairs of neighbours (in transformers, too)."""
    name = "glm4"
    config_class, model_class = tf.Glm4Config, tf.Glm4ForCausalLM
    fused_attention = False
    biases = ("q", "k", "v")
    rotated = 8
    rope = {"rope_type": "default", "rope_theta": BASE, "partial_rotary_factor": 0.5}

    def config(self):
        return super().config() | dict(attention_bias=True)

    def layer(self, ours, theirs):
        super().layer(ours, theirs)
        self.norm_before(ours + "post_attention_norm", theirs + "post_self_attn_layernorm", around=self.branch)
        self.norm_before(ours + "post_ffw_norm", theirs + "post_mlp_layernorm", around=self.branch)

    def mutants(self):
        return {"part that is not rotated": {"rope_parameters": self.rope | {"partial_rotary_factor": 1.0}},
                "biases": lambda model: zero(model, "q_proj.bias", "k_proj.bias", "v_proj.bias"),
                "norm behind attention": lambda model: identity(model, "post_self_attn_layernorm"),
                "norm behind feed-forward": lambda model: identity(model, "post_mlp_layernorm")}


class Exaone4(Olmo2):
    """Norms behind attention and feed-forward instead of before, and of each head. With a window in three of four layers the fourth rotates nothing."""
    name = "exaone4"
    config_class, model_class = tf.Exaone4Config, tf.Exaone4ForCausalLM

    def vary(self):
        self.window = [None, 64][self.variant]

    def config(self):
        kinds = ["full_attention" if self.window is None or layer % 4 == 3 else "sliding_attention" for layer in range(self.layers)]
        return super().config() | dict(sliding_window=self.window, sliding_window_pattern=4, layer_types=kinds)

    def metadata(self):
        super().metadata()
        if self.window is not None:
            self.recipe.add("add_sliding_window", self.window)
            self.recipe.add("add_sliding_window_pattern", [layer % 4 != 3 for layer in range(self.layers)])

    def layer(self, ours, theirs):
        self.attention(ours, theirs + "self_attn.")
        self.norm_before(ours + "attn_q_norm", theirs + "self_attn.q_norm", self.head_dim, 1.6)
        self.norm_before(ours + "attn_k_norm", theirs + "self_attn.k_norm", self.head_dim, 1.6)
        self.norm_before(ours + "post_attention_norm", theirs + "post_attention_layernorm", around=self.branch)
        self.feed_forward(ours, theirs + "mlp.")
        self.norm_before(ours + "post_ffw_norm", theirs + "post_feedforward_layernorm", around=self.branch)

    def mutants(self):
        if self.window is None:
            return super().mutants()
        return super().mutants() | {"layer that rotates nothing": {"sliding_window": None, "layer_types": ["full_attention"] * self.layers},
                                    "windows": {"sliding_window": 256}}


class Ernie45(Dense):
    """Pairs of neighbours, in transformers, too."""
    name = "ernie4_5"
    config_class, model_class = tf.Ernie4_5Config, tf.Ernie4_5ForCausalLM
    head_dim = 24
    rope = {"rope_type": "default", "rope_theta": 5e5}

    def vary(self):
        self.tied = self.variant == 1

    def mutants(self):
        return {"base of the frequencies": {"rope_parameters": PLAIN}}


FAMILIES = [Phi3, Olmo2, Granite, SmolLM3, Glm4, Exaone4, Ernie45]
