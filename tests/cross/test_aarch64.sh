#!/usr/bin/env bash
# test_aarch64.sh FOLDER - build the kernels and their tests for AArch64 in that folder, and run them there with qemu. Skipped (77) where
# a program for that is missing; with CI=true that fails.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")/aarch64
folder=$1

for program in aarch64-linux-gnu-gcc qemu-aarch64; do
  if ! command -v "$program" >/dev/null; then
    echo "skipped: no $program; install gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user"
    [ "${CI:-}" = true ] && exit 1
    exit 77
  fi
done

cmake -S "$here" -B "$folder" -G Ninja --toolchain "$here/toolchain.cmake" -DCMAKE_BUILD_TYPE=Release "-DCMAKE_C_FLAGS_RELEASE=-O2 -g1" \
  -DOUTRIDER_WERROR=ON >"$folder.log" 2>&1 || { cat "$folder.log"; exit 1; }
cmake --build "$folder"
OR_TEST_RUNS=${OR_TEST_RUNS:-1} ctest --test-dir "$folder" --output-on-failure --no-tests=error
