"""Families whose feed-forward network is experts."""
import math
import types

import gguf
import numpy as np
import torch
import transformers as tf

from dense import PLAIN, Dense
from family import identity, zero

NEAR = 1e-4  # routing is near a tie where the last logit that is chosen is this close to the first that is not


class Experts(Dense):
    """A router takes `used` of `experts`. GGUF has a tensor for all gates, one for all ups and one for all downs; transformers has gates and ups in one."""
    experts, used = 8, 2
    normalises = True
    router_gain = 2.0

    def common_metadata(self):
        super().common_metadata()
        self.recipe.add("add_expert_count", self.experts)
        self.recipe.add("add_expert_used_count", self.used)

    def config(self):
        return super().config() | dict(num_experts_per_tok=self.used, experts_implementation="eager")

    def stack(self, name, outputs, inputs, gain):
        """A matrix for each expert."""
        return self.recipe.draw(name, (self.experts, outputs, inputs), gain / inputs**0.5)

    def feed_forward(self, ours, theirs):
        self.set(theirs + "gate.weight", self.matrix(ours + "ffn_gate_inp.weight", self.experts, self.width, self.router_gain))
        gate = self.stack(ours + "ffn_gate_exps.weight", self.ffn, self.width, 1.5)
        up = self.stack(ours + "ffn_up_exps.weight", self.ffn, self.width, 1.0)
        self.set(theirs + "experts.gate_up_proj", np.concatenate([gate, up], axis=1))
        self.set(theirs + "experts.down_proj", self.stack(ours + "ffn_down_exps.weight", self.width, self.ffn, 2 * self.branch))

    def mutants(self):
        return {"weights that add up to 1" if self.normalises else "weights that are the softmax's":
                lambda model: route(model, self.used, not self.normalises, False),
                "the largest": lambda model: route(model, self.used, self.normalises, True),
                "one of the experts": lambda model: route(model, self.used - 1, self.normalises, False)}


def routers(model):
    return [module for name, module in model.named_modules() if name.endswith(("mlp.gate", "mlp.router", "router.proj"))]


def route_by_softmax(router, hidden_states):
    """Make a router of sigmoids one of a softmax."""
    logits = torch.nn.functional.linear(hidden_states.reshape(-1, router.hidden_dim), router.weight)
    weights, indices = torch.topk(torch.softmax(logits, -1), router.top_k, -1)
    return logits, weights / weights.sum(-1, keepdim=True) * router.routed_scaling_factor, indices


def route(model, used, normalises, smallest):
    """Make all routers choose so many experts, of the largest logits or the smallest, and their weights add up to 1 or not."""
    def forward(self, hidden_states):
        logits = torch.nn.functional.linear(hidden_states.reshape(-1, self.hidden_dim), self.weight)
        weights, indices = torch.topk(torch.softmax(logits, -1), used, -1, largest=not smallest)
        return logits, weights / weights.sum(-1, keepdim=True) if normalises else weights, indices

    for router in routers(model):
        router.forward = types.MethodType(forward, router)


@torch.no_grad()
def near_ties(model, tokens, used):
    """Return [(layer, position, gap)] where routing is near a tie, and the smallest gap of all."""
    logits = []
    handles = [router.register_forward_hook(lambda module, arguments, output: logits.append(output[0] if isinstance(output, tuple) else output))
               for router in routers(model)]
    model(torch.tensor([tokens]), use_cache=False)
    for handle in handles:
        handle.remove()
    if hasattr(routers(model)[0], "e_score_correction_bias"):
        logits = [layer.sigmoid() + router.e_score_correction_bias for layer, router in zip(logits, routers(model))]
    sorted_logits = [layer.sort(-1, descending=True).values for layer in logits]
    gaps = torch.stack([layer[:, used - 1] - layer[:, used] for layer in sorted_logits])
    return [(layer, position, gaps[layer, position].item()) for layer, position in (gaps < NEAR).nonzero().tolist()], gaps.min().item()


class Mixtral(Experts):
    """Llama's graph; its weights add up to 1."""
    name, architecture = "mixtral", "llama"
    config_class, model_class = tf.MixtralConfig, tf.MixtralForCausalLM
    pair_neighbours = True
    rope = {"rope_type": "default", "rope_theta": 1e6}

    def vary(self):
        self.experts, self.used = [(8, 2), (5, 3)][self.variant]

    def config(self):
        return super().config() | dict(num_local_experts=self.experts, sliding_window=None)


