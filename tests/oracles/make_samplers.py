#!/usr/bin/env python3
"""Make data/samplers.json: what transformers and llama.cpp make of logits, history and settings.

transformers' processors in float64 and in the order of its `generate`: sequence bias, repetition penalty, temperature, top-k,
top-p, min-p; and its eta sampling, whose threshold is that of typical acceptance where delta is the root of epsilon. It has no
presence and frequency penalties: these come from llama.cpp's server (package xllamacpp), asked for all probabilities after a
random prompt with and without them, in float32. Packages transformers 5.23.0, torch 2.15.0 and xllamacpp 2026.10.11549 made what
is stored:

    python3 -m venv /tmp/samplers && /tmp/samplers/bin/pip install transformers==5.23.0 torch==2.15.0 xllamacpp==2026.10.11549
    /tmp/samplers/bin/python tests/oracles/make_samplers.py

Where definitions differ on purpose no vector is made:
  - ties: transformers keeps all that tie with the k-th and leaves open which of a tie top-p takes; ours ranks by lower id.
  - windows: transformers penalises all of its ids, so it is given the last repeat_last_n of them.
  - transformers has no temperature 0: its greedy choice, the largest score after bias and penalty, stands for it.
  - typical sampling (TypicalLogitsWarper) is no filter of ours.
"""

import json
import pathlib

import numpy as np
import torch
import xllamacpp
from transformers import generation as hf

import make_greedy

FILE = pathlib.Path(__file__).parent / "data/samplers.json"
VOCAB = 128
HISTORY = 48
DRAWN = 60  # combinations beside each alone
OFF = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repeat_penalty": 1.0, "presence_penalty": 0.0,
       "frequency_penalty": 0.0, "repeat_last_n": -1, "bias": []}
ALONE = [{}, *({"temperature": t} for t in (0, 0.3, 0.7, 1.5, 4.0)), *({"top_k": k} for k in (1, 2, 7, 40, 127, 128, 1000)),
         *({"top_p": p} for p in (0.0, 0.1, 0.5, 0.9, 0.99)), *({"min_p": p} for p in (0.01, 0.05, 0.3, 1.0)),
         *({"repeat_penalty": r, "repeat_last_n": n} for r in (0.8, 1.1, 2.0) for n in (-1, 0, 1, 10, 64)),
         *({"bias": b} for b in ([[3, 2.5]], [[0, -1.0], [127, 4.0]], [[5, None]]))]


def single(value):
    """Return the number as the engine keeps it: a float, written exactly."""
    return float(np.float32(value))


def drawn(rng):
    return {"temperature": rng.choice([0.3, 0.7, 1.0, 1.3]), "top_k": int(rng.choice([0, 3, 20, 64])), "top_p": rng.choice([1.0, 0.95, 0.7]),
            "min_p": rng.choice([0.0, 0.02, 0.2]), "repeat_penalty": rng.choice([1.0, 1.2]), "repeat_last_n": int(rng.choice([-1, 5, 20])),
            "bias": [[int(i), float(b)] for i, b in zip(rng.choice(VOCAB, 2, replace=False), rng.normal(0, 2, 2))] if rng.integers(2) else []}


def processors(setting, window):
    """Return the processors that are on, in the order of transformers' generate."""
    found = []
    if setting["bias"]:
        found.append(hf.SequenceBiasLogitsProcessor({(i,): -float("inf") if b is None else b for i, b in setting["bias"]}))
    if setting["repeat_penalty"] != 1 and window > 0:
        found.append(hf.RepetitionPenaltyLogitsProcessor(setting["repeat_penalty"]))
    if setting["temperature"] not in (0, 1):
        found.append(hf.TemperatureLogitsWarper(setting["temperature"]))
    if setting["temperature"] != 0:
        found += [hf.TopKLogitsWarper(setting["top_k"])] if setting["top_k"] > 0 else []
        found += [hf.TopPLogitsWarper(setting["top_p"])] if setting["top_p"] < 1 else []
        found += [hf.MinPLogitsWarper(setting["min_p"])] if setting["min_p"] > 0 else []
    return found


