#!/usr/bin/env python3
"""Make data/quants.gguf: random units of every quantised type, and F16 and BF16, and what the gguf package says they are;
and data/floats-*.gguf: a matrix of random floats, and what gguf.quants.quantize makes of it in the simplest types.

For each type a tensor of its name ("Q4_K") with random units in the bytes of a file, and one of floats ("Q4_K.values") that
gguf.quants.dequantize gave for them. Bits are random but for the halves (scales and minima): those are drawn from finite ones
with exponents from 2^-14 to 2^1, either sign, and a few units have a half of zero, a subnormal one or the largest. MXFP4 has
an exponent instead, of which some are the least and the largest whose values are finite. IQ2 and IQ3 have places in a grid:
they go through all of it. Package gguf 0.19.0 with numpy 2.4.6 made what is stored:

    python3 -m venv /tmp/quants && /tmp/quants/bin/pip install gguf==0.19.0
    /tmp/quants/bin/python tests/oracles/make_quants.py
    /tmp/quants/bin/python tests/oracles/make_quants.py --grids     # instead prints the numbers of kernels/quant_grids.c
"""

import pathlib
import sys

import gguf
import numpy as np

FOLDER = pathlib.Path(__file__).parent / "data"
WEIGHTS = 3072  # of most types: 96 blocks, or 12 super-blocks of 256
EDGES = (0x0000, 0x8000, 0x0001, 0x83FF, 0x7BFF)  # +0, -0, the least, the largest subnormal below 0, the largest
Type = gguf.GGMLQuantizationType
HALVES = {  # type -> where a unit's halves begin
    Type.Q8_0: [0], Type.Q4_0: [0], Type.IQ4_NL: [0], Type.Q5_0: [0], Type.Q4_1: [0, 2], Type.Q5_1: [0, 2],
    Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q2_K: [80, 82], Type.Q3_K: [108], Type.Q6_K: [208],
}


LATER = {  # type -> units, which need other draws than those above
    Type.IQ4_XS: 12, Type.MXFP4: 96, Type.IQ3_S: 12, Type.IQ3_XXS: 12, Type.IQ2_S: 36, Type.IQ2_XS: 20, Type.IQ2_XXS: 12,
}


def units_of(kind, rng):
    weights, size = gguf.GGML_QUANT_SIZES[kind]
    units = rng.integers(0, 256, (WEIGHTS // weights, size), dtype=np.uint8)
    for turn, at in enumerate(HALVES[kind]):
        halves = (rng.integers(1, 17, len(units)) << 10 | rng.integers(0, 1 << 10, len(units)) | rng.integers(0, 2, len(units)) << 15)
        halves[turn:turn + len(EDGES)] = EDGES
        units[:, at:at + 2] = halves.astype("<u2")[:, None].view(np.uint8)
    return units


def put_places(kind, units, rng):
    """Make the places in the grid of IQ2 and IQ3 go through all of it."""
    entries, weights = getattr(gguf.quants, kind.name).grid_shape
    places = np.resize(rng.permutation(entries), (len(units), 256 // weights))
    lower = (places & 255).astype(np.uint8)
    if kind == Type.IQ2_XXS:
        units[:, 2:66].reshape(-1, 8, 8)[:, :, :4] = lower.reshape(-1, 8, 4)
    elif kind == Type.IQ2_XS:
        signs = units[:, 2:66].copy().view("<u2") & ~np.uint16(511)
        units[:, 2:66] = (signs | places.astype("<u2")).view(np.uint8)
    elif kind == Type.IQ2_S:
        units[:, 2:34] = lower
        units[:, 66:74] = ((places >> 8).reshape(-1, 8, 4) << np.array([0, 2, 4, 6])).sum(axis=2)
    elif kind == Type.IQ3_XXS:
        units[:, 2:66] = lower
    else:
        units[:, 2:66] = lower
        units[:, 66:74] = np.packbits(places >> 8, axis=1, bitorder="little")


def later_units_of(kind, rng):
    weights, size = gguf.GGML_QUANT_SIZES[kind]
    units = rng.integers(0, 256, (LATER[kind], size), dtype=np.uint8)
    if kind == Type.MXFP4:
        units[:, 0] = rng.integers(100, 140, len(units))
        units[:4, 0] = 0, 1, 2, 252
        return units
    halves = (rng.integers(1, 17, len(units)) << 10 | rng.integers(0, 1 << 10, len(units)) | rng.integers(0, 2, len(units)) << 15)
    halves[:len(EDGES)] = EDGES
    units[:, :2] = halves.astype("<u2")[:, None].view(np.uint8)
    if kind != Type.IQ4_XS:
        put_places(kind, units, rng)
    return units


def print_grids():
    for name in ("IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"):
        kind = getattr(gguf.quants, name)
        kind.init_grid()
        bits = 2 if name.startswith("IQ2") else 3
        rows = kind.grid.reshape(kind.grid_shape)
        print(name, *(f"0x{sum(kind.grid_map.index(v) << bits * i for i, v in enumerate(row)):04X}" for row in rows.astype(int).tolist()))


def write_file(name, tensors):
    """Write a file with these tensors, each of which is (name, bytes or numbers, type)."""
    writer = gguf.GGUFWriter(FOLDER / name, "quants")
    for tensor, data, kind in tensors:
        writer.add_tensor(tensor, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_floats(rng):
    floats = (rng.normal(0, 1, (48, 128)) * 2.0 ** rng.integers(-12, 8, (48, 1))).astype(np.float32)
    floats[0, :32], floats[1, 5] = 0, -300
    for kind in (Type.F32, Type.F16, Type.Q8_0, Type.Q4_0):
        write_file(f"floats-{kind.name.lower()}.gguf", [("matrix.weight", gguf.quants.quantize(floats, kind), kind)])


def main():
    rng = np.random.default_rng(19)
    plain = rng.integers(0, 0x7C00, WEIGHTS, dtype=np.uint16) | rng.integers(0, 2, WEIGHTS, dtype=np.uint16) << 15  # finite as either
    tensors = []
    for kind in (*HALVES, Type.F16, Type.BF16):
        units = units_of(kind, rng) if kind in HALVES else plain.view(np.uint8)
        values = gguf.quants.dequantize(units.reshape(1, -1), kind)
        assert values.dtype == np.float32 and values.shape == (1, WEIGHTS) and np.isfinite(values).all()
        tensors += [(kind.name, units.reshape(1, -1), kind), (f"{kind.name}.values", values, Type.F32)]
    later = np.random.default_rng(23)
    for kind in LATER:
        units = later_units_of(kind, later)
        values = gguf.quants.dequantize(units.reshape(1, -1), kind)
        assert values.dtype == np.float32 and np.isfinite(values).all()
        tensors += [(kind.name, units.reshape(1, -1), kind), (f"{kind.name}.values", values, Type.F32)]
    write_file("quants.gguf", tensors)
    write_floats(rng)


if __name__ == "__main__":
    print_grids() if sys.argv[1:] == ["--grids"] else main()
