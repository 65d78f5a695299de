#!/usr/bin/env bash
# Stops probe.sh in the middle of a section: nothing of it goes on, and what was measured can be read.
set -euo pipefail
build=$(realpath "$1")
here=$(cd "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# A path of its own, by which its processes can be told from those of other tests.
mkdir -p "$scratch/build/bin"
ln -s "$build/bin/tidepool-probe" "$scratch/build/bin/tidepool-probe"
"$build/bin/simgpu" -- bash "$here/probe.sh" --build "$scratch/build" --out "$scratch/out" vmm 2>/dev/null >&2 &
for ((i = 0; i < 300; ++i)); do
  if [[ $(wc -l 2>/dev/null <"$scratch/out/vmm.jsonl" || echo 0) -gt 3 ]]; then break; fi
  sleep 0.1
done
pgrep -f "$scratch/build/bin/tidepool-probe" >/dev/null || { echo "the section did not start" && exit 1; }
kill -TERM $!
status=0
wait $! || status=$?
((status == 130)) || { echo "exit status $status" && exit 1; }
if pgrep -fa "$scratch/build/bin/tidepool-probe"; then
  echo "it is still at work" && exit 1
fi
python3 -B "$here/read_probe.py" "$scratch/out/probe.json" >"$scratch/table"
grep -q '^vmm  \[cut off\]  SIMULATED' "$scratch/table"
