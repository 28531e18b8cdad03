#!/usr/bin/env python3
"""Make data/greedy.json: what mainline llama.cpp writes at temperature 0 with the demonstration models.

20 prompts, 64 token ids each, by the server of llama.cpp that the package xllamacpp holds: one thread, one sequence, K and V
in floats, no flash attention, end tokens banned (its `ignore_eos`). gaps[k] is the difference of the two best logits that token
k was chosen from (of log-probabilities, which is the same); `ends` are the steps at which a banned end token was the best, and
its id: where Outrider writes it. xllamacpp 2026.10.11549 made what is stored:

    python3 -m venv /tmp/greedy && /tmp/greedy/bin/pip install xllamacpp==2026.10.11549
    /tmp/greedy/bin/python tests/oracles/make_greedy.py
"""

import json
import pathlib

import xllamacpp

HERE = pathlib.Path(__file__).parent
MODELS = HERE.parents[1] / "launch/models"
NAMES = ("tales-6m-f16", "tales-1m-f16", "tales-bpe-1m-f16")
TOKENS = 64
PROMPTS = (
    "Once upon a time", "It was a dark night", "The king said to his daughter,", "In the beginning God created", "My dear Miss Bennet,",
    "HAMLET:\n", "To be, or not to be,", "Four score and seven years ago", "The ship sailed into the storm and", "  two spaces at the front",
    "A", "1805", "Fellow citizens of the Senate", "\"What are you doing?\" she", "Arms and the man I sing, who",
    "Midway upon the journey of our life", "The naïve café owner said:", "The old witch lived in the wood.\nOne day", "Beowulf spoke, the son of",
    "I do not know what",
)


def open_model(name):
    params = xllamacpp.CommonParams()
    params.model.path = str(MODELS / f"{name}.gguf")
    params.n_ctx, params.n_parallel, params.warmup = 512, 1, False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    return xllamacpp.Server(params)


def write(server, prompt):
    answer = server.handle_completions({"prompt": prompt, "n_predict": TOKENS, "temperature": 0, "ignore_eos": True,
                                        "n_probs": 3, "cache_prompt": False})
    steps = answer["choices"][0]["logprobs"]["content"]
    assert len(steps) == TOKENS, prompt  # the first bytes of a character are not told: take another prompt
    tokens, gaps, ends = [], [], []
    for at, step in enumerate(steps):
        if step["top_logprobs"][0]["id"] != step["id"]:
            ends.append([at, step["top_logprobs"][0]["id"]])
        left = [choice for choice in step["top_logprobs"] if [at, choice["id"]] not in ends]
        assert left[0]["id"] == step["id"]
        gaps.append(round(left[0]["logprob"] - left[1]["logprob"], 4))
        tokens.append(step["id"])
    return {"text": prompt, "prompt_tokens": answer["usage"]["prompt_tokens"], "tokens": tokens, "gaps": gaps, "ends": ends}


def main():
    models = {}
    for name in NAMES:
        server = open_model(name)
        models[name] = [write(server, prompt) for prompt in PROMPTS]
        print(name, "smallest gap", min(min(text["gaps"]) for text in models[name]))
    about = "by llama.cpp, xllamacpp " + xllamacpp.__version__ + "; see make_greedy.py"
    text = json.dumps({"about": about, "models": models}, separators=(",", ":")).replace('{"text"', '\n{"text"')
    (HERE / "data/greedy.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
