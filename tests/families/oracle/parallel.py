"""Families whose attention and feed-forward read the same input, and OPT."""
import math

import numpy as np
import transformers as tf

from dense import PLAIN, Dense
from family import CONTEXT, zero
from layernorm import LayerNorm
from recipe import VOCAB

WINDOW = 64


class CommandR(Dense):
    """Layer norms without biases, one for attention and feed-forward; pairs of neighbours (in transformers, too); scaled logits."""
    name, architecture = "command-r", "command-r"
    config_class, model_class = tf.CohereConfig, tf.CohereForCausalLM
    tied = True
    logit_scale = 0.5

    def config(self):
        return super().config() | dict(layer_norm_eps=self.epsilon, logit_scale=self.logit_scale)

    def metadata(self):
        self.common_metadata()
        self.recipe.add("add_layer_norm_eps", self.epsilon)
        self.recipe.add("add_rope_freq_base", self.rope["rope_theta"])
        self.recipe.add("add_rope_dimension_count", self.head_dim)
        self.recipe.add("add_logit_scale", self.logit_scale)

    def embed(self):
        self.set("model.embed_tokens.weight", self.recipe.draw("token_embd.weight", (VOCAB, self.width), 3 / math.sqrt(self.width) / self.logit_scale))

    def layer(self, ours, theirs):
        self.norm_before(ours + "attn_norm", theirs + "input_layernorm")
        self.attention(ours, theirs + "self_attn.")
        self.feed_forward(ours, theirs + "mlp.")

    def mutants(self):
        return {"scale of logits": {"logit_scale": 1.0}, "base of the frequencies": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}}


class Cohere2(CommandR):
    """The same with a window in three of four layers, which alone rotate."""
    name, architecture = "cohere2", "cohere2"
    config_class, model_class = tf.Cohere2Config, tf.Cohere2ForCausalLM

    def config(self):
        kinds = ["sliding_attention" if (layer + 1) % 4 else "full_attention" for layer in range(self.layers)]
        return super().config() | dict(sliding_window=WINDOW, layer_types=kinds)

    def metadata(self):
        super().metadata()
        self.recipe.add("add_sliding_window", WINDOW)

    def mutants(self):
        return super().mutants() | {"layers with a window": {"layer_types": ["full_attention"] * self.layers},
                                    "windows": {"sliding_window": CONTEXT},
                                    "layer without": {"layer_types": ["sliding_attention"] * self.layers}}


class Falcon(LayerNorm):
    """One key-value head first; then groups of heads, and norms of their own for attention and feed-forward. transformers has Q, K and V by groups."""
    name = "falcon"
    config_class, model_class = tf.FalconConfig, tf.FalconForCausalLM
    tied = True
    ffn = 128

    def vary(self):
        self.kv_heads = [1, 2][self.variant]

    def config(self):
        return dict(vocab_size=VOCAB, hidden_size=self.width, ffn_hidden_size=self.ffn, num_hidden_layers=self.layers, num_attention_heads=self.heads,
                    num_kv_heads=self.kv_heads, new_decoder_architecture=self.variant == 1, multi_query=True, parallel_attn=True, bias=False,
                    layer_norm_epsilon=self.epsilon, max_position_embeddings=CONTEXT, rope_parameters=PLAIN, attn_implementation="eager",
                    bos_token_id=1, eos_token_id=2)

    def metadata(self):
        super().metadata()
        self.recipe.add("add_rope_freq_base", PLAIN["rope_theta"])

    def embed(self):
        self.set("transformer.word_embeddings.weight", self.recipe.draw("token_embd.weight", (VOCAB, self.width), 3 / math.sqrt(self.width)))

    def layer(self, ours, theirs):
        theirs = theirs.replace("model.layers", "transformer.h")
        self.norm_before(ours + "attn_norm", theirs + ["input_layernorm", "ln_mlp"][self.variant])
        if self.variant == 1:
            self.norm_before(ours + "attn_norm_2", theirs + "ln_attn")
        size = self.head_dim
        fused = self.matrix(ours + "attn_qkv.weight", (self.heads + 2 * self.kv_heads) * size, self.width, self.attention_gain)
        query, key, value = np.split(fused.reshape(-1, size, self.width), [self.heads, self.heads + self.kv_heads])
        groups = np.concatenate([query.reshape(self.kv_heads, -1, size, self.width), key[:, None], value[:, None]], axis=1)
        self.set(theirs + "self_attention.query_key_value.weight", groups.reshape(fused.shape))
        self.project(ours + "attn_output", theirs + "self_attention.dense", "o", self.width, self.width, gain=self.branch)
        self.project(ours + "ffn_up", theirs + "mlp.dense_h_to_4h", "up", self.ffn, self.width, gain=1.5)
        self.project(ours + "ffn_down", theirs + "mlp.dense_4h_to_h", "down", self.width, self.ffn, gain=self.branch)

    def head(self):
        self.norm_before("output_norm", "transformer.ln_f")

    def mutants(self):
        norms = [["input_layernorm"], ["ln_mlp", "ln_attn"]][self.variant]
        return {f"bias of {name}": lambda model, name=name: zero(model, f"{name}.bias") for name in (*norms, "ln_f")} | {
            "GELU": {"activation": "silu"}, "base of the frequencies": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}}


