#!/usr/bin/env bash
# run.sh [NAME ...] - all tests on a GPU (or only those named, as "rows"), some of kernels also under compute-sanitizer, whole programs, and what
# passes cost (step_bench.c, draft_bench.c, offload_bench.c; neither where tests are named). A table of it all is printed line by line and kept
# in OUTRIDER_GPU_TABLE (build/cuda/gpu.md), for tests/gpu/RESULTS.md.
#
# Needs no network: CMake, Ninja, nvcc, gcc, g++, pkg-config and the libraries of launch/packages.sh. Where the machine lacks them, make a bundle
# on a connected one (launch/offline-bundle.sh FOLDER), bring the folder and say OUTRIDER_BUNDLE=FOLDER. Ends within OUTRIDER_GPU_SECONDS (540,
# the build included): what there was no time for is in the table. 0: nothing failed; 77: there is no GPU.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
PATH=$PATH:/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer
export LC_ALL=C OUTRIDER_MODELS=${OUTRIDER_MODELS:-$PWD/launch/models}
seconds_all=${OUTRIDER_GPU_SECONDS:-540}
table=${OUTRIDER_GPU_TABLE:-build/cuda/gpu.md}

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

if [ -n "${OUTRIDER_BUNDLE:-}" ]; then
  [ -f build/bundle/env ] || "$OUTRIDER_BUNDLE/unpack.sh" build/bundle
  # shellcheck disable=SC1091
  . build/bundle/env
fi

missing=()
for program in cmake ninja nvcc gcc g++ pkg-config protoc-c; do
  command -v "$program" >/dev/null || missing+=("$program")
done
for library in cmocka libzmq libprotobuf-c jansson; do
  pkg-config --exists "$library" 2>/dev/null || missing+=("$library")
done
if [ ${#missing[@]} -gt 0 ]; then
  say "missing: ${missing[*]}; see launch/packages.sh, or set OUTRIDER_BUNDLE to a folder that launch/offline-bundle.sh made"
  exit 1
fi

# A compiler that nobody has tried here may warn of more; that is for another day. For the GPU that is here alone, if one is: in a third of the time.
say "building"
configure=(--preset cuda -DOUTRIDER_WERROR=OFF)
if nvidia-smi --list-gpus >/dev/null 2>&1; then
  configure+=(-DCMAKE_CUDA_ARCHITECTURES=native)
fi
log=build/cuda-build.log
mkdir -p build
if ! { cmake "${configure[@]}" && cmake --build --preset cuda; } >"$log" 2>&1; then
  tail -n 60 "$log" >&2
  exit 1
fi
built_seconds=$SECONDS

# ---- the table ----

tell() { printf '%s\n' "$*" | tee -a "$table"; }

# row NAME COMMAND ...: a line "| name | seconds | result |" of a command that may take `limit` seconds, and leaves `reserve` of all for what
# comes behind it; whether one that takes longer has failed, `late` says. 0 if it passed. Its output is kept in `output`.
limit=60 reserve=0 late=FAILED output=
row() {
  local name=$1 left=$((seconds_all - reserve - SECONDS)) began=$EPOCHREALTIME status=0 result
  shift
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
tell "nvcc $(nvcc --version | sed -n 's/.*release \([0-9.]*\).*/\1/p'), commit $commit; built in $built_seconds s"
tell ""
tell "| test | seconds | result |"
tell "|---|---|---|"

# ---- tests ----

named=$#
tests=build/cuda/tests
if [ $# -eq 0 ]; then
  mapfile -t names < <(cd "$tests" && printf '%s\n' *_gpu_test | sed 's/_gpu_test$//')
  set -- "${names[@]}"
fi
[ "$named" -gt 0 ] || reserve=240
for name; do
  row "$name" "$tests/${name}_gpu_test" || true
done

# One that needs more than a GPU may be skipped where one is.
no_gpu=false
grep -qE '\| (passed|FAILED)' "$table" || no_gpu=true

# Not whole models, which would take hours, and each with few seeds.
sanitized() { # TOOL NAME ...
  local tool=$1 name
  shift
  for name; do
    compgen -G "*/*/${name}_cuda_test.c" >/dev/null || continue
    row "$tool: $name" env OR_TEST_RUNS=1 compute-sanitizer --tool "$tool" --error-exitcode 99 "$tests/${name}_gpu_test" || true
  done
}
if $no_gpu; then
  :
elif ! command -v compute-sanitizer >/dev/null; then
  tell "| compute-sanitizer | | not run: it is not here |"
else
  limit=30 late="cut off"
  if [ "$named" -gt 0 ]; then
    sanitized memcheck "$@"
    sanitized racecheck "$@"
  else # those with the trickiest addresses, and those whose threads work together
    sanitized memcheck attention kv growth rejection tensor
    sanitized racecheck attention contenders growth rejection rows
  fi
fi

# ---- programs, and what passes cost ----

# The texts of a GPU and of the CPU.
if [ "$named" -eq 0 ]; then
  limit=60 reserve=180 late=FAILED
  if command -v python3 >/dev/null && command -v mpirun >/dev/null; then
    row programs env -C tests/cli "OUTRIDER_BIN=$PWD/build/cuda/bin" python3 -m unittest test_device || true
  else
    tell "| programs | | not run: no python3, or no mpirun |"
  fi
  limit=90 reserve=0 late="cut off"
  figures=
  for bench in "draft_bench" "step_bench canonical" "step_bench tensor" "offload_bench"; do
    output=
    # shellcheck disable=SC2086 # a program and its word
    row "$bench" "$tests/"$bench || true
    figures+=$'\n\n### '"$bench"$'\n\n'"$output"
  done
  tell "$figures"
fi

grep -q '| FAILED' "$table" && exit 1
$no_gpu && exit 77
exit 0