class Qwen3Moe(Experts):
    """Norms of heads; experts are smaller than what the file calls the feed-forward network's size."""
    name = "qwen3moe"
    seeds = 6, 2
    config_class, model_class = tf.Qwen3MoeConfig, tf.Qwen3MoeForCausalLM
    head_norms = True
    head_dim = 24
    experts, used = 16, 4
    ffn = 64
    rope = {"rope_type": "default", "rope_theta": 1e6}

    def config(self):
        return super().config() | dict(num_experts=self.experts, moe_intermediate_size=self.ffn, norm_topk_prob=True, decoder_sparse_step=1,
                                       mlp_only_layers=[], intermediate_size=3 * self.ffn)

    def common_metadata(self):
        super().common_metadata()
        self.recipe.add("add_expert_feed_forward_length", self.ffn)

    def mutants(self):
        return super().mutants() | {"norm of heads of Q": lambda model: identity(model, "q_norm"), "norm of heads of K": lambda model: identity(model, "k_norm"),
                                    "base of the frequencies": {"rope_parameters": PLAIN}}


class Qwen2Moe(Experts):
    """An expert that all rows take, with a gate; the others' weights are the softmax's as they are."""
    name = "qwen2moe"
    seeds = 6, 2
    config_class, model_class = tf.Qwen2MoeConfig, tf.Qwen2MoeForCausalLM
    biases = ("q", "k", "v")
    experts, used = 12, 4
    normalises = False
    ffn, shared_ffn = 32, 160
    rope = {"rope_type": "default", "rope_theta": 1e6}

    def config(self):
        return super().config() | dict(num_experts=self.experts, moe_intermediate_size=self.ffn, norm_topk_prob=False, decoder_sparse_step=1, mlp_only_layers=[],
                                       shared_expert_intermediate_size=self.shared_ffn)

    def common_metadata(self):
        super().common_metadata()
        self.recipe.add("add_expert_feed_forward_length", self.ffn)
        self.recipe.add("add_expert_shared_feed_forward_length", self.shared_ffn)

    def feed_forward(self, ours, theirs):
        super().feed_forward(ours, theirs)
        self.set(theirs + "shared_expert_gate.weight", self.recipe.draw(ours + "ffn_gate_inp_shexp.weight", (self.width,), 1.5 / self.width**0.5)[None])
        for part, outputs, inputs, gain in (("gate", self.shared_ffn, self.width, 1.5), ("up", self.shared_ffn, self.width, 1.0),
                                            ("down", self.width, self.shared_ffn, 2 * self.branch)):
            self.set(theirs + f"shared_expert.{part}_proj.weight", self.matrix(ours + f"ffn_{part}_shexp.weight", outputs, inputs, gain))

    def mutants(self):
        return super().mutants() | {"the shared expert": lambda model: zero(model, "shared_expert.down_proj.weight"),
                                    "the shared expert's gate": lambda model: zero(model, "shared_expert_gate.weight")}


class Olmoe(Experts):
    """Norms of all of Q and of all of K; weights are the softmax's as they are."""
    name = "olmoe"
    seeds = 2, 4
    kv_heads = 4  # llama.cpp takes no fewer than heads
    config_class, model_class = tf.OlmoeConfig, tf.OlmoeForCausalLM
    experts, used = 16, 5
    normalises = False
    ffn = 64

    def config(self):
        return super().config() | dict(num_experts=self.experts, norm_topk_prob=False)

    def attention(self, ours, theirs):
        super().attention(ours, theirs)
        self.norm_before(ours + "attn_q_norm", theirs + "q_norm", self.heads * self.head_dim, self.head_norm)
        self.norm_before(ours + "attn_k_norm", theirs + "k_norm", self.kv_heads * self.head_dim, self.head_norm)

    def mutants(self):
        return super().mutants() | {"norm of Q": lambda model: identity(model, "q_norm"), "norm of K": lambda model: identity(model, "k_norm")}


