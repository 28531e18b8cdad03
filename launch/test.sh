#!/usr/bin/env bash
# test.sh                   the gate: every layer of the checks, in at most a quarter of an hour on two cores
# test.sh --until MINUTES   the gate, then parts of the rest in an order drawn from the commit; none begins after so many minutes
# test.sh --all             the gate and all of the rest: attacks, load, kills, mutants, other processors, more fuzzing; it takes hours
#
# CI=true makes what is missing a failure instead of a skip: test data (OUTRIDER_TEST_DATA, default ../shared/data), programs, Python packages.
# OR_TEST_SEED replays what was drawn. Where the gate takes one in so many cases of a test, OR_TEST_WHOLE=1 takes all.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=launch/packages.sh
. launch/packages.sh

usage() { sed -n '2,7s/^# \{0,1\}//p' launch/test.sh; }

mode=${1:-gate} minutes=0
case $mode in
gate | --all) [ $# -le 1 ] || { usage >&2; exit 2; } ;;
--until) minutes=${2:?$(usage)} ;;
-h | --help) usage; exit ;;
*) usage >&2; exit 2 ;;
esac

install_missing "${build_packages[@]}" "${release_packages[@]}" clang-format clang-tidy clang libclang-rt-dev prometheus python3-jinja2 python3-venv chromium chromium-driver \
  python3-selenium openssl gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user ccache

jobs=$(nproc)
failed=() left=()

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

# List the files that the last commits have changed, or that are not committed; all files where there are no such commits.
recent_files() { { git diff --name-only --diff-filter=d HEAD~20 2>/dev/null && git ls-files -o --exclude-standard; } || git ls-files; }

# tidied BUILD-FOLDER CLANG-TIDY-ARGUMENT ...: run clang-tidy on the files of stdin.
tidied() { xargs -r -P "$jobs" -n 6 clang-tidy --quiet -p "$@"; }

# linted COMMAND ...: lint the files that it lists. .clang-tidy says what is looked at; tests are left to the compiler and the sanitizers. NEON's
# kernels can be looked at once they have been compiled (tests/cross).
linted() {
  local files neon=build/release/tests/cross/aarch64
  files=$("$@" | grep '\.c$' | grep -v -e _test -e ^tests/ || true)
  { { grep -v ^kernels/neon/ <<<"$files" || true; } | tidied build/release &&
    { [ ! -f $neon/compile_commands.json ] ||
      { grep ^kernels/neon/ <<<"$files" || true; } | tidied $neon --extra-arg=-Wno-ignored-optimization-argument; }; } >build/tidy.log 2>&1 && return
  grep -E -A 6 '(warning|error):' build/tidy.log
  return 1
}

# configured PRESET CMAKE-ARGUMENT ... and built PRESET TARGET ... (default: all) show their output only if they fail.
quietly() {
  local log
  if ! log=$("$@" 2>&1); then
    printf '%s\n' "$log" | tail -n 60 >&2
    return 1
  fi
}
configured() { quietly cmake --preset "$@"; }
built() {
  local preset=$1
  shift
  quietly cmake --build --preset "$preset" ${1:+--target "$@"}
}

# Two tests more than there are cores at a time: many of them wait for processes or for the network most of their time.
tested() { ctest --preset "$1" -j "$((jobs + 2))" --output-on-failure --no-tests=error "${@:2}"; }

# names PRESET CTEST-ARGUMENT ...: list the names of the tests that these choose.
names() { ctest --preset "$1" -N "${@:2}" | sed -n 's/^ *Test *#[0-9]*: //p'; }

# suite PRESET CTEST-ARGUMENT ...: build all, and run the tests that these choose.
suite() { configured "$1" && built "$1" && tested "$@"; }

# The same where not all tests are chosen: builds what they are named after, and Outrider's own programs.
small_suite() {
  local chosen
  configured "$1" || return 1
  chosen=$(names "$@" | grep '_test$')
  # shellcheck disable=SC2086 # words
  built "$1" $chosen outrider outrider-coordinator outrider-verifier outrider-drafter && tested "$@"
}

# fuzzed SECONDS: run each fuzzer of tests/fuzz for so long, and say how fast it was.
fuzzed() {
  configured fuzz "-DOUTRIDER_FUZZ_SECONDS=$1" && built fuzz && tested fuzz || return 1
  awk '/ Testing: / { name = $NF } /average_exec_per_sec/ { print "  " name ": " $2 " executions per second" }' \
    build/fuzz/Testing/Temporary/LastTest.log
}

# cuda_built all | recent: the kernels and their tests for a GPU, compiled and linked, and run where there is one (tests/gpu/run.sh does so).
# `recent`: only if a file of theirs has changed. (grep reads to the end: with -q it leaves git behind with nobody to write to, which is a failure.)
cuda_built() {
  if ! command -v nvcc >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then
    say "no nvcc: the CUDA build is skipped"
  elif [ "$1" = recent ] && ! recent_files | grep -e '\.cu' -e ^kernels/cuda/ -e ^common/model/gpu -e ^cmake/ -e ^tests/gpu/ >/dev/null; then
    say "no file for GPUs has changed: the CUDA build is left to the rest"
  else
    suite cuda
  fi
}

