#!/usr/bin/env bash
# Puts what the hardware probe needs into one folder that can be carried to a machine with a GPU.
set -euo pipefail
from=$PWD  # paths that are given are relative to where the user stands
cd "$(dirname -- "${BASH_SOURCE[0]}")/../.."
absolute() {
  if [[ $1 == /* ]]; then printf '%s' "$1"; else printf '%s/%s' "$from" "$1"; fi
}

if (($# != 2)) || [[ $1 == -* || $2 == -* || ! -x $(absolute "$1")/bin/tidepool-probe ]]; then
  cat >&2 <<'TEXT'
usage: tests/device/carry.sh BUILD FOLDER    (BUILD: a build tree with bin/tidepool-probe and the tests)

Copies the scripts and, without debug information, the programs. There: FOLDER/tests/device/probe.sh,
conformance.sh and trial.py
TEXT
  exit 2
fi
build=$(absolute "$1")
to=$(absolute "$2")
for needed in tests/device_contract_driver_test tests/conformance/conformance tests/fakes/recorded_entries.inc; do
  if [[ ! -e $build/$needed ]]; then
    echo "carry.sh: there is no $build/$needed; configure with -DBUILD_TESTING=ON and build again" >&2
    exit 1
  fi
done
mkdir -p "$to/tests/shim" "$to/build/release/tests/fakes" "$to/build/release/tests/conformance"
cp -r tests/device "$to/tests/"
{
  git describe --always --dirty 2>/dev/null || echo "no git"
  sed -n 's/^CMAKE_BUILD_TYPE:[A-Z]*=//p' "$build/CMakeCache.txt"
} | paste -sd ' ' >"$to/tests/device/carried_version.txt"
cp tests/shim/not_hooked.txt "$to/tests/shim/"
cp -r "$build/bin" "$build/lib" "$build/share" "$to/build/release/"
find "$to/build/release" -name '*.a' -delete
rm -f "$to"/build/release/bin/{tidepool-gen,tp_test_headers,simgpu_fatbin_scan}
cp "$build/tests/device_contract_driver_test" "$to/build/release/tests/"
cp "$build/tests/conformance/conformance" "$to/build/release/tests/conformance/"
cp "$build/tests/fakes/recorded_entries.inc" "$to/build/release/tests/fakes/"
find "$to/build/release" -type f \( -perm -u+x -o -name '*.so*' \) -exec strip --strip-debug {} + 2>/dev/null || true
printf 'carry.sh: %s MiB in %s\n' "$(du -sm "$to" | cut -f1)" "$to" >&2
