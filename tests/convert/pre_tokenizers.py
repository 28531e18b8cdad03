"""Pre-tokenizers of published tokenizer.json files, by the names that GGUF has for them.

Sources: files of the data's vocabularies; llama.cpp's comments, which quote the patterns of the files it was made for ("original regex from tokenizer.json");
for Kimi the pattern of its tokenization_kimi.py. The tests' own reading of them is PyPI's `tokenizers`."""

GPT_4_END = r"\s*[\r\n]+|\s+(?!\S)|\s+"
GPT_4 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}NUMBERS| ?[^\s\p{L}\p{N}]+[\r\n]*|" + GPT_4_END
CASED = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+SUFFIX|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*SUFFIX|\p{N}NUMBERS| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + GPT_4_END)
SUFFIX = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
GPT_4O = CASED.replace("SUFFIX", SUFFIX).replace("NUMBERS", "{1,3}")
KIMI = r"[\p{Han}]+|" + GPT_4O.replace(r"\p{M}]", r"\p{M}&&[^\p{Han}]]").replace(r"[\r\n/]*", r"[\r\n]*")
DEEPSEEK_CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
DEEPSEEK_LETTERS = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f"
    "\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-"
    "\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b"
    "\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-"
    "\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183"
    "\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf"
    "\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"
    "\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943")

BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
GPT_2 = BYTES | {"use_regex": True}
CUT = {"type": "Split", "behavior": "Isolated", "invert": False}
DIGITS = {"type": "Digits", "individual_digits": True}
NUMBERS = {"type": "Digits", "individual_digits": False}
PUNCTUATION = {"type": "Punctuation", "behavior": "Contiguous"}


def by_steps(*steps, **more):
    """Return a sequence of steps. A text is the pattern of a Split."""
    return {"type": "Sequence", "pretokenizers": [CUT | {"pattern": {"Regex": step}} | more if isinstance(step, str) else step for step in steps]}


REMOVED = {"behavior": "Removed", "invert": True}  # of patterns that leave nothing it is the same
# Of the vocabularies of the test data.
PRE_TOKENIZERS = {
    "gpt-2": GPT_2,
    "starcoder": by_steps(DIGITS, GPT_2),
    "llama-bpe": by_steps(GPT_4.replace("NUMBERS", "{1,3}"), BYTES),
    "qwen2": by_steps(GPT_4.replace("NUMBERS", ""), BYTES),
}
# More, which no vocabulary of the test data has.
OTHER_PRE_TOKENIZERS = {
    "dbrx": by_steps(GPT_4.replace("NUMBERS", "{1,3}"), BYTES, **REMOVED),
    "qwen35": by_steps(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + GPT_4_END, BYTES),
    "gpt-4o": by_steps(GPT_4O, BYTES, **REMOVED),
    "tekken": by_steps(CASED.replace("SUFFIX", "").replace("NUMBERS", ""), BYTES),
    "gpt-2": by_steps(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", BYTES),
    "deepseek-v3": by_steps(
        r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
        r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^CRLF\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[CRLF]*|\s*[CRLF]+|\s+(?!\S)|\s+"""
        .replace("CRLF", "\r\n"), BYTES),
    "deepseek-llm": by_steps("[\r\n]", r"\s?[" + DEEPSEEK_LETTERS + "]+", r"\s?[!-/:-~" + "\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
                             r"\s+$", DEEPSEEK_CJK, DIGITS, BYTES),
    "deepseek-coder": by_steps("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", DEEPSEEK_CJK, DIGITS, BYTES),
    "seed-coder": by_steps("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\r\n]+|\\s*[\r\n]+|\\s+(?!\\S)|\\s+", BYTES),
    "kimi-k2": by_steps(KIMI, BYTES),
    "tiny_aya": by_steps(r"\d{1,3}(?=(?:\d{3})*\b)", GPT_4O, BYTES),
}
# Pieces that are tokens are taken whole, whatever the merges say.
IGNORING = ("llama-bpe", "tekken", "kimi-k2")
# These cut byte by byte, and so between the bytes of a character, which no rule does: what they give hangs on the merges.
FALCON = by_steps(PUNCTUATION, GPT_2, NUMBERS, "[0-9][0-9][0-9]")
FALCON_3 = by_steps(PUNCTUATION, GPT_2, DIGITS)
