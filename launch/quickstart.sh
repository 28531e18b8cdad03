#!/usr/bin/env bash
# From a bare Debian 12 to text: install what is missing, build, and write one text plainly and drafted.
# Arguments go to `outrider demo`, e.g. launch/quickstart.sh -p "It was a dark night" -n 32
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=launch/packages.sh
. launch/packages.sh

install_missing "${build_packages[@]}"
if [ ! -f build/release/build.ninja ]; then
  say "configuring"
  cmake --preset release >/dev/null
fi
say "building"
# Ninja says much when it works and nothing of use when there is nothing to do: only failures are shown.
if ! log=$(cmake --build --preset release --target outrider outrider-coordinator outrider-verifier outrider-drafter 2>&1); then
  printf '%s\n' "$log" | tail -n 40 >&2
  exit 1
fi
say "writing"
exec build/release/bin/outrider demo "$@"
