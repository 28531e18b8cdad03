"""Gemma 4 with experts (26B-A4B)."""
import types

import numpy as np
import torch

from family import identity, zero
from gemma import Gemma4


class Gemma4Experts(Gemma4):
    """Experts beside the feed-forward network, each of both between norms of its own. The router has a norm of its own, weights of experts add up to 1, and each
    expert has a scale. In the first model gates and ups of experts are one tensor, in the second two."""
    name, architecture = "gemma4-experts", "gemma4"
    seeds = 1, 2
    expert_ffn = 64
    router_gain = 12.0  # of what the router's norm divides by the root of the width
    down_gain = 0.005  # sums are so small that the epsilon of the norm behind them counts: else it would hide whether weights add up to 1

    def vary(self):
        self.experts, self.used = [(8, 2), (12, 4)][self.variant]
        self.fuses = self.variant == 0

    def config(self):
        return super().config() | dict(enable_moe_block=True, num_experts=self.experts, top_k_experts=self.used, moe_intermediate_size=self.expert_ffn,
                                       experts_implementation="eager")

    def common_metadata(self):
        super().common_metadata()
        self.recipe.add("add_expert_count", self.experts)
        self.recipe.add("add_expert_used_count", self.used)
        self.recipe.add("add_expert_feed_forward_length", self.expert_ffn)

    def stack(self, name, outputs, inputs, gain):
        """A matrix for each expert."""
        return self.recipe.draw(name, (self.experts, outputs, inputs), gain / inputs**0.5)

    def gates_and_ups(self, ours):
        if self.fuses:
            return self.stack(ours + "ffn_gate_up_exps.weight", 2 * self.expert_ffn, self.width, 1.25)
        return np.concatenate([self.stack(ours + "ffn_gate_exps.weight", self.expert_ffn, self.width, 1.5),
                               self.stack(ours + "ffn_up_exps.weight", self.expert_ffn, self.width, 1.0)], axis=1)

    def layer(self, ours, theirs):
        super().layer(ours, theirs)
        self.set(theirs + "router.proj.weight", self.matrix(ours + "ffn_gate_inp.weight", self.experts, self.width, self.router_gain))
        self.set(theirs + "router.scale", self.norm(ours + "ffn_gate_inp.scale", self.width))
        self.set(theirs + "router.per_expert_scale", self.norm(ours + "ffn_down_exps.scale", self.experts))
        self.set(theirs + "experts.gate_up_proj", self.gates_and_ups(ours))
        self.set(theirs + "experts.down_proj", self.stack(ours + "ffn_down_exps.weight", self.width, self.expert_ffn, self.down_gain))
        self.norm_before(ours + "pre_ffw_norm_2", theirs + "pre_feedforward_layernorm_2")
        self.norm_before(ours + "post_ffw_norm_1", theirs + "post_feedforward_layernorm_1")
        self.norm_before(ours + "post_ffw_norm_2", theirs + "post_feedforward_layernorm_2")

    def mutants(self):
        def route(model, normalises, smallest):
            def forward(self, hidden_states):
                h = self.norm(hidden_states) * self.scale * self.scalar_root_size
                weights, indices = torch.topk(torch.softmax(self.proj(h), -1), self.config.top_k_experts, -1, largest=not smallest)
                weights = weights / weights.sum(-1, keepdim=True) if normalises else weights
                return None, weights * self.per_expert_scale[indices], indices

            for layer in model.model.layers:
                layer.router.forward = types.MethodType(forward, layer.router)

        @torch.no_grad()
        def fill(model, name):
            for layer in model.model.layers:
                getattr(layer.router, name).fill_(1.0)

        def without_root(model):
            for layer in model.model.layers:
                layer.router.scalar_root_size = 1.0

        def without_norm(model):
            for layer in model.model.layers:
                layer.router.norm = torch.nn.Identity()

        return super().mutants() | {
            "weights that add up to 1": lambda model: route(model, False, False), "the largest": lambda model: route(model, True, True),
            "one of the experts": {"top_k_experts": self.used - 1}, "norm of the router": without_norm, "root of the width": without_root,
            "scale of the router": lambda model: fill(model, "scale"), "scales of experts": lambda model: fill(model, "per_expert_scale"),
            "experts": lambda model: zero(model, "experts.down_proj"), "network beside experts": lambda model: zero(model, "mlp.down_proj.weight"),
            "norm before experts": lambda model: identity(model, "pre_feedforward_layernorm_2"),
            "norm behind experts": lambda model: identity(model, "post_feedforward_layernorm_2"),
            "norm behind the network beside": lambda model: identity(model, "post_feedforward_layernorm_1")}


FAMILIES = [Gemma4Experts]
