#!/bin/sh
# Installs sections of deploy/debian-packages.txt: install-packages.sh [--list] SECTION...
# Does nothing, and needs no rights, if all of them are there already. With --list it only says which
# packages they are.
set -eu

list="$(dirname "$0")/debian-packages.txt"
only_list=""
[ "${1:-}" != --list ] || { only_list=yes; shift; }
wanted=""
for section in "$@"; do
  found=$(awk -v section="[$section]" '
    /^\[/ { inside = ($0 == section); if (inside) seen = 1; next }
    inside && NF && !/^#/ { print $1 }
    END { exit !seen }' "$list") || { echo "install-packages: no section [$section]" >&2; exit 2; }
  wanted="$wanted $found"
done
[ -z "$only_list" ] || { echo $wanted; exit 0; }

missing=""
for package in $wanted; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=""
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "install-packages: needs root or sudo for:$missing" >&2; exit 1; }
  as_root="sudo"
fi
echo "installing:$missing"
$as_root apt-get update -qq
# shellcheck disable=SC2086  # A list of words, on purpose.
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
