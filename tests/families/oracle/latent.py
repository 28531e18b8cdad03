"""DeepSeek's families: attention over a vector that K and V of all heads are made of, and experts behind first layers without them."""
import types

import gguf
import numpy as np
import torch
import transformers as tf

from experts import Experts, routers
from family import identity, zero

PLAIN = {"rope_type": "default", "rope_theta": 10000.0}


class Deepseek(Experts):
    """GGUF has K's matrix of each head transposed, so that it is applied to queries, and V's apart from it."""
    architecture = "deepseek2"
    latent, rotated = 32, 16
    kv_heads = 1
    ffn, dense_ffn = 32, 160
    gating = gguf.ExpertGatingFuncType.SOFTMAX
    query_latent, groups, groups_used, scale, normalises = None, 1, 1, 1.0, False
    yarn = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0, "original_max_position_embeddings": 32, "beta_fast": 32.0, "beta_slow": 1.0}

    def config(self):
        return super().config() | dict(
            num_key_value_heads=self.heads, moe_intermediate_size=self.ffn, intermediate_size=self.dense_ffn, n_routed_experts=self.experts,
            n_shared_experts=self.shared, routed_scaling_factor=self.scale, n_group=self.groups, topk_group=self.groups_used,
            first_k_dense_replace=self.dense, norm_topk_prob=self.normalises, q_lora_rank=self.query_latent, kv_lora_rank=self.latent,
            qk_nope_head_dim=self.plain, qk_rope_head_dim=self.rotated, v_head_dim=self.values, head_dim=self.rotated)

    def common_metadata(self):
        super().common_metadata()
        add = self.recipe.add
        self.recipe.metadata = [entry for entry in self.recipe.metadata if entry[0] != "add_feed_forward_length"]
        add("add_feed_forward_length", self.dense_ffn)
        add("add_expert_feed_forward_length", self.ffn)
        add("add_expert_shared_count", self.shared)
        add("add_leading_dense_block_count", self.dense)
        add("add_expert_gating_func", self.gating)
        add("add_expert_weights_scale", self.scale)
        add("add_expert_weights_norm", self.normalises)
        if self.groups > 1:
            add("add_expert_group_count", self.groups)
            add("add_expert_group_used_count", self.groups_used)
        if self.query_latent:
            add("add_q_lora_rank", self.query_latent)
        add("add_kv_lora_rank", self.latent)
        add("add_key_length_mla", self.plain + self.rotated)
        add("add_value_length_mla", self.values)
        if self.rope["rope_type"] == "yarn":
            add("add_rope_scaling_type", gguf.RopeScalingType.YARN)
            add("add_rope_scaling_factor", self.rope["factor"])
            add("add_rope_scaling_orig_ctx_len", self.rope["original_max_position_embeddings"])
            add("add_rope_scaling_yarn_log_mul", 0.1 * self.rope["mscale_all_dim"])

    def metadata(self):
        super().metadata()
        lengths = {"add_key_length": self.latent + self.rotated, "add_value_length": self.latent}
        self.recipe.metadata = [(method, (lengths[method],), named) if method in lengths else (method, arguments, named)
                                for method, arguments, named in self.recipe.metadata]

    def attention(self, ours, theirs):
        heads, plain, values, latent = self.heads, self.plain, self.values, self.latent
        made_of, inputs = ("q_proj", self.width) if self.query_latent is None else ("q_b_proj", self.query_latent)
        if self.query_latent:
            self.set(theirs + "q_a_proj.weight", self.matrix(ours + "attn_q_a.weight", inputs, self.width))
            self.norm_before(ours + "attn_q_a_norm", theirs + "q_a_layernorm", inputs)
        name = "attn_q_b" if self.query_latent else "attn_q"
        self.set(theirs + made_of + ".weight", self.matrix(f"{ours}{name}.weight", heads * (plain + self.rotated), inputs, self.attention_gain))
        self.set(theirs + "kv_a_proj_with_mqa.weight", self.matrix(ours + "attn_kv_a_mqa.weight", latent + self.rotated, self.width, self.attention_gain))
        self.norm_before(ours + "attn_kv_a_norm", theirs + "kv_a_layernorm", latent)
        key_up = self.recipe.draw(ours + "attn_k_b.weight", (heads, latent, plain), self.attention_gain / latent**0.5)
        value_up = self.recipe.draw(ours + "attn_v_b.weight", (heads, values, latent), 1 / latent**0.5)
        self.set(theirs + "kv_b_proj.weight", np.concatenate([key_up.swapaxes(1, 2), value_up], axis=1).reshape(-1, latent))
        self.set(theirs + "o_proj.weight", self.matrix(ours + "attn_output.weight", self.width, heads * values, self.branch))

    def gated(self, ours, theirs, size):
        for part, outputs, inputs, gain in (("gate", size, self.width, 1.5), ("up", size, self.width, 1.0), ("down", self.width, size, 2 * self.branch)):
            self.set(theirs + f"{part}_proj.weight", self.matrix(ours.format(part), outputs, inputs, gain))

    def feed_forward(self, ours, theirs):
        if int(ours.split(".")[1]) < self.dense:
            self.gated(ours + "ffn_{}.weight", theirs, self.dense_ffn)
            return
        super().feed_forward(ours, theirs)
        if self.gating == gguf.ExpertGatingFuncType.SIGMOID:
            self.set(theirs + "gate.e_score_correction_bias", self.bias(ours + "exp_probs_b.bias", self.experts))
        self.gated(ours + "ffn_{}_shexp.weight", theirs + "shared_experts.", self.shared * self.ffn)

    def mutants(self):
        own = {"norm of the latent vector": lambda model: identity(model, "kv_a_layernorm"), "rotations": without_rotations,
               "the shared expert": lambda model: zero(model, "shared_experts.down_proj.weight"),
               "one of the experts": {"num_experts_per_tok": self.used - 1}}
        if self.query_latent:
            own["norm of what queries are made of"] = lambda model: identity(model, "q_a_layernorm")
        if self.scale != 1:
            own["scale of weights"] = {"routed_scaling_factor": 1.0}
        if self.rope["rope_type"] == "yarn":
            own["frequencies' scaling"] = {"rope_parameters": PLAIN}
            own["growth of scores"] = scores_as_they_are
        return own


