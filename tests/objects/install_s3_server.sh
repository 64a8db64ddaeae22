#!/bin/sh
# Builds the S3 server of the tests, versitygw, into FOLDER, by Go and its modules:
#   install_s3_server.sh FOLDER
# Does nothing if it is there. Exit status 77, which CTest counts as skipped, where it cannot be
# built, as without a network. The first time takes minutes; what Go has compiled it keeps, so that
# another folder takes seconds.
set -eu
server=github.com/versity/versitygw/cmd/versitygw@v1.8.0
# The Go that this server needs. Debian 12's is older, but fetches another as it fetches any module.
needed=1.25
toolchain=golang.org/toolchain@v0.0.1-go1.26.0.linux-amd64

mkdir -p "$1"
folder=$(cd "$1" && pwd)
exec 9> "$folder/lock"
flock 9
if [ -x "$folder/versitygw" ] && [ "$(cat "$folder/built" 2> /dev/null)" = "$server" ]; then
  exit 0
fi
skip() {
  tail -n 5 "$folder/log" >&2 || true
  echo "no S3 server for tests: $1" >&2
  exit 77
}
: > "$folder/log"
command -v go > /dev/null || skip "there is no go"
go=go
version=$(go env GOVERSION | sed -n 's/^go\([0-9]*\.[0-9]*\).*/\1/p')
oldest=$(printf '%s\n%s\n' "$version" "$needed" | sort -V | head -n 1)
if [ "$oldest" != "$needed" ]; then
  # Outside of a module, as in an empty folder.
  place=$(cd "$folder" && GOFLAGS=-modcacherw go mod download -json "$toolchain" 2>> "$folder/log" |
    sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
  [ -n "$place" ] || skip "go $version is older than $needed, and $toolchain cannot be fetched"
  # Modules have no programs.
  chmod +x "$place"/bin/*
  find "$place/pkg/tool" -type f -exec chmod +x {} +
  GOROOT=$place
  export GOROOT
  go=$place/bin/go
fi
# Of the clients of other services that it has, nearly nothing runs in tests: without optimisation they
# take half the time to compile.
set --
for owner in aws Azure AzureAD hashicorp nats-io segmentio; do
  set -- "$@" "-gcflags=github.com/$owner/...=-N -l"
done
# Where its version cannot be had, another must not be taken in its place.
GOTOOLCHAIN=local GOBIN=$folder GOFLAGS=-trimpath "$go" install -ldflags=-w "$@" "$server" \
  >> "$folder/log" 2>&1 || skip "$("$go" version) cannot build $server"
echo "$server" > "$folder/built"