class Opt(LayerNorm):
    """Learned positions, biases everywhere, ReLU. llama.cpp has no OPT; names are as in GPT-2 with Q, K and V apart. Of transformers' positions the first two
    are never used, and not in GGUF."""
    name = "opt"
    config_class, model_class = tf.OPTConfig, tf.OPTForCausalLM
    kv_heads = 4
    biases = ("q", "k", "v", "o", "up", "down")
    tied = True

    def config(self):
        return dict(vocab_size=VOCAB, hidden_size=self.width, ffn_dim=self.ffn, num_hidden_layers=self.layers, num_attention_heads=self.heads,
                    max_position_embeddings=CONTEXT, activation_function="relu", do_layer_norm_before=True, word_embed_proj_dim=self.width,
                    attn_implementation="eager", bos_token_id=1, eos_token_id=2, pad_token_id=0)

    def embed(self):
        self.set("model.decoder.embed_tokens.weight", self.recipe.draw("token_embd.weight", (VOCAB, self.width), 3 / math.sqrt(self.width)))
        positions = self.recipe.draw("position_embd.weight", (CONTEXT, self.width), 0.3)
        self.set("model.decoder.embed_positions.weight", np.concatenate([np.zeros((2, self.width), np.float32), positions]))

    def set(self, parameter, values):
        super().set(parameter.replace("model.layers", "model.decoder.layers").replace("o_proj", "out_proj"), values)

    def layer(self, ours, theirs):
        self.norm_before(ours + "attn_norm", theirs + "self_attn_layer_norm")
        self.attention(ours, theirs + "self_attn.")
        self.norm_before(ours + "ffn_norm", theirs + "final_layer_norm")
        self.project(ours + "ffn_up", theirs + "fc1", "up", self.ffn, self.width, gain=1.5)
        self.project(ours + "ffn_down", theirs + "fc2", "down", self.width, self.ffn, gain=self.branch)

    def head(self):
        self.norm_before("output_norm", "model.decoder.final_layer_norm")

    def mutants(self):
        # The bias of K adds the same to all scores of a row where nothing is rotated, and so has no effect.
        return {f"bias of {name}": lambda model, name=name: zero(model, f"{name}.bias")
                for name in ("q_proj", "v_proj", "out_proj", "fc1", "fc2", "self_attn_layer_norm", "final_layer_norm")} | {
            "positions": lambda model: zero(model, "embed_positions.weight"), "ReLU": {"activation_function": "silu"}}


FAMILIES = [CommandR, Cohere2, Falcon, Opt]
