#!/bin/sh
# Builds the server of another commit: build_version.sh COMMIT FOLDER makes FOLDER/packhoused. Does nothing
# if that is of this commit already. Programs that the server starts lie beside it.
set -eu
commit=$(git rev-parse --verify "$1^{commit}")
mkdir -p "$2"
place=$(cd "$2" && pwd)
[ "$(cat "$place/commit" 2>/dev/null)" != "$commit" ] || exit 0
rm -rf "$place/source" "$place/commit"
git worktree prune
git worktree add --detach "$place/source" "$commit"
trap 'git worktree remove --force "$place/source"' EXIT
# A folder of its own for each commit would be a build from nothing each time.
cmake -S "$place/source" -B "$place/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPACKHOUSE_TESTS=OFF
cmake --build "$place/build" --target packhoused packhouse-metis
cp "$place/build/service/packhoused" "$place/build/service/packhouse-metis" "$place/"
echo "$commit" > "$place/commit"
