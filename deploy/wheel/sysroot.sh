#!/bin/sh
# What a compiler on this machine needs to compile for arm64: a folder of Debian 12's packages for it, of
# those in [build] and [page] that programs are compiled with, and of what they depend on. They are downloaded and
# unpacked, and never installed: the packages of this machine stay as they are, and no rights are needed.
#   sysroot.sh FOLDER
#   sysroot.sh --list       says which of them they are
# Does nothing if FOLDER is of this list already. DEBIAN_MIRROR is where packages come from, if not where
# they always do; it has DEBIAN_MIRROR-security beside it, as Debian's own has.
set -eu
deploy=$(cd "$(dirname "$0")/.." && pwd)
packages=$("$deploy/install-packages.sh" --list build page | tr ' ' '\n' | grep -e '-dev$' -e '^node-')
[ "$1" != --list ] || { echo $packages; exit 0; }
mkdir -p "$1"
root=$(cd "$1" && pwd)
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
stamp=$(cat "$0" - <<END | sha256sum
$packages
END
)
[ "$(cat "$root/made" 2>/dev/null)" != "$stamp" ] || exit 0

echo "unpacking Debian's packages for arm64 in $root"
rm -rf "$root"
apt=$root/var/cache/apt
dpkg=$root/var/lib/dpkg
mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$dpkg/info" "$dpkg/updates" "$root/usr/bin" "$root/usr/lib"
echo 1 > "$dpkg/info/format"
: > "$dpkg/status"
for folder in bin lib; do ln -s usr/$folder "$root/$folder"; done
for suite in "debian bookworm" "debian bookworm-updates" "debian-security bookworm-security"; do
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror${suite#debian} main"
done > "$apt/sources.list"
get() {
  apt-get -qq -o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts=- \
    -o Dir::State::Lists="$apt/lists" -o Dir::State::Status="$dpkg/status" \
    -o Dir::Cache="$apt" -o Dir::Cache::Archives="$apt/archives" \
    -o APT::Architecture=arm64 -o APT::Architectures=arm64 "$@"
}
get update
# shellcheck disable=SC2086  # A list of words, on purpose.
get install --download-only --yes --no-install-recommends $packages > /dev/null

for package in "$apt"/archives/*.deb; do
  name=$(dpkg-deb --field "$package" Package)
  [ "$(dpkg-deb --field "$package" Multi-Arch)" != same ] || name=$name:arm64
  dpkg-deb --fsys-tarfile "$package" | tar -xv --keep-directory-symlink -C "$root" |
    sed 's,^\.,,; s,/$,,; s,^$,/.,' > "$dpkg/info/$name.list"
  # As dpkg keeps it: NOTICES are made of it.
  { dpkg-deb --field "$package"; printf 'Status: install ok installed\n\n'; } >> "$dpkg/status"
done
rm -rf "$apt"
find "$root" -lname '/*' | while read -r link; do
  ln -snfr "$root$(readlink "$link")" "$link"
done
# What CMake's packages of protobuf and gRPC look for beside their libraries runs on this machine.
ln -s /usr/bin/protoc /usr/bin/grpc_*_plugin "$root/usr/bin"
echo "$stamp" > "$root/made"
