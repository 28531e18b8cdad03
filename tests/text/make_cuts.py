"""Write data/cuts.json: where published pre-tokenizers cut hard texts, as PyPI's `tokenizers` finds. Run by hand; test_cuts.py reads it."""
import json
import random
import re
import sys
import unicodedata
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "convert"))
from pre_tokenizers import BYTES, GPT_2, OTHER_PRE_TOKENIZERS, PRE_TOKENIZERS  # noqa: E402

try:
    import tokenizers
except ImportError:
    tokenizers = None

STORED = HERE / "data/cuts.json"
PUBLISHED = OTHER_PRE_TOKENIZERS | PRE_TOKENIZERS
STORED_RANDOM = 60
PIECES = ["a", "B", "the", "Ing", "xY", "HTML", " ", "  ", "\n", "\t", "0", "12", "345", "67890", "'s", "'LL", "'", ".", ",", "!?", "-", "_", "/", "é", "ß", "Ж", "Σ", "ώ", "ﬁ", "中",
          "文字", "ひ", "カ", "한국", "ﾊ", "𝄞", "😀", "👩\u200d👩\u200d👧", "🏳\ufe0f\u200d🌈", "\u200d", "\u0301", "e\u0301\u0323", "\u093f", "नि", "กำ", "ع", "א", "\u00a0", "\u2003",
          "\u3000", "\u0085", "\u2028", "\u180e", "\u200b", " " * 5, " " * 17, "\n" * 3, " \n", "\r\n", "\r", "\v", "٣", "½", "²", "Ⅷ", "१२", "İ", "ǅ", "'ſ", "ʰ", "ª", "。", "、", "“", "”",
          "‘", "～", "！", "＄", "$", "+", "^", "`", "|", "{", "}", "<s>", "\U00010400", "\U0001e943", "\U000104b0", "\u2f00", "\u31f0", "\ua640", "\uab70"]
ILL_FORMED = [b"\xff", b"\xc3", b"\xe4\xb8", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\xaf", b"\x80"]
BOUNDARIES = (0x80, 0x800, 0x10000, 0x30000)  # letters are dense below the last
FIXED = ["", " ", "I'LL say don't  (1234)\n\nx", "a   b \t c  ", "a  \r\n \n b", "12345678 1234567x ½3", "e\u0301te\u0301", "ΑΒγ ΆΈώ", "你好，世界。2024年！ひらカタ",
         "안녕 하세요 ㄱ", "👩\u200d👩\u200d👧 🏳\ufe0f\u200d🌈!", "if (x==1) {\n\t\treturn y->z;\n}\r\n", "/usr/local//bin", "CamelCaseHTMLPage's iPhone'S", "\u00a0\u3000\u2003 x\u0085y", "..., !!! ??? ~~~",
         "x²+y³=z½", "1234x 1234² 1234ⅰ 1234⅐ 1234Ⓐ 1234_ 1234", "\u093f\u0902 हिन्दी में १२३४", "ا ب ٣٤٥٦ ج", "กำลัง ทดสอบ", "\u2028\u2029", "\u180ea\u200bb", "<|im_start|>a</s>", "_a_ __b", "'s't're've'm'll'd 'S'T'RE'VE'M'LL'D 'ſa"]


def random_character(draw):
    while True:
        code = draw.randrange(draw.choice(BOUNDARIES))
        # Characters that are newer than this Python, PCRE2 may know or not, and the package too.
        if code > 0 and unicodedata.category(chr(code)) not in ("Cs", "Cn"):
            return chr(code)


def random_text(draw):
    parts = [draw.choice(PIECES).encode() if draw.random() < 0.8 else random_character(draw).encode() for _ in range(draw.randrange(1, 24))]
    if draw.random() < 0.1:
        parts.insert(draw.randrange(len(parts) + 1), draw.choice(ILL_FORMED))
    return b"".join(parts)


def random_texts(seed, count):
    draw = random.Random(seed)
    return [random_text(draw) for _ in range(count)]


def stretches(text):
    """Return (start, bytes, well-formed) of the longest parts that are UTF-8, and of what lies between."""
    decoded = text.decode(errors="surrogateescape")
    at, found = 0, []
    for part in re.findall("[\udc80-\udcff]+|[^\udc80-\udcff]+", decoded):
        raw = part.encode(errors="surrogateescape")
        found.append((at, raw, not "\udc80" <= part[0] <= "\udcff"))
        at += len(raw)
    return found


def cutter_of(published):
    """Return the pre-tokenizer without its last step, which writes bytes as characters and then would be cut by those; that of GPT-2 cuts before."""
    steps = published["pretokenizers"] if published["type"] == "Sequence" else [published]
    last = [{"type": "Split", "behavior": "Isolated", "invert": False, "pattern": {"Regex": OTHER_PRE_TOKENIZERS["gpt-2"]["pretokenizers"][0]["pattern"]["Regex"]}}]
    if steps[-1] not in (BYTES, GPT_2):
        raise ValueError("the last step is not over bytes")
    whole = {"type": "Sequence", "pretokenizers": steps[:-1] + (last if steps[-1] == GPT_2 else [])}
    probe = tokenizers.Tokenizer(tokenizers.models.BPE())
    return tokenizers.Tokenizer.from_str(json.dumps(json.loads(probe.to_str()) | {"pre_tokenizer": whole})).pre_tokenizer


def their_cuts(published, texts):
    cutter = cutter_of(published)
    found = []
    for text in texts:
        ends = []
        for start, raw, is_text in stretches(text):
            pieces = [raw] if not is_text else [piece.encode() for piece, _ in cutter.pre_tokenize_str(raw.decode())]
            for piece in pieces:
                start += len(piece)
                ends.append(start)
        if ends and ends[-1] != len(text):
            raise ValueError(f"pieces do not add up: {text}")
        found.append(ends)
    return found


def main():
    texts = [text.encode() for text in FIXED] + random_texts(1, STORED_RANDOM)
    cuts = {rule: their_cuts(published, texts) for rule, published in PUBLISHED.items()}
    lines = [f'"texts": {json.dumps([text.hex() for text in texts])}']
    lines += [f'"cuts": {{\n{",".join(chr(10) + json.dumps(rule) + ": " + json.dumps(ends, separators=(",", ":")) for rule, ends in cuts.items())[1:]}\n}}']
    STORED.write_text("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    main()
