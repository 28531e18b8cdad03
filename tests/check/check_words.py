#!/usr/bin/env python3
"""Comments are sentences: few begin as fragments do, and a header's sentences are short.

    check_words.py [--root FOLDER] [--list FOLDER]

Exit status 1 with one line for each top-level folder where more than 2 % of the comment blocks begin with a word such as "What" or "Of", or where
a header sentence has over 30 words. Scripts (Python with its docstrings, shell, CMake, JavaScript) are counted apart from the code of their folder.
--root checks another repository. --list also names all places below a folder."""
import argparse
import ast
import collections
import re
import subprocess
import sys
from pathlib import Path

FRAGMENTS = "What Who Whose Of Where How As Those That".split()
FRAGMENTS_MAX = 0.02  # of the comment blocks of a top-level folder
WORDS_MAX = 30        # in a sentence of a header's comments
SCRIPTS = (".py", ".sh", ".cmake", "CMakeLists.txt", ".js")
KINDS = ["*.c", "*.h", "*.cu", "*.cuh", "*.cpp", "*.hpp", *("*" + ending for ending in SCRIPTS)]
HEADERS = (".h", ".cuh", ".hpp")
COMMENT = re.compile(r"""^((?:[^"'/]|/(?!/)|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')*)//(.*)$""")
FORMATTER = re.compile(r"^\s*(clang-format|NOLINT|----)")
DRAWN = re.compile(r"^(?: {3,}|\t)|[─│┌└├▶◀]|  .*  ")  # a drawing, a formula or a table stands apart


def blocks_of(text):
    """Return the comment blocks of a file: the first line's number, whether it stands behind code, and the lines."""
    blocks, column = [], None
    for number, line in enumerate(text.splitlines(), 1):
        match = COMMENT.match(line)
        if not match or FORMATTER.match(match[2]):
            column = None
            continue
        behind, place = bool(match[1].strip()), len(match[1])
        if column == place and not behind:
            blocks[-1][2].append(match[2])
        else:
            blocks.append((number, behind, [match[2]]))
        column = place
    return blocks


def blocks_of_script(text, is_python):
    """Return the same of a file with # comments. Python's docstrings are blocks, too."""
    blocks, before = [], None
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r"(\s*)#(?!!)(.*)$", line)
        if match and match[1] == before:
            blocks[-1][2].append(match[2])
        elif match:
            blocks.append((number, False, [match[2]]))
        before = match and match[1]
    for node in ast.walk(ast.parse(text)) if is_python else ():
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            blocks.append((node.body[0].lineno, False, ast.get_docstring(node).splitlines()))
    return sorted(blocks)


def sentences_of(lines):
    """Yield the sentences of a comment block without drawings. A blank line, a drawing and an item of a list end one."""
    texts = [""]
    for line in lines:
        if not line.strip() or DRAWN.search(line):
            texts.append("")
        else:
            item = re.match(r"\s*(-|\d+\.) ", line)
            texts.append(line.strip()) if item else texts.append(f"{texts.pop()} {line.strip()}")
    for text in texts:
        yield from (sentence for sentence in re.split(r"(?<=[.?!])[)\"']?\s+(?=[\"'(]?[A-Z0-9*`\[]|\w+[_\[])", text.strip()) if sentence)


def words_in(sentence):
    return sum(1 for word in sentence.split() if re.search(r"\w", word))


def sources(root):
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *KINDS], cwd=root, capture_output=True, text=True, check=True).stdout.split()
    return sorted(name for name in names if (root / name).is_file())


def survey(root):
    """Count, by top-level folder and language, all comment blocks. List those that are fragments, and long sentences of headers."""
    count, fragments, long = collections.Counter(), collections.defaultdict(list), collections.defaultdict(list)
    for name in sources(root):
        folder = name.split("/")[0] + " (scripts)" * name.endswith(SCRIPTS)
        text = (root / name).read_text()
        has_hashes = name.endswith(SCRIPTS) and not name.endswith(".js")
        for number, behind, lines in blocks_of_script(text, name.endswith(".py")) if has_hashes else blocks_of(text):
            first = re.match(r"\s*(\w+)", lines[0])
            if not behind:
                count[folder] += 1
                if first and first[1] in FRAGMENTS:
                    fragments[folder].append(f"{name}:{number}: {lines[0].strip()}")
            if name.endswith(HEADERS):
                long[folder] += [f"{name}:{number}: {words_in(sentence)} words: {sentence}" for sentence in sentences_of(lines)
                                 if words_in(sentence) > WORDS_MAX]
    return count, fragments, long


def troubles(count, fragments, long):
    for folder in sorted(count):
        fragments_max = int(FRAGMENTS_MAX * count[folder])
        if len(fragments[folder]) > fragments_max:
            yield f"{folder}: {len(fragments[folder])} of {count[folder]} comments begin as fragments do, {fragments_max} may: {fragments[folder][-1]}"
        if long[folder]:
            yield f"{folder}: {len(long[folder])} header sentences have over {WORDS_MAX} words: {long[folder][-1]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", type=Path)
    parser.add_argument("--list")
    options = parser.parse_args()
    root = options.root or Path(__file__).resolve().parents[2]
    count, fragments, long = survey(root)
    if options.list:
        print("\n".join(place for kind in (fragments, long) for places in kind.values() for place in places if place.startswith(options.list)))
    for folder in sorted(count):
        print(f"{folder}: {count[folder]} comments, {len(fragments[folder])} fragments, {len(long[folder])} long sentences in headers")
    found = list(troubles(count, fragments, long))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
