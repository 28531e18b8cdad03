#!/usr/bin/env bash
# Every check of the repository: formatting, layout, all tests on the release build, then the sanitizers, the fuzzers and, where there is nvcc, the
# kernels for a GPU (tests/gpu/run.sh runs them on one).
# CI=true makes missing test data (OUTRIDER_TEST_DATA, default ../shared/data) a failure instead of a skip.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=launch/packages.sh
. launch/packages.sh

install_missing "${build_packages[@]}" clang-format clang-tidy clang libclang-rt-dev prometheus python3-jinja2 python3-venv chromium chromium-driver \
  python3-selenium openssl gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user

jobs=$(nproc)
failed=()

# step NAME COMMAND ...: run it, go on after a failure, and remember it.
step() {
  local name=$1 start=$SECONDS
  shift
  say "$name"
  if "$@"; then
    say "$name: passed after $((SECONDS - start)) s"
  else
    failed+=("$name")
    say "$name: FAILED after $((SECONDS - start)) s"
  fi
}

formatted() { git ls-files -co --exclude-standard '*.c' '*.h' '*.cu' '*.cuh' '*.cpp' '*.hpp' | xargs -r clang-format --dry-run --Werror; }

# .clang-tidy says what is looked at; tests are left to the compiler and the sanitizers. NEON's kernels are compiled by tests/cross only.
linted() {
  { git ls-files '*.c' | grep -v -e _test -e ^tests/ -e ^kernels/neon/ | tidied build/release &&
    git ls-files 'kernels/neon/*.c' | tidied build/release/tests/cross/aarch64 --extra-arg=-Wno-ignored-optimization-argument; } >build/tidy.log 2>&1 ||
    { grep -E -A 6 '(warning|error):' build/tidy.log; return 1; }
}

# tidied BUILD-FOLDER CLANG-TIDY-ARGUMENT ...: the files of stdin.
tidied() { xargs -P "$jobs" -n 6 clang-tidy --quiet -p "$@"; }

# build PRESET: configure once, build; its output is shown only if it fails.
build() {
  local log
  if ! log=$( { [ -f "build/$1/build.ninja" ] || cmake --preset "$1"; cmake --build --preset "$1"; } 2>&1); then
    printf '%s\n' "$log" | tail -n 60 >&2
    return 1
  fi
}

# suite PRESET CTEST-ARGUMENT ...
suite() {
  local preset=$1
  shift
  build "$preset" && ctest --preset "$preset" -j "$jobs" --output-on-failure --no-tests=error "$@"
}

# Each fuzzer of tests/fuzz for some seconds, and how fast it was.
fuzzed() {
  suite fuzz || return 1
  awk '/ Testing: / { name = $NF } /average_exec_per_sec/ { print "  " name ": " $2 " executions per second" }' \
    build/fuzz/Testing/Temporary/LastTest.log
}

# The kernels and their tests for a GPU: compiled and linked, and run where there is one.
cuda_built() {
  if ! command -v nvcc >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then
    say "no nvcc: the CUDA build is skipped"
    return 0
  fi
  suite cuda
}

export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1}

# OpenAI's own client, for tests/http: not from Debian, and nobody needs it to build or to run. Where there is no PyPI, its tests are
# skipped by name; not in CI.
openai_client() {
  [ -x build/venv/bin/python ] || python3 -m venv build/venv || return 1
  build/venv/bin/python -c 'import openai' 2>/dev/null || build/venv/bin/pip install --quiet --disable-pip-version-check openai ||
    { [ "${CI:-}" != true ] && say "no OpenAI client from PyPI: http_openai will be skipped"; }
}

# What was not tested, by name: whole programs and single tests of them.
tell_skips() {
  local skips
  skips=$(awk '/ Testing: / { program = $NF }
    /^\[  SKIPPED \] [a-z]/ || /^SKIPPED: / { sub(/^(\[  SKIPPED \]|SKIPPED:) /, ""); name = program ": " $0; if (!(name in told)) print "  " name; told[name] = 1 }' \
    build/*/Testing/Temporary/LastTest.log 2>/dev/null) || return 0
  say "$(grep -c . <<<"$skips") tests were skipped${skips:+:}"
  [ -z "$skips" ] || printf '%s\n' "$skips"
}

step "formatting" formatted
step "OpenAI's Python client" openai_client
step "release tests" suite release -LE '^(gpu|long)$'
step "clang-tidy" linted
step "address and undefined-behaviour sanitizers" suite asan -LE '^(gpu|long|process|layout|exactness|network)$'
step "thread sanitizer" suite tsan -L '^(threads|programs)$'
step "fuzzers" fuzzed
step "CUDA build" cuda_built

tell_skips
if [ ${#failed[@]} -gt 0 ]; then
  say "FAILED: ${failed[*]}"
  exit 1
fi
say "everything passed after $SECONDS s"