# Oracles that are not from Debian, and that nobody needs to build or to run: OpenAI's own client, for tests/http, and llama.cpp, for tests/families.
# Where there is no PyPI, their tests are skipped by name; not in CI.
oracles() {
  [ -x build/venv/bin/python ] || python3 -m venv build/venv || return 1
  build/venv/bin/python -c 'import openai, xllamacpp' 2>/dev/null ||
    build/venv/bin/pip install --quiet --disable-pip-version-check openai xllamacpp==2026.10.11549 ||
    { [ "${CI:-}" != true ] && say "nothing from PyPI: http_openai and families_llama_cpp will be skipped"; }
}

# Say by name what was not tested: whole programs and single tests of them.
tell_skips() {
  local skips
  skips=$(awk '/ Testing: / { program = $NF }
    /^\[  SKIPPED \] [a-z]/ || /^SKIPPED: / { sub(/^(\[  SKIPPED \]|SKIPPED:) /, ""); name = program ": " $0; if (!told[name]++) print "  " name }' \
    build/*/Testing/Temporary/LastTest.log 2>/dev/null) || return 0
  say "$(grep -c . <<<"$skips") tests were skipped${skips:+:}"
  [ -z "$skips" ] || printf '%s\n' "$skips"
}

# Labels of CTest say what is not of the gate: `rest`; `long`, of which each takes many minutes; and `twin`, whole models on an emulated GPU.
# Sanitizers see neither what measures time or starts many processes, nor, in the gate, what takes them long.
instrumented=(-LE '^(gpu|rest|long|process|layout|exactness)$')
emulated='emulated|^(model_gpu_fail_test|model_growth_limits_test)$'
slow='^(model_bits_test|families_bits_test|model_ranks_test|model_ranks_random_test|policy_test|builder_grow_test|simulation_test|hostile_simulation_test|failover_test|programs_trouble|windows_test|model_packed_test)$'
slow_threads="$emulated|$slow|^(model_attention_test|model_streamed_test|model_kept_test|families_windows_test)\$"

gate() {
  step "formatting" formatted
  step "oracles from PyPI" oracles
  step "release tests" suite release -LE '^(gpu|rest|long|twin)$'
  step "clang-tidy of recent files" linted recent_files
  step "address and undefined-behaviour sanitizers" small_suite asan "${instrumented[@]}" -E "$emulated|$slow"
  step "thread sanitizer" small_suite tsan -L '^(threads|programs)$' -E "$slow_threads"
  step "fuzzers" fuzzed 1
  step "CUDA build" cuda_built recent
}

# rest_part NAME: run this part of the rest.
rest_part() {
  case $1 in
  clang-tidy) { [ -d build/release/tests/cross/aarch64 ] || tested release -R '^cross_aarch64$'; } && linted git ls-files ;;
  asan) small_suite asan "${instrumented[@]}" -R "$slow" ;;
  emulated) small_suite asan -LE '^(gpu|rest|long|process|layout|exactness|twin)$' -R "$emulated" ;;
  twins) suite release -L '^twin$' && suite asan -L '^twin$' ;;
  tsan) small_suite tsan -L '^(threads|programs)$' -R "$slow_threads" ;;
  fuzz) fuzzed 30 ;;
  cuda) cuda_built all ;;
  *) tested release -R "^$1\$" ;;
  esac
}

# rest LABELS: run its parts, in an order and with a seed that are drawn from the commit.
rest() {
  local part commit
  commit=$(git rev-parse HEAD 2>/dev/null || date +%s%N | sha1sum)
  export OR_TEST_SEED=${OR_TEST_SEED:-$((16#${commit:0:8}))}
  say "the rest, with OR_TEST_SEED=$OR_TEST_SEED"
  for part in $({ names release -L "$1" && printf '%s\n' clang-tidy asan emulated twins tsan fuzz cuda; } | shuf --random-source=<(yes "$commit")); do
    if [ "$mode" = --until ] && [ $SECONDS -ge $((60 * minutes)) ]; then
      left+=("$part")
    else
      step "$part" rest_part "$part"
    fi
  done
}

export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1}

gate
tell_skips
if [ ${#failed[@]} -eq 0 ] && [ "$mode" != gate ]; then
  if [ "$mode" = --all ]; then rest '^(rest|long)$'; else rest '^rest$'; fi
fi
if [ ${#failed[@]} -gt 0 ]; then
  say "FAILED: ${failed[*]}"
  exit 1
fi
[ ${#left[@]} -eq 0 ] || say "left for another time: ${left[*]}"
say "everything passed after $SECONDS s"
