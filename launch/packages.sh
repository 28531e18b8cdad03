# shellcheck shell=bash
# packages.sh - sourced: install_missing PACKAGE ... gets what is not there yet from Debian, as root or through sudo.

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  else
    sudo "$@"
  fi
}

install_missing() {
  local package missing=() log
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
    say "packages are missing, and neither are you root nor is there sudo; ask an administrator for: apt-get install ${missing[*]}"
    return 1
  fi
  say "installing ${missing[*]}"
  log=$(mktemp)
  local install=(env DEBIAN_FRONTEND=noninteractive apt-get install -o DPkg::Lock::Timeout=120 -y -q --no-install-recommends "${missing[@]}")
  # A machine that has package lists needs no update; where they are absent or too old the first try fails.
  if ! as_root "${install[@]}" >"$log" 2>&1; then
    say "updating the package lists"
    if ! as_root apt-get update -q >>"$log" 2>&1 || ! as_root "${install[@]}" >>"$log" 2>&1; then
      tail -n 20 "$log" >&2
      say "could not install; the full log is $log"
      return 1
    fi
  fi
  rm -f "$log"
}

# shellcheck disable=SC2034 # for the scripts that source this
build_packages=(build-essential cmake ninja-build pkg-config libzmq3-dev protobuf-c-compiler libprotobuf-c-dev libjansson-dev libedit-dev
  librandom123-dev libxxhash-dev libzstd-dev libpcre2-dev libsodium-dev libmicrohttpd-dev libgmp-dev libcmocka-dev libopenmpi-dev
  openmpi-bin python3)
# These make a Debian package (cpack asks `file` what is a program), and its tests look at it with them.
# shellcheck disable=SC2034
release_packages=(file man-db zsh systemd)
