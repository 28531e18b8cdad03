#!/usr/bin/env bash
# offline-bundle.sh FOLDER [PACKAGE ...] - what a build needs from Debian besides compilers, as a folder to carry to a machine without network:
# the packages of launch/packages.sh, but for those named (it has cmake and ninja-build, say), and all that they depend on. Run it on a
# connected Debian machine of the same kind of processor, whose C library is not newer. There:
#
#     FOLDER/unpack.sh PREFIX      # extracts all of it into a folder, without root; needs dpkg
#     . PREFIX/env                 # and now cmake finds it
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=launch/packages.sh
. launch/packages.sh

if [ $# -eq 0 ]; then
  say "usage: launch/offline-bundle.sh FOLDER [PACKAGE-THAT-IS-THERE ...]"
  exit 2
fi
mkdir -p "$1/packages"
folder=$(cd "$1" && pwd)
shift

# These are the other machine's own and fit together there: its C library, compilers, Perl, Python, and the
# libraries of its base system.
not_taken='^(libc6|libc-|libcrypt|linux-libc-dev|cpp|gcc|g[+][+]|gfortran|binutils|libbinutils|libctf|libgprofng|icu-devtools|libicu-dev|'
not_taken+='dpkg|debconf|debianutils|adduser|passwd|procps|tar$|usrmerge|init-system-helpers|ncurses-bin|openssh-client|media-types|'
not_taken+='auto(conf|make|tools)|m4|perl|python3|lib.*-perl$|libcc1|libproc2|'
not_taken+='lib(gcc|gfortran|stdc[+][+]|asan|lsan|tsan|ubsan|itm|atomic|quadmath|gomp|isl|mpc|mpfr|perl|python3)[-0-9.]|'
not_taken+='lib(acl1|audit|bz2|cap2|cap-ng|db5|lzma|pam|selinux|semanage|sepol|systemd|udev|uuid))'

# List all that would be installed on a machine that has nothing: apt chooses among alternatives.
wanted() {
  local nothing
  nothing=$(mktemp)
  apt-get -o Dir::State::status="$nothing" --no-install-recommends -s install "$@" | sed -n 's/^Inst \([^ ]*\).*/\1/p' | sort -u
  rm -f "$nothing"
}

# shellcheck disable=SC2154 # packages.sh has them
mapfile -t needed < <(printf '%s\n' "${build_packages[@]}" pkg-config | grep -Fxv -f <(printf '%s\n' build-essential python3 "$@"))
mapfile -t packages < <(wanted "${needed[@]}" | grep -Ev "$not_taken")
if [ ${#packages[@]} -eq 0 ]; then
  say "apt-get knows none of the packages: run apt-get update"
  exit 1
fi
say "downloading ${#packages[@]} packages to $folder/packages"
(cd "$folder/packages" && apt-get download -q "${packages[@]}")

cat >"$folder/unpack.sh" <<'UNPACK'
#!/usr/bin/env bash
# unpack.sh PREFIX - extract the packages beside this file into a folder, and write PREFIX/env for those who build with it.
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: unpack.sh PREFIX" >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1"
prefix=$(cd "$1" && pwd)

for package in "$here"/packages/*.deb; do
  dpkg -x "$package" "$prefix"
done

# Links to /... mean places in this folder.
find "$prefix" -type l -lname '/*' | while read -r link; do
  target=$prefix$(readlink "$link")
  if [ -e "$target" ]; then
    ln -sfn "$target" "$link"
  fi
done
# The package makes this only where it is installed.
[ ! -e "$prefix/usr/bin/mpirun.openmpi" ] || ln -sfn mpirun.openmpi "$prefix/usr/bin/mpirun"

triplet=$(gcc -print-multiarch)
cat >"$prefix/env" <<ENV
# Source this: programs, libraries and headers of this folder before those of the machine.
export PATH="$prefix/usr/bin:\$PATH"
export LD_LIBRARY_PATH="$prefix/usr/lib/$triplet:$prefix/lib/$triplet\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
export PKG_CONFIG_LIBDIR="$prefix/usr/lib/$triplet/pkgconfig:$prefix/usr/share/pkgconfig"
export PKG_CONFIG_SYSROOT_DIR="$prefix"
export CMAKE_PREFIX_PATH="$prefix/usr"
export OPAL_PREFIX="$prefix/usr" PMIX_INSTALL_PREFIX="$prefix/usr" # where Open MPI looks for its parts
export CPATH="$prefix/usr/include/$triplet"
ENV
echo "unpacked: now \`. $prefix/env\`" >&2
UNPACK
chmod +x "$folder/unpack.sh"
say "$folder has $(du -sh "$folder" | cut -f 1): carry it, then run its unpack.sh"