def kept(probabilities):
    """Return [id, probability] of each token that has any, ids ascending."""
    return [[i, float(f"{p:.12g}")] for i, p in enumerate(probabilities) if p > 0]


def by_transformers(logits, history, setting):
    window = setting["repeat_last_n"] if setting["repeat_last_n"] >= 0 else len(history)
    ids = torch.tensor([history[max(0, len(history) - window):]], dtype=torch.long)
    scores = torch.tensor([logits], dtype=torch.float64)
    for processor in processors(setting, window):
        scores = processor(ids, scores)
    if setting["temperature"] == 0:
        return [[int(scores.argmax()), 1.0]]
    return kept(torch.softmax(scores, -1)[0].tolist())


def eta(logits, epsilon):
    scores = torch.tensor([logits], dtype=torch.float64)
    left = hf.EtaLogitsWarper(epsilon)(torch.zeros((1, 1), dtype=torch.long), scores)
    return torch.nonzero(torch.isfinite(left[0])).flatten().tolist()


def by_llama(rng):
    """Return cases of presence and frequency penalties. The logits are the log-probabilities without."""
    server = make_greedy.open_model("tales-bpe-1m-f16")

    def ask(history, **settings):
        body = {"prompt": history, "n_predict": 1, "n_probs": 1024, "cache_prompt": False, "samplers": ["penalties"], "temperature": 1.0,
                "repeat_penalty": 1.0, "repeat_last_n": 0, "seed": 1, **settings}
        (step,) = server.handle_completions(body)["choices"][0]["logprobs"]["content"]
        return step
    cases = []
    for presence, frequency, last in ((0.7, 0.0, 64), (0.0, 0.4, 64), (0.5, 0.3, 64), (-0.6, 0.2, 10), (1.5, -0.25, 20), (2.0, 2.0, 3)):
        history = [int(i) for i in rng.integers(10, 40, 30)]
        plain = {choice["id"]: single(choice["logprob"]) for choice in ask(history, post_sampling_probs=False)["top_logprobs"]}
        step = ask(history, post_sampling_probs=True, presence_penalty=presence, frequency_penalty=frequency, repeat_last_n=last)
        after = {choice["id"]: choice["prob"] for choice in step["top_probs"]}
        assert len(plain) == len(after) == 1024
        setting = {"presence_penalty": single(presence), "frequency_penalty": single(frequency), "repeat_last_n": last}
        cases.append({"logits": [float(f"{plain[i]:.9g}") for i in range(1024)], "history": history, "setting": OFF | setting,
                      "kept": [[i, float(f"{after[i]:.7g}")] for i in range(1024)]})
    return cases


def main():
    rng = np.random.default_rng(19)
    logits = [rng.normal(0, width, VOCAB).astype(np.float32).tolist() for width in (0.3, 1, 2, 3, 6)]
    assert all(len(set(row)) == VOCAB for row in logits)
    history = [int(i) for i in rng.integers(0, 30, HISTORY)]
    cases = []
    for turn, setting in enumerate(ALONE + [drawn(rng) for _ in range(DRAWN)]):
        setting = OFF | setting
        for name in ("temperature", "top_p", "min_p", "repeat_penalty"):
            setting[name] = single(setting[name])
        setting["bias"] = [[i, b if b is None else single(b)] for i, b in setting["bias"]]
        row = turn % len(logits)
        cases.append({"logits": row, "setting": setting, "kept": by_transformers(logits[row], history, setting)})
    etas = [{"logits": row, "epsilon": single(epsilon), "kept": eta(values, single(epsilon))}
            for row, values in enumerate(logits) for epsilon in (0.0003, 0.001, 0.01, 0.03, 0.09, 0.3)]
    file = {"about": f"by transformers and llama.cpp (xllamacpp {xllamacpp.__version__}); see make_samplers.py", "logits": logits,
            "history": history, "transformers": cases, "eta": etas, "llama": by_llama(rng)}
    FILE.write_text(json.dumps(file, separators=(",", ":")).replace('{"logits"', '\n{"logits"') + "\n")


if __name__ == "__main__":
    main()