class Glm4Moe(Experts):
    """First layers without experts; then routing by sigmoids, with a bias for the choice alone, scaled weights, and an expert that all rows take."""
    name = "glm4moe"
    seeds = 3, 5
    config_class, model_class = tf.Glm4MoeConfig, tf.Glm4MoeForCausalLM
    experts, used = 12, 4
    ffn, dense_ffn = 32, 160
    scale = 1.5
    rotated = 8
    rope = PLAIN | {"partial_rotary_factor": 0.5}

    def vary(self):
        self.dense, self.shared = [(1, 1), (2, 2)][self.variant]
        self.biases = [("q", "k", "v"), ()][self.variant]
        self.head_norms = self.variant == 1

    def config(self):
        return super().config() | dict(attention_bias=self.variant == 0, use_qk_norm=self.head_norms, moe_intermediate_size=self.ffn,
                                       intermediate_size=self.dense_ffn, n_routed_experts=self.experts, n_shared_experts=self.shared,
                                       routed_scaling_factor=self.scale, n_group=1, topk_group=1, first_k_dense_replace=self.dense, norm_topk_prob=True,
                                       num_mtp_layers=0)

    def common_metadata(self):
        super().common_metadata()
        add = self.recipe.add
        self.recipe.metadata = [entry for entry in self.recipe.metadata if entry[0] != "add_feed_forward_length"]
        add("add_feed_forward_length", self.dense_ffn)
        add("add_expert_feed_forward_length", self.ffn)
        add("add_expert_shared_count", self.shared)
        add("add_leading_dense_block_count", self.dense)
        add("add_expert_gating_func", gguf.ExpertGatingFuncType.SIGMOID)
        add("add_expert_weights_scale", self.scale)
        add("add_expert_weights_norm", True)

    def layer(self, ours, theirs):
        self.norm_before(ours + "attn_norm", theirs + "input_layernorm")
        self.attention(ours, theirs + "self_attn.")
        self.norm_before(ours + "post_attention_norm", theirs + "post_attention_layernorm")
        self.feed_forward(ours, theirs + "mlp.")

    def gated(self, ours, theirs, size):
        for part, outputs, inputs, gain in (("gate", size, self.width, 1.5), ("up", size, self.width, 1.0), ("down", self.width, size, 2 * self.branch)):
            self.set(theirs + f"{part}_proj.weight", self.matrix(ours.format(part), outputs, inputs, gain))

    def feed_forward(self, ours, theirs):
        if int(ours.split(".")[1]) < self.dense:
            self.gated(ours + "ffn_{}.weight", theirs, self.dense_ffn)
            return
        super().feed_forward(ours, theirs)
        self.set(theirs + "gate.e_score_correction_bias", self.bias(ours + "exp_probs_b.bias", self.experts))
        self.gated(ours + "ffn_{}_shexp.weight", theirs + "shared_experts.", self.shared * self.ffn)

    def mutants(self):
        def by_softmax(model):
            for router in routers(model):
                router.forward = types.MethodType(route_by_softmax, router)

        def without_bias(model):
            for router in routers(model):
                router.e_score_correction_bias.zero_()

        own = [{"biases": lambda model: zero(model, "q_proj.bias", "k_proj.bias", "v_proj.bias")},
               {"norm of heads of Q": lambda model: identity(model, "q_norm"), "norm of heads of K": lambda model: identity(model, "k_norm")}][self.variant]
        return own | {"sigmoids": by_softmax, "bias of the choice": without_bias, "scale of weights": {"routed_scaling_factor": 1.0},
                      "weights that add up to 1": {"norm_topk_prob": False}, "one of the experts": {"num_experts_per_tok": self.used - 1},
                      "the shared expert": lambda model: zero(model, "shared_experts.down_proj.weight"),
                      "part that is not rotated": {"rope_parameters": PLAIN | {"partial_rotary_factor": 1.0}}}


