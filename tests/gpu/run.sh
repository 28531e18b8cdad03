#!/usr/bin/env bash
# run.sh [NAME ...] - all tests on a GPU (or only those named, as "rows"), some of kernels also under compute-sanitizer, whole programs, and what
# passes cost (step_bench.c, draft_bench.c, offload_bench.c, product_bench.c; neither where tests are named). A table of it all is printed line by line and kept
# in OUTRIDER_GPU_TABLE (build/gpu/gpu.md), for tests/gpu/RESULTS.md.
#
# Needs no network: CMake, Ninja, nvcc, gcc, g++, pkg-config and the libraries of launch/packages.sh. Where the machine lacks them, make a bundle
# on a connected one (launch/offline-bundle.sh FOLDER), bring the folder and say OUTRIDER_BUNDLE=FOLDER. Where minutes on the GPU are dear, build
# on another machine, bring build/cuda's bin and tests, and say OUTRIDER_GPU_BUILD=FOLDER, which has the two: nothing is compiled then. Ends within
# OUTRIDER_GPU_SECONDS (540, the build included): what there was no time for is in the table. 0: nothing failed; 77: there is no GPU; 1: something
# failed, or no test, or nothing under compute-sanitizer, had time enough to tell.
set -euo pipefail
brought=${OUTRIDER_GPU_BUILD:+$(realpath -m "$OUTRIDER_GPU_BUILD")}
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
PATH=$PATH:/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer
export LC_ALL=C OUTRIDER_MODELS=${OUTRIDER_MODELS:-$PWD/launch/models}
seconds_all=${OUTRIDER_GPU_SECONDS:-540}
build=${brought:-$PWD/build/gpu}
tests=$build/tests
table=${OUTRIDER_GPU_TABLE:-build/gpu/gpu.md}

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
advise() { say "$* see launch/packages.sh, or set OUTRIDER_BUNDLE to a folder that launch/offline-bundle.sh made"; }

if [ -n "${OUTRIDER_BUNDLE:-}" ]; then
  [ -f build/bundle/env ] || "$OUTRIDER_BUNDLE/unpack.sh" build/bundle
  # shellcheck disable=SC1091
  . build/bundle/env
fi

# ---- the build ----

compile() {
  local missing=() program architectures capability log=$build.log
  for program in cmake ninja nvcc gcc g++ pkg-config protoc-c; do
    command -v "$program" >/dev/null || missing+=("$program")
  done
  if [ ${#missing[@]} -gt 0 ]; then
    advise "missing: ${missing[*]};"
    exit 1
  fi

  # For the GPU that is here alone, if one is and nvcc knows it: in a third of the time, and in a folder of its own, since others want kernels
  # for more. A compiler that nobody has tried here may warn of more; that is for another day.
  architectures=-UCMAKE_CUDA_ARCHITECTURES # so those of cmake/cuda.cmake
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1) || capability=
  if [[ $capability =~ ^[0-9]+\.[0-9]$ ]] && [ "${capability/./}" -ge 80 ] && nvcc --list-gpu-code | grep -x "sm_${capability/./}" >/dev/null; then
    architectures=-DCMAKE_CUDA_ARCHITECTURES=${capability/./}-real
  fi
  say "building"
  mkdir -p "$build"
  if ! cmake --preset cuda -B "$build" -DOUTRIDER_WERROR=OFF "$architectures" >"$log" 2>&1; then
    tail -n 60 "$log" >&2
    advise "for a library that is missing,"
    exit 1
  fi
  if ! cmake --build "$build" --target cuda >>"$log" 2>&1; then
    tail -n 60 "$log" >&2
    exit 1
  fi
}

made="brought from elsewhere"
if [ -z "$brought" ]; then
  compile
  made="built in $SECONDS s"
elif [ ! -x "$build/bin/outrider" ] || [ ! -x "$tests/device_gpu_test" ]; then
  say "OUTRIDER_GPU_BUILD: $build has no bin/outrider or no tests/device_gpu_test: bring build/cuda's bin and tests, built by \`cmake --build --preset cuda\`"
  exit 1
fi

# ---- the table ----

tell() { printf '%s\n' "$*" | tee -a "$table"; }

# row NAME COMMAND ...: a line "| name | seconds | result |" of a command that may take `limit` seconds, and leaves `reserve` of all for what
# comes behind it; whether one that takes longer has failed, `late` says. 0 if it passed. Its output is kept in `output`; `rows` and `told`
# count rows, and those that had time enough.
limit=60 reserve=0 late=FAILED rows=0 told=0 output=
row() {
  local name=$1 left=$((seconds_all - reserve - SECONDS)) began=$EPOCHREALTIME status=0 result
  shift
  rows=$((rows + 1))
  if [ "$left" -lt 3 ]; then
    tell "| $name | | not run: no time left |"
    return 1
  fi
  say "$name"
  left=$((left < limit ? left : limit))
  output=$(timeout -k 5 "$left" "$@" 2>&1) || status=$?
  case $status in
    0) result=passed ;;
    77) result="skipped: ${output##*$'\n'}" ;;
    124 | 137) [ "$left" -eq "$limit" ] && result="$late: $left s were not enough" || result="cut off after $left s: no time left" ;;
    *) result="FAILED: $status" ;;
  esac
  tell "| $name | $(awk "BEGIN { printf \"%.1f\", $EPOCHREALTIME - $began }") | $result |"
  case $result in
    passed | skipped:* | FAILED:*) told=$((told + 1)) ;;
  esac
  if [ "${result%%:*}" = FAILED ]; then
    printf '%s\n' "$output" | tail -n 40 >&2
  fi
  [ "$status" -eq 0 ]
}

