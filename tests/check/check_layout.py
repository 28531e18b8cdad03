#!/usr/bin/env python3
"""Hold the code to docs/design.md section 2: which folder may include which, every header alone, and the sizes of files, headers and folders.

    check_layout.py [--compiler CC] [--report] [--root FOLDER]

Exit status 1 if a file includes what its folder may not, a header does not compile by itself, or something is larger than LIMITS allow.
A header that a source of its language includes before anything else is left to the build, which compiles it so.
--report also prints lines of code by folder and the ten longest functions. --root checks another repository, without our exceptions.
"""
import argparse
import collections
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Folder -> folders it may include besides its own. Tests and their helpers ("_test" in the name), and nothing else, also take
# tests/support.
BASE = {"common/base"}
DECODE = BASE | {"common/decode"}
COMMON = {"common/base", "common/gguf", "common/text", "common/decode", "common/model"}
ROLE = COMMON | {"proto"}
MAY_INCLUDE = {
    "kernels": set(),
    # Draws on a device have the CPU's bits, and so its lines: what OR_INLINE marks in headers of these. The tests also call the CPU's.
    "kernels/cuda": {"kernels", "common/base", "common/decode"},
    "common/base": set(),
    "common/gguf": BASE,
    "common/text": BASE | {"common/gguf"},
    "common/decode": BASE,
    "common/model": DECODE | {"common/gguf", "kernels", "kernels/cuda"},
    "proto": COMMON,
    "drafter": ROLE,
    "verifier": ROLE,
    "coordinator": ROLE,
    "launch": ROLE | {"kernels"},  # quantises files, and measures
}
# Tests may include these besides: K and V on a device are compared with what the CPU keeps.
TESTS_MAY_INCLUDE = {"kernels/cuda": {"common/model"}}
# The one include of tests/ in the product, for builds without a CUDA compiler: there the kernels are compiled for the emulator of a GPU, which only
# tests run. So its threads, waits and launches stand for CUDA's in the header that all kernels share.
EMULATOR = ("kernels/cuda/cuda_portable.cuh", "tests/emulator/emulated.hpp")
# Folders for one kind of processor: what compiles their headers. Where there is no such compiler nothing does.
TARGETS = {
    "kernels/avx2": "x86_64-linux-gnu-gcc -mavx2 -mfma -mf16c",
    "kernels/avx512": "x86_64-linux-gnu-gcc -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx512vbmi -mfma -mf16c",
    "kernels/neon": "aarch64-linux-gnu-gcc",
}
# The largest sizes. The product is what stands below PRODUCT, without tests ("_test" in the name).
LIMITS = {"lines of a product file": 500, "prototypes of a header": 30, "files of a folder": 30}
PRODUCT = ("common", "coordinator", "drafter", "kernels", "launch", "proto", "verifier")
# These are larger all the same, with the reason. An entry that is no longer needed is a problem too, so this list can only shrink.
LARGER = {
    ("prototypes of a header", "common/model/gpu/gpu_internal.h"): "all parts of one model on a device share it, and each needs most of it",
    ("prototypes of a header", "coordinator/http/api/api_internal.h"): "the calls share a request, its answer and its limits",
    ("prototypes of a header", "coordinator/http/server/server_internal.h"): "one connection passes through all parts of the server",
}
PROTOTYPE = re.compile(r"^[a-z][^\n;{}#]*?\bor_\w+\([^;{]*\);", re.M)
FLAGS = "-fsyntax-only -D_GNU_SOURCE -Wall -Wextra -Werror".split()
C_FLAGS = "-std=c11 -Wstrict-prototypes -xc".split()
# Kernels for a GPU, and what runs them on a CPU, are C++. So their headers are compiled here as for a CPU.
CXX = "g++"
CXX_FLAGS = "-std=c++17 -xc++".split()
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
FIRST_INCLUDE = re.compile(r'(?:(?://.*)?\n)*#include "([^"]+)"')
# A function as clang-format leaves it: its opening brace and its closing one stand alone in column 1.
FUNCTION = re.compile(r"^(?!typedef|struct|enum|union|static const)(\w[^;={}]*?\b(\w+)\([^;{}]*\))\n\{\n(.*?)^\}", re.M | re.S)


def tracked():
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    return sorted(name for name in names if name and (ROOT / name).is_file())


def sources():
    return [name for name in tracked() if name.endswith((".c", ".h", ".cu", ".cuh", ".cpp", ".hpp"))]


def folder_of(name):
    """Return the row of the table that a file belongs to, or None for tests and anything else."""
    parts = Path(name).parts
    for depth in (2, 1):
        folder = "/".join(parts[:depth])
        if folder in MAY_INCLUDE and len(parts) > depth:
            return folder
    return None


