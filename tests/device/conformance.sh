#!/usr/bin/env bash
# Holds a machine's CUDA driver and runtime to the conformance suite. Needs the build tree and nothing else.
set -euo pipefail
from=$PWD  # paths that are given are relative to where the user stands
cd "$(dirname -- "${BASH_SOURCE[0]}")/../.."

usage() {
  cat <<'TEXT'
usage: tests/device/conformance.sh [--build FOLDER] [--out FILE] [--seconds N] [--jobs N] [--filter REGEX]

Runs the cases of tests/conformance, each in a process of its own and with a time limit, and writes one JSON line for
each as it ends (tests/conformance/README.md), after one that says which driver it was. Cases that time does not suffice
for are named at the end.

  --build FOLDER  a build tree (default: build/release, else build/dev)
  --out FILE      where results go (default: build/conformance.jsonl); overwritten
  --seconds N     time for everything (default: 170)
  --jobs N        cases at once (default: 4)
  --filter REGEX  only cases whose name has a match
  -h, --help      this text

It uses the driver that the system finds as libcuda.so.1. Exit status: 0 if no case failed and all have run. Without a
GPU:
  simgpu -- tests/device/conformance.sh
TEXT
}

usage_error() {
  printf 'conformance.sh: %s (--help lists the options)\n' "$*" >&2
  exit 2
}

build=''
out=build/conformance.jsonl
total=170
jobs=4
filter=''
while (($# > 0)); do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --build | --out | --seconds | --jobs | --filter)
      (($# > 1)) || usage_error "$1 needs a value"
      case $1 in
        --build | --out)
          [[ -n $2 && $2 != -* ]] || usage_error "$1 '$2': want a path"
          path=$2
          [[ $path == /* ]] || path=$from/$path
          if [[ $1 == --build ]]; then build=$path; else out=$path; fi
          ;;
        --filter) filter=$2 ;;
        *)
          [[ $2 =~ ^[1-9][0-9]*$ ]] || usage_error "$1 $2: want a number from 1"
          if [[ $1 == --seconds ]]; then total=$2; else jobs=$2; fi
          ;;
      esac
      shift
      ;;
    *) usage_error "unknown word '$1'" ;;
  esac
  shift
done
if [[ -z $build ]]; then
  build=build/release
  [[ -d $build ]] || build=build/dev
fi
suite=$build/tests/conformance/conformance
[[ -x $suite ]] || usage_error "there is no $suite; build first, or name the build tree with --build"
mkdir -p "$(dirname -- "$out")" 2>/dev/null || usage_error "cannot make the folder of $out"

python3 -B tests/device/start_record.py conformance >"$out" || usage_error "cannot write $out"
expected=$("$suite" --list --filter "$filter" | wc -l)
status=0
timeout --kill-after=5 "$total" "$suite" --json --jobs "$jobs" --filter "$filter" >>"$out" || status=$?
count() {
  grep -c "\"verdict\": \"$1\"" "$out" || true
}
passed=$(count pass)
failed=$(count fail)
skipped=$(count skipped)
missing=$((expected - passed - failed - skipped))
sed -n 's/.*"case": "\([^"]*\)".*"verdict": "fail", "detail": "\(.*\)", "milliseconds.*/failed  \1: \2/p' "$out"
printf 'conformance.sh: %s passed, %s failed, %s skipped, %s did not run; %s s; %s\n' \
  "$passed" "$failed" "$skipped" "$missing" "$SECONDS" "$out"
((failed == 0 && missing == 0 && (status == 0 || status == 1)))
