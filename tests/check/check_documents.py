#!/usr/bin/env python3
"""All that documents and comments cite is there: files, sections, and links; and the documents that newcomers read first stay short.

    check_documents.py [--root FOLDER]

The first command of the quick start in README is there, too, and README names the command with which it ends.

Exit status 1 with one line for each citation that leads nowhere. A path is cited in backticks with a slash in it, or as docs/NAME.md anywhere; a section as
"docs/NAME.md section N" or "`docs/NAME.md`, section N"; a link as [text](place). Documents cite names of the code in backticks, as `or_x` or `OR_X`. In
`src/a_<name>.c` any name may stand for <name>, and there must be one such file."""
import argparse
import re
import subprocess
import sys
from pathlib import Path

README_LINES_MAX, STOPS_MAX = 200, 12
# Documents of the team, outside of the repository: nobody who has the repository alone can read them.
OUTSIDE = re.compile(r"(?<![\w/])(?:DESIGN|ALGORITHMS|STYLE)\.md|\.\./shared/(?!data)[\w/.-]+")
CITED = re.compile(r"docs/[\w-]+\.md")
PATH = re.compile(r"`((?:[\w.-]+/)+[\w.<>-]*)`")
NAME = re.compile(r"`(or_\w+|OR_\w+)`")
CODE = (".c", ".h", ".cu", ".cuh", ".py", ".hpp")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
SECTION = re.compile(r"`?(docs/[\w-]+\.md)`?,?\s+(?://\s*|#\s*)?section\s+(?://\s*|#\s*)?(\d+)")
FIRST_COMMAND = re.compile(r"(?m)^    (\S+\.sh)\b")
RUNS_LAST = re.compile(r"exec build/release/bin/(outrider \w+) \"\$@\"")
TEXTS = (".md", ".c", ".h", ".cu", ".cuh", ".cpp", ".hpp", ".py", ".sh", ".txt", ".patch", ".proto", ".cmake")
OURS = ("tests/check/check_documents.py", "tests/check/test_documents.py")  # they cite what is not there on purpose
# Places that come with a build or a user's own files, and examples of such.
NOT_HERE = ("build/", "dev/", "proc/", "srv/", "v1/", "gpt2/")


def tracked(root):
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True, check=True).stdout.split("\n")
    return [name for name in names if name.endswith(TEXTS) and (root / name).is_file()]


def sections_of(path):
    return set(re.findall(r"(?m)^#+ (\d+)\.", path.read_text()))


def is_there(root, path):
    return any(root.glob(re.sub("<[^>]*>", "*", path))) if "<" in path else (root / path).exists()


def names_of_code(root):
    return {word for name in tracked(root) if name.endswith(CODE) and name not in OURS
            for word in re.findall(r"\b(?:or|OR)_\w+", (root / name).read_text(errors="replace"))}


def lost_paths(root, name, text):
    """Return the files that a document names and that are not there."""
    folder = (root / name).parent
    for path in PATH.findall(text):
        if not path.startswith(NOT_HERE) and path.split("/")[0] in {place.name for place in root.iterdir()} and not is_there(root, path):
            yield f"{name}: there is no {path}"
    for place in LINK.findall(text):
        if not (folder / place).exists():
            yield f"{name}: a link to {place} leads nowhere"


def lost_citations(root, name, text):
    """Return the documents and sections that a file cites and that are not there."""
    for place in OUTSIDE.findall(text):
        yield f"{name}: cites {place}, which is not in the repository"
    for path in set(CITED.findall(text)):
        if not (root / path).is_file():
            yield f"{name}: there is no {path}"
    for path, number in set(SECTION.findall(text)):
        if (root / path).is_file() and number not in sections_of(root / path):
            yield f"{name}: {path} has no section {number}"


def too_long(root):
    lines = len((root / "README.md").read_text().splitlines())
    if lines > README_LINES_MAX:
        yield f"README.md has {lines} lines: at most {README_LINES_MAX}"
    stops = len(re.findall(r"(?m)^\d+\. \*\*", (root / "ARCHITECTURE.md").read_text()))
    if not 0 < stops <= STOPS_MAX:
        yield f"ARCHITECTURE.md's tour has {stops} stops: 1 to {STOPS_MAX}"


def quick_start(root):
    """README's first command is there, and README names the command that its last line runs."""
    text = (root / "README.md").read_text()
    first = FIRST_COMMAND.search(text)
    if first is None:
        return
    script = root / first[1]
    if not script.is_file():
        yield f"README.md: its first command, {first[1]}, is not there"
        return
    lines = script.read_text().splitlines() or [""]
    runs = RUNS_LAST.fullmatch(lines[-1])
    if runs is None:
        yield f"{first[1]}: its last line runs no command of outrider: {lines[-1]}"
    elif f"`{runs[1]}`" not in text.split("## ")[0]:
        yield f"README.md: it does not say that {first[1]} ends with `{runs[1]}`"


def troubles(root):
    known = names_of_code(root)
    for name in tracked(root):
        if name in OURS:
            continue
        text = (root / name).read_text(errors="replace")
        yield from lost_citations(root, name, text)
        if name.endswith(".md"):
            yield from lost_paths(root, name, text)
            yield from (f"{name}: there is no {word}" for word in sorted(set(NAME.findall(text)) - known))
    yield from too_long(root)
    yield from quick_start(root)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    found = sorted(troubles(parser.parse_args().root))
    print("\n".join(found) if found else "all that is cited is there")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