class GptOss(Experts):
    """A sink beside the scores of each head, windows in every other layer, biases everywhere, an activation that is cut off, and YaRN without whole pairs.

    llama.cpp takes the usual numbers of turns, whatever the file says, and rounds the ends of YaRN's ramp to whole pairs. The second model has these numbers, and
    its ramp ends so little before pair 3 that rounding makes no difference."""
    name = "gpt-oss"
    seeds = 1, 3
    config_class, model_class = tf.GptOssConfig, tf.GptOssForCausalLM
    biases = ("q", "k", "v", "o")
    head_dim = 32
    window = 64

    def vary(self):
        self.experts, self.used = [(16, 4), (12, 3)][self.variant]
        base = [150000.0, math.exp(self.head_dim * math.log(64 / (2 * math.pi)) / (2 * 2.999995))][self.variant]
        fast, slow = [(4.0, 0.5), (32.0, 1.0)][self.variant]
        self.rope = {"rope_type": "yarn", "rope_theta": base, "factor": 8.0, "beta_fast": fast, "beta_slow": slow, "truncate": False,
                     "original_max_position_embeddings": 64}

    def config(self):
        return super().config() | dict(num_local_experts=self.experts, sliding_window=self.window, attention_bias=True,
                                       layer_types=["sliding_attention", "full_attention"] * (self.layers // 2))

    def common_metadata(self):
        super().common_metadata()
        self.recipe.add("add_expert_feed_forward_length", self.ffn)
        self.recipe.add("add_sliding_window", self.window)
        self.recipe.add("add_rope_scaling_type", gguf.RopeScalingType.YARN)
        self.recipe.add("add_rope_scaling_factor", self.rope["factor"])
        self.recipe.add("add_rope_scaling_orig_ctx_len", self.rope["original_max_position_embeddings"])
        self.recipe.add("add_rope_scaling_yarn_beta_fast", self.rope["beta_fast"])
        self.recipe.add("add_rope_scaling_yarn_beta_slow", self.rope["beta_slow"])

    def layer(self, ours, theirs):
        self.norm_before(ours + "attn_norm", theirs + "input_layernorm")
        self.attention(ours, theirs + "self_attn.")
        self.set(theirs + "self_attn.sinks", self.recipe.draw(ours + "attn_sinks.weight", (self.heads,), 1.5, 1.0))
        self.norm_before(ours + "post_attention_norm", theirs + "post_attention_layernorm")
        self.feed_forward(ours, theirs + "mlp.")

    def feed_forward(self, ours, theirs):
        """Gates and ups take turns, and matrices have a row for each input."""
        def interleave(gate, up):
            return np.stack([gate, up], axis=-1).reshape(*gate.shape[:-1], -1)

        matrices, biases = {}, {}
        for part, outputs, inputs, gain in (("gate", self.ffn, self.width, 4.0), ("up", self.ffn, self.width, 4.0),
                                            ("down", self.width, self.ffn, self.branch)):
            matrices[part] = self.stack(ours + f"ffn_{part}_exps.weight", outputs, inputs, gain).swapaxes(1, 2)
            biases[part] = self.recipe.draw(ours + f"ffn_{part}_exps.bias", (self.experts, outputs), self.branch if part == "down" else 1.0)
        self.set(theirs + "router.weight", self.matrix(ours + "ffn_gate_inp.weight", self.experts, self.width, self.router_gain))
        self.set(theirs + "router.bias", self.bias(ours + "ffn_gate_inp.bias", self.experts, 1.0))
        self.set(theirs + "experts.gate_up_proj", interleave(matrices["gate"], matrices["up"]))
        self.set(theirs + "experts.gate_up_proj_bias", interleave(biases["gate"], biases["up"]))
        self.set(theirs + "experts.down_proj", matrices["down"])
        self.set(theirs + "experts.down_proj_bias", biases["down"])

    def mutants(self):
        @torch.no_grad()
        def without_sinks(model):
            for layer in model.model.layers:
                layer.self_attn.sinks.fill_(-1e9)

        @torch.no_grad()
        def without_half(model, half):
            for layer in model.model.layers:
                layer.mlp.experts.gate_up_proj_bias[:, half::2] = 0

        plain = {"rope_type": "default", "rope_theta": self.rope["rope_theta"]}
        ramp = {"whole pairs of the ramp": {"rope_parameters": self.rope | {"truncate": True}}} if self.variant == 0 else {}
        return ramp | {
            "sinks": without_sinks, "windows": {"layer_types": ["full_attention"] * self.layers},
            "layers without a window": {"layer_types": ["sliding_attention"] * self.layers},
            "layers the other way round": {"layer_types": ["full_attention", "sliding_attention"] * (self.layers // 2)},
            "bound of the activation": {"swiglu_limit": 1e9}, "steepness of the activation": {"swiglu_alpha": 1.0},
            "bias of Q": lambda model: zero(model, "q_proj.bias"), "bias of K": lambda model: zero(model, "k_proj.bias"),
            "bias of V": lambda model: zero(model, "v_proj.bias"), "bias of the output": lambda model: zero(model, "o_proj.bias"),
            "bias of the router": lambda model: zero(model, "router.bias"), "bias of the gates": lambda model: without_half(model, 0),
            "bias of the ups": lambda model: without_half(model, 1), "bias of the downs": lambda model: zero(model, "down_proj_bias"),
            "one of the experts": {"num_experts_per_tok": self.used - 1}, "frequencies' scaling": {"rope_parameters": plain},
            "scale of heads": {"rope_parameters": self.rope | {"attention_factor": 1.0}}}


class PhiMoe(Experts):
    """Layer norms, biases everywhere, two tables of frequencies of which the context chooses one, and two experts that are weighted apart.

    transformers takes the short factors in any case; the published code takes the long ones beyond the original context, and so does this."""
    name = "phimoe"
    config_class, model_class = tf.PhimoeConfig, tf.PhimoeForCausalLM
    biases = ("q", "k", "v", "o")
    experts, used = 16, 2
    router_gain = 0.7

    def vary(self):
        steps = np.arange(self.head_dim // 2)
        self.original = [64, 256][self.variant]
        self.short, self.long = 1 + 0.1 * steps, 1 + 0.7 * steps
        self.rope = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": self.short.tolist(), "long_factor": self.long.tolist(),
                     "short_mscale": 1.2, "long_mscale": 1.2, "original_max_position_embeddings": self.original}

    def config(self):
        return super().config() | dict(num_local_experts=self.experts, attention_bias=True, lm_head_bias=True, sliding_window=None,
                                       original_max_position_embeddings=self.original)

    def build(self, **overrides):
        model = super().build(**overrides)
        rotations = model.model.rotary_emb
        plain = rotations.rope_init_fn
        if rotations.rope_type == "longrope":
            rotations.rope_init_fn = lambda config: plain(config, seq_len=256)
        return model

    def metadata(self):
        super().metadata()
        self.recipe.add("add_rope_scaling_orig_ctx_len", self.original)
        self.recipe.add("add_rope_scaling_attn_factors", self.rope["long_mscale"])
        self.recipe.give("rope_factors_long.weight", self.long)
        self.recipe.give("rope_factors_short.weight", self.short)

    def layer(self, ours, theirs):
        for our, their in (("attn_norm", "input_layernorm"), ("ffn_norm", "post_attention_layernorm")):
            self.norm_before(ours + our, theirs + their)
            self.set(theirs + their + ".bias", self.bias(f"{ours}{our}.bias", self.width))
        self.attention(ours, theirs + "self_attn.")
        self.feed_forward(ours, theirs + "mlp.")

    def head(self):
        super().head()
        self.set("model.norm.bias", self.bias("output_norm.bias", self.width))
        self.set("lm_head.bias", self.bias("output.bias", 64, 1.0))

    def feed_forward(self, ours, theirs):
        super().feed_forward(ours, theirs)
        self.set(theirs + "router.weight", self.parameters.pop(theirs + "gate.weight"))

    def mutants(self):
        def weights_of_the_softmax(model):
            def forward(self, hidden_states):
                logits = torch.nn.functional.linear(hidden_states, self.weight)
                return logits, *torch.topk(torch.softmax(logits, -1), 2, -1)

            for router in routers(model):
                router.forward = types.MethodType(forward, router)

        other = {"rope_parameters": self.rope | {"long_factor": self.rope["short_factor"], "short_factor": self.rope["long_factor"]}}
        return {"two that are weighted apart": weights_of_the_softmax, "factors": other, "bias of the head": lambda model: zero(model, "lm_head.bias"),
                "scale of rotations": {"rope_parameters": self.rope | {"long_mscale": 1.0, "short_mscale": 1.0}},
                "biases of Q, K and V": lambda model: zero(model, "q_proj.bias", "k_proj.bias", "v_proj.bias"),
                "bias of the output": lambda model: zero(model, "o_proj.bias"), "biases of norms": lambda model: zero(model, "layernorm.bias"),
                "bias of the last norm": lambda model: zero(model, "model.norm.bias")}


FAMILIES = [Mixtral, Qwen3Moe, Qwen2Moe, Olmoe, Glm4Moe, GptOss, PhiMoe]
