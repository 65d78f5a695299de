#!/usr/bin/env bash
# Rehearses a visit to a machine with a GPU: carries what carry.sh says, runs the probe, a trial and the conformance suite there
# with an empty environment and nothing of this tree in reach, and reads what comes back. The driver is the simulated one.
set -euo pipefail
from=$PWD  # paths that are given are relative to where the user stands
cd "$(dirname -- "${BASH_SOURCE[0]}")/../.."
absolute() {
  if [[ $1 == /* ]]; then printf '%s' "$1"; else printf '%s/%s' "$from" "$1"; fi
}

if (($# != 1)) || [[ ! -x $(absolute "$1")/bin/tidepool-probe ]]; then
  echo "usage: tests/device/dry_run.sh BUILD    (a build tree with bin/tidepool-probe and the tests)" >&2
  exit 2
fi
there=$(mktemp -d)
trap 'rm -rf "$there"' EXIT
bash tests/device/carry.sh "$(absolute "$1")" "$there/carried"
here=$PWD
cd "$there/carried"
env -i PATH="$PATH" HOME="$there" build/release/bin/simgpu -- bash tests/device/probe.sh --quick --out results
python3 -B "$here/tests/device/check_rehearsal.py" results/probe.json
env -i PATH="$PATH" HOME="$there" build/release/bin/simgpu -- python3 -B tests/device/trial.py build/release --quick \
  --no-watch >trial.jsonl
[[ $(grep -c '"value": "same output"' trial.jsonl) == 3 ]] || { cat trial.jsonl >&2 && exit 1; }
env -i PATH="$PATH" HOME="$there" build/release/bin/simgpu -- bash tests/device/conformance.sh --jobs 2 --out cases.jsonl \
  >said.txt || true  # cases that are pending fail
python3 -B "$here/tests/conformance/check_visit.py" cases.jsonl || { cat said.txt >&2 && exit 1; }
