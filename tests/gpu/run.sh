#!/usr/bin/env bash
# run.sh [NAME ...] - all tests on a GPU (or only those named, as "rows"), those of kernels also under compute-sanitizer, a table of them, and what
# passes cost (step_bench.c, offload_bench.c; not where tests are named).
#
# Needs no network: CMake, Ninja, nvcc, gcc, g++, pkg-config and the libraries of launch/packages.sh. Where the machine lacks them, make a bundle
# on a connected one (launch/offline-bundle.sh FOLDER), bring the folder and say OUTRIDER_BUNDLE=FOLDER. 0: all passed; 77: there is no GPU.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
PATH=$PATH:/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer
export OUTRIDER_MODELS=${OUTRIDER_MODELS:-$PWD/launch/models}

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

say "building"
log=build/cuda-build.log
mkdir -p build
# A compiler that nobody has tried here may warn of more; that is for another day.
if ! { cmake --preset cuda -DOUTRIDER_WERROR=OFF && cmake --build --preset cuda; } >"$log" 2>&1; then
  tail -n 60 "$log" >&2
  exit 1
fi

# row RESULT-FILE NAME COMMAND ...: run it, and add a line "| name | seconds | result |" to the file.
row() {
  local rows=$1 name=$2 output status=0 result began=$EPOCHREALTIME
  shift 2
  say "$name"
  output=$(timeout 600 "$@" 2>&1) || status=$?
  case $status in
    0) result=passed ;;
    77) result="no GPU" ;;
    124) result="FAILED: 600 s were not enough" ;;
    *) result="FAILED: $status" ;;
  esac
  [ "${result%%:*}" = FAILED ] && printf '%s\n' "$output" | tail -n 40 >&2
  printf '| %s | %s | %s |\n' "$name" "$(awk "BEGIN { printf \"%.2f\", $EPOCHREALTIME - $began }")" "$result" >>"$rows"
}

table=build/cuda/gpu.md
device=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1) || device="unknown device"
commit=$(git describe --always --dirty 2>/dev/null) || commit=${OUTRIDER_COMMIT:-unknown}
{
  printf '%s; nvcc %s; commit %s\n\n' "$device" "$(nvcc --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')" "$commit"
  printf '| test | seconds | result |\n|---|---|---|\n'
} >"$table"

named=$#
if [ $# -eq 0 ]; then
  mapfile -t names < <(cd build/cuda/tests && printf '%s\n' *_gpu_test | sed 's/_gpu_test$//')
  set -- "${names[@]}"
fi
for name; do
  row "$table" "$name" "build/cuda/tests/${name}_gpu_test"
done
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck; do
    for name; do
      compgen -G "*/*/${name}_cuda_test.c" >/dev/null || continue # whole models would take hours
      [ "$tool $name" != "racecheck tensor" ] || continue # shared memory there is NVIDIA's own affair
      row "$table" "$tool: $name" compute-sanitizer --tool "$tool" --error-exitcode 99 "build/cuda/tests/${name}_gpu_test"
    done
  done
else
  say "no compute-sanitizer: memory and races are not checked"
fi

if [ "$named" -eq 0 ]; then
  # Whole programs: the texts of a GPU and of the CPU.
  if command -v python3 >/dev/null && command -v mpirun >/dev/null; then
    row "$table" programs env -C tests/cli "OUTRIDER_BIN=$PWD/build/cuda/bin" python3 -m unittest test_device
  else
    say "no python3 or no mpirun: whole programs are not run"
  fi
  for bench in step_bench offload_bench; do
    say "$bench"
    figures=$(timeout 300 "build/cuda/tests/$bench" 2>&1) || [ $? -eq 77 ] || figures+=$'\n\n'"$bench: FAILED"
    printf '\n%s\n' "$figures" >>"$table"
  done
fi

cat "$table"
grep -q FAILED "$table" && exit 1
grep -q 'no GPU' "$table" && exit 77
exit 0