def without_rotations(model):
    """Make all positions the first."""
    def forward(self, x, position_ids):
        return plain_forward(self, x, torch.zeros_like(position_ids))

    plain_forward = type(model.model.rotary_emb).forward
    model.model.rotary_emb.forward = types.MethodType(forward, model.model.rotary_emb)


def scores_as_they_are(model):
    for layer in model.model.layers:
        layer.self_attn.scaling = layer.self_attn.qk_head_dim**-0.5


class DeepseekV2(Deepseek):
    """Lite, and the large one: the softmax's weights as they are, of all experts or of the groups with the largest of them."""
    name = "deepseek-v2"
    seeds = 3, 2
    config_class, model_class = tf.DeepseekV2Config, tf.DeepseekV2ForCausalLM

    def vary(self):
        self.experts, self.used, self.shared, self.dense = [(12, 4, 2, 1), (16, 4, 1, 2)][self.variant]
        self.plain, self.values = [(16, 16), (32, 24)][self.variant]
        self.layers = [26, 4][self.variant]  # llama.cpp knows the light ones by it
        self.rope = [self.yarn | {"mscale": 0.707, "mscale_all_dim": 0.707}, PLAIN][self.variant]
        if self.variant == 1:
            self.query_latent, self.groups, self.groups_used, self.scale = 48, 4, 2, 3.0

    def config(self):
        return super().config() | dict(topk_method="group_limited_greedy" if self.groups > 1 else "greedy")

    def mutants(self):
        return super().mutants() | ({"groups": {"topk_method": "greedy"}} if self.groups > 1 else {})


class DeepseekV3(Deepseek):
    """V3 and R1, and those without groups and YaRN: sigmoids with a bias of the choice, and weights that add up to 1."""
    name = "deepseek-v3"
    seeds = 13, 2
    config_class, model_class = tf.DeepseekV3Config, tf.DeepseekV3ForCausalLM
    gating = gguf.ExpertGatingFuncType.SIGMOID
    normalises = True
    experts, used = 16, 4

    def vary(self):
        self.shared, self.dense, self.scale = [(1, 1, 2.5), (1, 1, 1.8)][self.variant]
        self.plain, self.values = [(32, 16), (16, 32)][self.variant]
        self.query_latent, self.groups, self.groups_used = [(32, 4, 2), (None, 1, 1)][self.variant]
        self.rope = [self.yarn | {"mscale": 1.0, "mscale_all_dim": 1.0}, PLAIN][self.variant]

    def config(self):
        return super().config() | dict(rope_interleave=True, num_nextn_predict_layers=0)

    def mutants(self):
        def without_bias(model):
            for router in routers(model):
                router.e_score_correction_bias.zero_()

        own = {"bias of the choice": without_bias, "weights that add up to 1": {"norm_topk_prob": False}, "neighbours as pairs": {"rope_interleave": False}}
        return super().mutants() | own | ({"groups": {"n_group": 1, "topk_group": 1}} if self.groups > 1 else {})


class DeepseekHeads(DeepseekV3):
    """More heads on one vector of K and V than a GPU's attention takes together, as all but the smallest have them."""
    name = "deepseek-heads"
    seeds = 5, 1
    heads = 20

    def vary(self):
        super().vary()
        self.layers, self.plain, self.values = 2, 8, 8


class Glm4MoeLite(DeepseekV3):
    """GLM 4.7 Flash: V3 without groups and YaRN, whose V is wider than what of K is not rotated, and whose config lists the layers without experts."""
    name = "glm4moelite"
    seeds = 12, 2
    config_class, model_class = tf.Glm4MoeLiteConfig, tf.Glm4MoeLiteForCausalLM

    def vary(self):
        self.shared, self.dense, self.scale = [(1, 1, 1.8), (2, 2, 1.0)][self.variant]
        self.plain, self.values = [(24, 32), (16, 24)][self.variant]
        self.query_latent = [48, 32][self.variant]
        self.rope = {"rope_type": "default", "rope_theta": [1000000.0, 10000.0][self.variant]}

    def config(self):
        config = super().config() | dict(mlp_layer_types=["dense"] * self.dense + ["sparse"] * (self.layers - self.dense))
        config.pop("first_k_dense_replace")
        config.pop("head_dim")  # it is another name of qk_rope_head_dim
        return config


FAMILIES = [DeepseekV2, DeepseekV3, DeepseekHeads, Glm4MoeLite]