device=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1) || device=
commit=$(git describe --always --dirty 2>/dev/null) || commit=${OUTRIDER_COMMIT:-unknown}
mkdir -p "$(dirname "$table")"
: >"$table"
tell "## $(date -u +%Y-%m-%d), ${device:-no NVIDIA driver}"
tell ""
tell "nvcc $(nvcc --version | sed -n 's/.*release \([0-9.]*\).*/\1/p'), commit $commit; $made"
tell ""
tell "| test | seconds | result |"
tell "|---|---|---|"

# A part of which no row had time enough is named at the end, so that nobody thinks that all is well.
untold=()
end_part() { # WHAT
  [ "$rows" -eq 0 ] || [ "$told" -gt 0 ] || untold+=("$1")
  rows=0 told=0
}

# ---- tests ----

named=$#
if [ $# -eq 0 ]; then
  mapfile -t names < <(cd "$tests" && printf '%s\n' *_gpu_test | sed 's/_gpu_test$//')
  set -- "${names[@]}"
fi
[ "$named" -gt 0 ] || reserve=$(((seconds_all - SECONDS) * 4 / 9)) # 240 of 540
for name; do
  row "$name" "$tests/${name}_gpu_test" || true
done
end_part tests

# One that needs more than a GPU may be skipped where one is.
no_gpu=false
grep -q '| skipped: no GPU |' "$table" && no_gpu=true

# Not whole models, which would take hours, and each with few seeds. Racecheck 2025.3 takes what one turn of a recorded loop writes and the turn
# before read for a race, though a launch ends between them (the barrier stands in the machine code): no loops here.
sanitized() { # TOOL NAME ...
  local tool=$1 name
  shift
  for name; do
    find kernels tests -name "${name}_cuda_test.c" | grep -q . || continue
    row "$tool: $name" env OR_TEST_RUNS=1 OR_TEST_NO_LOOPS=1 compute-sanitizer --tool "$tool" --error-exitcode 99 "$tests/${name}_gpu_test" || true
  done
}
# On some machines it runs no program at all, and says this.
refused() {
  output=$(OR_TEST_RUNS=1 timeout -k 5 30 compute-sanitizer "$tests/device_gpu_test" 2>&1) || true
  [[ ${output,,} == *"device not supported"* ]]
}
if $no_gpu; then
  :
elif ! command -v compute-sanitizer >/dev/null; then
  tell "| compute-sanitizer | | not run: it is not here |"
elif refused; then
  tell "| compute-sanitizer | | not run: it refuses this GPU |"
else
  limit=30 late="cut off"
  if [ "$named" -gt 0 ]; then
    sanitized memcheck "$@"
    sanitized racecheck "$@"
  else
    sanitized memcheck attention contenders floats growth kv quants rejection rows tensor
    sanitized racecheck attention contenders growth rejection rows kv quants floats # those whose threads work together most come first
  fi
fi
end_part compute-sanitizer

# ---- programs, and what passes cost ----

# The texts of a GPU and of the CPU.
if [ "$named" -eq 0 ]; then
  limit=120 reserve=$(((seconds_all - SECONDS) * 3 / 4)) late=FAILED
  if command -v python3 >/dev/null && command -v mpirun >/dev/null; then
    row programs env -C tests/cli "OUTRIDER_BIN=$build/bin" python3 -m unittest test_device || true
  else
    tell "| programs | | not run: no python3, or no mpirun |"
  fi
  limit=90 reserve=0 late="cut off"
  figures=
  for bench in "draft_bench" "product_bench" "step_bench canonical" "step_bench q4_k" "step_bench tensor" "offload_bench"; do
    output=
    # shellcheck disable=SC2086 # a program and its word
    row "$bench" "$tests/"$bench || true
    figures+=$'\n\n### '"$bench"$'\n\n'"$output"
  done
  tell "$figures"
fi

grep -q '| FAILED' "$table" && exit 1
$no_gpu && exit 77
if [ ${#untold[@]} -gt 0 ]; then
  say "nothing told by ${untold[*]} for lack of time: run it again, now that it is built, or with a greater OUTRIDER_GPU_SECONDS"
  exit 1
fi
exit 0
