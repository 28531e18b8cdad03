#!/usr/bin/env python3
"""Make the references of families_test: tests/families/data/FAMILY/SEED.gguf-head (recipe.py) and transformers' logits of them, SEED.f32.

Logits are [200 positions][64 tokens], little-endian floats. For each model this prints how far they spread, how peaked attention is, how far transformers'
F32 is from its F64, and by how much the logits move when a quirk is switched off; it ends with 1 where that is too little.

    python3 -m venv /tmp/families && /tmp/families/bin/pip install torch transformers gguf
    /tmp/families/bin/python tests/families/oracle/make_families.py [FAMILY ...]

The stored files were made with torch 2.15.0, transformers 5.18.0 and gguf 0.19.0.
"""
import pathlib
import sys

import numpy as np
import torch

import dense
import experts
import gemma
import gemma_experts
import latent
import layernorm
import parallel
import variants

FOLDER = pathlib.Path(__file__).parents[1] / "data"
POSITIONS = 200
TOLERANCE = 1e-3
MOVES_MIN = 20 * TOLERANCE
FAMILIES = dense.FAMILIES + variants.FAMILIES + gemma.FAMILIES + layernorm.FAMILIES + parallel.FAMILIES + experts.FAMILIES + latent.FAMILIES + \
    gemma_experts.FAMILIES


@torch.no_grad()
def run(model, tokens):
    output = model(torch.tensor([tokens]), output_attentions=True, use_cache=False)
    attentions = [layer for layer in output.attentions or [] if layer is not None]
    peak = np.mean([layer.amax(-1).mean().item() for layer in attentions]) if attentions else float("nan")
    return output.logits[0].numpy(), peak


def mutant_of(family, change):
    if callable(change):
        model = family.build()
        change(model)
        return model
    return family.build(**change)


def check_mutants(family, tokens, logits):
    """Return the quirks whose absence moves the logits too little."""
    weak = []
    for quirk, change in family.mutants().items():
        moved = np.abs(run(mutant_of(family, change), tokens)[0] - logits).max()
        print(f"    without {quirk}: {moved:.3g}")
        if not moved >= MOVES_MIN:
            weak.append(quirk)
    return weak


def make(family_class, variant):
    family = family_class(variant)
    name = f"{family.name}/{variant}"
    tokens = family.recipe.tokens(POSITIONS)
    logits, peak = run(family.build(), tokens)
    precise = run(family.build().double(), tokens)[0]
    print(f"{name}: logits spread by {logits.std():.2f}, the largest share of attention is {peak:.2f} on average, F64 is "
          f"{np.abs(precise - logits).max():.2g} away", flush=True)
    if hasattr(family, "used"):
        ties, smallest = experts.near_ties(family.build(), tokens, family.used)
        print(f"    routing near a tie, of {POSITIONS} positions in {family.layers} layers: {ties or 'none'}; the smallest gap is {smallest:.2g}")
    assert logits.shape == (POSITIONS, 64) and 2 <= logits.std() <= 4.5
    (FOLDER / family.name).mkdir(exist_ok=True)
    family.recipe.write(FOLDER / f"{name}.gguf-head", tokens)
    (FOLDER / f"{name}.f32").write_bytes(logits.astype("<f4").tobytes())
    return [f"{name}: {quirk}" for quirk in check_mutants(family, tokens, logits)]


def main():
    torch.set_num_threads(1)
    chosen = [family for family in FAMILIES if family.name in sys.argv[1:] or len(sys.argv) == 1]
    weak = [quirk for family in chosen for variant in range(2) for quirk in make(family, variant)]
    if weak:
        sys.exit("moves too little: " + ", ".join(weak))


if __name__ == "__main__":
    main()
