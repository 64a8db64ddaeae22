#!/bin/sh
# Builds the image of ../../Dockerfile with buildah: without a daemon, and without a registry, since
# debootstrap makes the Debian that it begins from. Needs root, for chroot.
#   build.sh [TAG]        default: packhouse:VERSION
# All of it lies in build/image: the layers, kept for the next time, and image.tar (docker load, skopeo).
# DEBIAN_MIRROR is where debootstrap gets packages, if not where it always does. IMAGE_JOBS bounds the
# compilers that run at once. PROGRAMS=build/release takes the programs that a build on this machine, a
# Debian 12 too, has made, instead of building them again: the other stages stay as they are.
set -eu
cd "$(dirname "$0")/../.."
deploy/install-packages.sh image-build

version=$(sed -n 's/^project(packhouse VERSION \([^ ]*\).*/\1/p' CMakeLists.txt)
tag=${1:-packhouse:$version}
place=$PWD/build/image
mkdir -p "$place"
# Layers lie on top of each other where there are rights to mount them so. In containers there are seldom
# rights for anything but chroot and plain copies: then each layer is a copy, which takes longer.
driver=overlay
images() {
  buildah --root "$place/$driver" --runroot "$place/run-$driver" --storage-driver "$driver" "$@"
}
if probe=$(images from scratch 2>/dev/null) && images mount "$probe" > /dev/null 2>&1; then
  images rm "$probe" > /dev/null
else
  driver=vfs
fi

base=localhost/debian:bookworm
if [ -z "$(images images --quiet "$base" 2>/dev/null)" ]; then
  rm -rf "$place/debian"
  debootstrap --variant=minbase bookworm "$place/debian" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"}
  rm -rf "$place"/debian/var/cache/apt/archives/*.deb "$place"/debian/var/lib/apt/lists/*
  container=$(images from scratch)
  images add --quiet "$container" "$place/debian" / > /dev/null
  images config --cmd bash "$container"
  images commit --quiet --rm "$container" "$base" > /dev/null
  rm -rf "$place/debian"
  for name in localhost/debian:bookworm-slim; do images tag "$base" "$name"; done
fi

commit=$(git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null || echo unknown)
context=.
dockerfile=Dockerfile
if [ -n "${PROGRAMS:-}" ]; then
  context=$place/context
  dockerfile=$place/context/Dockerfile
  rm -rf "$context"
  mkdir -p "$context/deploy" "$context/programs/service"
  cp -r deploy/debian-packages.txt deploy/install-packages.sh deploy/image "$context/deploy/"
  for program in service/packhoused service/packhouse-metis service/packhouse-graph; do
    strip -o "$context/programs/$program" "$PROGRAMS/$program"
  done
  { printf 'FROM scratch AS build\nCOPY programs /src/build/release\n\n'
    awk '/^FROM .* AS root$/ { begun = 1 } begun' Dockerfile; } > "$dockerfile"
fi
images build --isolation chroot --pull-never --layers --format oci \
  --build-arg COMMIT="$commit" ${IMAGE_JOBS:+--build-arg CMAKE_BUILD_PARALLEL_LEVEL="$IMAGE_JOBS"} \
  --tag "$tag" --file "$dockerfile" "$context"
rm -f "$place/image.tar"
images push --quiet --digestfile "$place/digest" "$tag" "oci-archive:$place/image.tar:$tag"

# The same files as a folder, for those who look into it.
rm -rf "$place/root"
mkdir "$place/root"
container=$(images from --pull-never "$tag")
cp -a "$(images mount "$container")/." "$place/root/"
images inspect --type image "$tag" > "$place/config.json"
images rm "$container" > /dev/null
echo "$tag $(cat "$place/digest"): $(du -s --apparent-size -B 1000000 "$place/root" | cut -f1) MB, $(du -B 1000000 --apparent-size "$place/image.tar" | cut -f1) MB compressed"
