#!/usr/bin/env bash
# Rehearses a visit to a machine with a GPU: copies what would be carried, runs the probe there with nothing of this
# tree in reach, and reads what comes back. The driver is the simulated one.
set -euo pipefail
cd "$(dirname -- "${BASH_SOURCE[0]}")/../.."

if (($# != 1)) || [[ ! -x $1/bin/tidepool-probe ]]; then
  echo "usage: tests/device/dry_run.sh BUILD    (a build tree with bin/tidepool-probe)" >&2
  exit 2
fi
build=$(realpath "$1")
there=$(mktemp -d)
trap 'rm -rf "$there"' EXIT

# What is carried: the scripts, and of the build tree what runs (no objects).
mkdir -p "$there/tree/tests" "$there/tree/build/release"
cp -r tests/device "$there/tree/tests/"
for part in bin lib share tests; do
  [[ ! -d $build/$part ]] || find "$build/$part" -maxdepth 3 -type f \( -perm -u+x -o -name '*.so*' -o -name '*.toml' \) \
    ! -path '*/CMakeFiles/*' -printf "$part/%P\n"
done | tar -C "$build" -cf - -T - | tar -C "$there/tree/build/release" -xf -
size=$(du -sm "$there/tree" | cut -f1)
echo "dry_run.sh: $size MiB are carried" >&2
((size <= 64)) || echo "dry_run.sh: more than 64 MiB; strip the programs before a visit" >&2

cd "$there/tree"
env -i PATH=/usr/bin:/bin HOME="$there" \
  build/release/bin/simgpu -- bash tests/device/probe.sh --quick --out results
[[ -s results/probe.json ]]
