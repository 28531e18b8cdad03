"""A small tokenizer.json of Gemma 4's form, learnt from this repository's licence, and a plain encoder of its merges."""
import re
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))
from cli import ROOT  # noqa: E402

MARK = "\u2581"
SPECIAL = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<|turn>", "<turn|>", "<|channel>", "<channel|>"]
USER = ["<table>", "</table>"]
LEARNT, LINES = 300, 8
SPLIT = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}


def learn(text, count):
    """Return merges by byte-pair encoding: each joins the most frequent pair of neighbours, of equals the least. None joins ends of lines."""
    words = Counter(re.findall(MARK + "?[^\n" + MARK + "]+", text.replace(" ", MARK)))
    parts = {word: list(word) for word in words}
    merges = []
    for _ in range(count):
        pairs = Counter()
        for word, times in words.items():
            for pair in zip(parts[word], parts[word][1:]):
                pairs[pair] += times
        left, right = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append([left, right])
        for word, symbols in parts.items():
            parts[word] = joined(symbols, left, right)
    return merges


def joined(symbols, left, right):
    done, i = [], 0
    while i < len(symbols):
        both = symbols[i:i + 2] == [left, right]
        done.append(left + right if both else symbols[i])
        i += 1 + both
    return done


def make():
    """Return tokenizer.json."""
    text = (ROOT / "LICENSE").read_text()[:8000]
    merges = [["\n" * left, "\n" * (length - left)] for length in range(2, LINES + 1) for left in range(1, length)] + learn(text, LEARNT)
    pieces = SPECIAL + [f"<0x{byte:02X}>" for byte in range(256)] + ["\n", MARK] + sorted(set(text) - {"\n", " "}) + ["".join(merge) for merge in merges] + USER
    vocab = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    added = [{"id": vocab[piece], "content": piece, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": piece in SPECIAL}
             for piece in SPECIAL + USER]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": MARK}, "pre_tokenizer": SPLIT, "post_processor": None,
            "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": MARK}, "content": " "}, {"type": "ByteFallback"},
                                                         {"type": "Fuse"}]},
            "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": True,
                      "byte_fallback": True, "ignore_merges": False, "vocab": vocab, "merges": merges}}


def encode(tokenizer, text):
    """Return the ids of a text, by the merges alone."""
    vocab, ranks = tokenizer["model"]["vocab"], {tuple(merge): i for i, merge in reversed(list(enumerate(tokenizer["model"]["merges"])))}
    ids = []
    for part in re.split("(" + "|".join(map(re.escape, sorted(SPECIAL + USER, key=len, reverse=True))) + ")", text):
        symbols = [part] if part in SPECIAL + USER else list(part.replace(" ", MARK))
        while True:
            best = min(zip(symbols, symbols[1:]), key=lambda pair: ranks.get(pair, len(ranks)), default=None)
            if best not in ranks:
                break
            at = next(i for i, pair in enumerate(zip(symbols, symbols[1:])) if pair == best)
            symbols[at:at + 2] = ["".join(best)]
        for symbol in symbols:
            ids += [vocab[symbol]] if symbol in vocab else [vocab[f"<0x{byte:02X}>"] for byte in symbol.encode()]
    return ids