def forbidden_includes(name):
    folder = folder_of(name)
    if folder is None:
        return []
    is_test = "_test" in Path(name).stem
    allowed = MAY_INCLUDE[folder] | (TESTS_MAY_INCLUDE.get(folder, set()) if is_test else set())
    found = []
    for target in INCLUDE.findall((ROOT / name).read_text()):
        if not (ROOT / target).is_file():
            generated = target.endswith(".pb-c.h") and folder == "proto"
            if not generated:
                found.append(f'{name}: "{target}" is not a rooted path')
            continue
        if (is_test and target.startswith("tests/support/")) or (name, target) == EMULATOR:
            continue
        other = folder_of(target)
        if other != folder and other not in allowed:
            found.append(f'{name}: {folder} may not include "{target}"')
    return found


def included_first(names):
    """Return the headers that some source of their language includes before anything else, for which the build shows that they compile alone. Not every
    build has the fuzzers, or the folder for one kind of processor."""
    first = set()
    for name in names:
        folder = str(Path(name).parent)
        match = FIRST_INCLUDE.match((ROOT / name).read_text()) if name.endswith((".c", ".cu", ".cpp")) else None
        if match and match.group(1).endswith(".h") == name.endswith(".c") and folder not in (*TARGETS, "tests/fuzz"):
            first.add(match.group(1))
    return first


def header_alone(compiler, name):
    compiler, flags = TARGETS.get(str(Path(name).parent), compiler), C_FLAGS
    if name.endswith((".cuh", ".hpp")):
        compiler, flags = CXX, CXX_FLAGS
    if shutil.which(compiler.split()[0]) is None:
        return []
    result = subprocess.run([*compiler.split(), *FLAGS, *flags, f"-I{ROOT}", "-include", str(ROOT / name), os.devnull],
                            capture_output=True, text=True)
    return [f"{name} does not compile alone:\n{result.stderr}"] if result.returncode else []


def is_product(name):
    return name.split("/")[0] in PRODUCT and "_test" not in Path(name).stem


def sizes(names):
    """Yield (limit, place, size) of everything that has a limit."""
    folders = collections.Counter(str(Path(name).parent) for name in tracked() if not name.endswith(".patch"))
    for name in names:
        text = (ROOT / name).read_text()
        if is_product(name):
            yield "lines of a product file", name, len(text.splitlines())
        if name.endswith((".h", ".cuh", ".hpp")):
            yield "prototypes of a header", name, len(PROTOTYPE.findall(text))
    for folder, count in folders.items():
        if folder.split("/")[0] in (*PRODUCT, "docs", "tests"):
            yield "files of a folder", folder, count


def oversized(names, larger):
    over = {(limit, place): size for limit, place, size in sizes(names) if size > LIMITS[limit]}
    problems = [f"{place}: {size} {limit}, at most {LIMITS[limit]} are allowed" for (limit, place), size in over.items() if (limit, place) not in larger]
    return problems + [f"{place}: no longer too large; take it out of LARGER" for limit, place in larger if (limit, place) not in over]


def code_lines(text):
    """Count the lines that are neither blank nor only a // comment."""
    return sum(1 for line in text.splitlines() if line.strip() and not line.lstrip().startswith("//"))


def report(names):
    by_folder, functions = {}, []
    for name in names:
        text = (ROOT / name).read_text()
        folder = folder_of(name) or "tests"
        kind = "tests" if "_test" in Path(name).stem or folder == "tests" else "code"
        by_folder.setdefault(folder, {"code": 0, "tests": 0})[kind] += code_lines(text)
        if kind == "code":
            for match in FUNCTION.finditer(text):
                functions.append((match.group(3).count("\n"), match.group(2), name))
    print("lines of code     code   tests")
    for folder, lines in sorted(by_folder.items()):
        print(f"  {folder:14} {lines['code']:6} {lines['tests']:7}")
    total = {kind: sum(lines[kind] for lines in by_folder.values()) for kind in ("code", "tests")}
    print(f"  {'all':14} {total['code']:6} {total['tests']:7}")
    print("longest functions")
    for length, function, name in sorted(functions, reverse=True)[:10]:
        print(f"  {length:4}  {function}  {name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compiler", default=os.environ.get("CC", "gcc"))
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--root", type=Path)
    options = parser.parse_args()
    global ROOT
    ROOT = options.root or ROOT
    names = sources()
    problems = [problem for name in names for problem in forbidden_includes(name)]
    problems += oversized(names, {} if options.root else LARGER)
    # A header over generated code is compiled first by a source that has the build folder's includes.
    shown = included_first(names)
    headers = [name for name in names
               if name.endswith((".h", ".cuh", ".hpp")) and name not in shown and ".pb-c.h" not in (ROOT / name).read_text()]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(lambda name: header_alone(options.compiler, name), headers):
            problems += found
    for problem in problems:
        print(problem)
    if options.report:
        report(names)
    print(f"{len(names)} files, {len(headers)} headers compiled, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
