#!/usr/bin/env bash
# `doors.sh BUILD_FOLDER [--quick]`: sections "doors" and "layouts" of the hardware probe. Runs a program with a
# static CUDA runtime and a PyTorch training step under the counting door library and under CUPTI, compares, and
# prints JSON lines. What is missing becomes a record "skipped" that says why; the exit status is 0 all the same.
#
# TIDEPOOL_PROBE_PYTHON names the python that has PyTorch (default: python3).
set -u

build=${1:?usage: doors.sh BUILD_FOLDER [--quick]}
build=$(cd "$build" && pwd) || exit 2
here=$(cd "$(dirname "$0")" && pwd)
steps=20
limit=60
quick=no
if [ "${2:-}" = --quick ]; then
  quick=yes
  steps=4
  limit=30
fi
python=${TIDEPOOL_PROBE_PYTHON:-python3}
reasons=$here/../shim/not_hooked.txt
known=$build/tests/fakes/recorded_entries.inc
count=$build/lib/libtidepool-count.so
cupti=$build/lib/libtidepool-cupti.so
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT

# record KIND NAME [KEY TEXT]...: one line; all values are text.
record() {
  python3 - "$@" <<'PYTHON'
import json, sys
kind, name, *rest = sys.argv[1:]
print(json.dumps({"schema": "tidepool.probe/1", "section": "doors", "kind": kind, "name": name,
                  **dict(zip(rest[::2], rest[1::2]))}))
PYTHON
}

# Files that may be CUPTI, colons between: those of the wheels that PyTorch brings, and the toolkit's. They are named
# to the library one by one; in LD_LIBRARY_PATH their folders would put other libraries before a program's own.
cupti_files() {
  timeout 20 "$1" -c '
import glob, os, site, sys
bases = [*site.getsitepackages(), site.getusersitepackages(), *filter(None, sys.path)]
found = []
for base in dict.fromkeys(bases):
    for part in ("cuda_cupti", "cu13", "cu12"):
        found += glob.glob(f"{glob.escape(base)}/nvidia/{part}/lib/libcupti.so.1[0-9]")
home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
for folder in ("lib64", "extras/CUPTI/lib64", "targets/x86_64-linux/lib"):
    found += glob.glob(f"{glob.escape(home)}/{folder}/libcupti.so.1[0-9]")
print(":".join(dict.fromkeys([*found, "libcupti.so.13", "libcupti.so.12"])))' 2>/dev/null
}

# run_counted TAG WITH_CUPTI PROGRAM...: files $scratch/TAG.{door,cupti}.PID, .out, .err; returns the exit status.
run_counted() {
  local tag=$1 with_cupti=$2
  shift 2
  rm -f "$scratch/$tag".*
  local -a variables=("TIDEPOOL_COUNT_FILE=$scratch/$tag.door.%p" "TIDEPOOL_COUNT_ASK=${ask:-both}")
  if [ "$with_cupti" = yes ]; then
    variables+=("CUDA_INJECTION64_PATH=$cupti" "TIDEPOOL_CUPTI_FILE=$scratch/$tag.cupti.%p"
      "TIDEPOOL_CUPTI_LIBRARY=$cupti_candidates")
  fi
  timeout --kill-after=5 "$limit" env "${variables[@]}" "LD_PRELOAD=$count${LD_PRELOAD:+:$LD_PRELOAD}" "$@" \
    >"$scratch/$tag.out" 2>"$scratch/$tag.err"
}

# last_words TAG: what a program said last, on one line.
last_words() {
  tail -n 1 "$scratch/$1.err" | cut -c1-300
}

# count_program NAME PROGRAM...: the whole section for one program, which takes the number of steps last.
count_program() {
  local name=$1 status with_cupti=no
  shift
  local ask=both
  if [ -e "$cupti" ]; then with_cupti=yes; fi
  run_counted "$name" "$with_cupti" "$@" "$steps"
  status=$?
  if [ "$status" -ge 128 ] && [ "$status" -ne 137 ]; then
    # Asking about a handle of the other kind may be what it died of: an answer, and the rest goes on without.
    record answer "asking both calls about each kernel ends the program" program "$name" status "$status"
    ask='function'
    run_counted "$name" "$with_cupti" "$@" "$steps"
    status=$?
  fi
  case $status in
    0) ;;
    77)
      record skipped "$name" why "$(last_words "$name")"
      return
      ;;
    124 | 137)
      record skipped "$name" why "did not end within $limit s; what it had counted by then follows"
      ;;
    *)
      record skipped "$name" why "exit status $status: $(last_words "$name")"
      ;;
  esac
  if [ "$status" -eq 0 ]; then
    run_counted "$name-longer" "$with_cupti" "$@" $((2 * steps))
  fi
  if [ "$with_cupti" = no ]; then
    record skipped "cupti: $name" why "libtidepool-cupti.so was not built: no CUPTI headers"
  elif ! compgen -G "$scratch/$name.cupti.*" >/dev/null; then
    record skipped "cupti: $name" why "the driver did not load the library that CUDA_INJECTION64_PATH names"
  fi
  grep -h '"name": "marker"' "$scratch/$name.out"
  python3 -B "$here/compare_doors.py" --program "$name" --steps "$steps" --reasons "$reasons" --known "$known" \
    --truth "$scratch/$name.out" --door "$scratch/$name".door.* --reference "$scratch/$name".cupti.* \
    --door-longer "$scratch/$name-longer".door.* --reference-longer "$scratch/$name-longer".cupti.*
  if [ "$with_cupti" = yes ] && [ "$status" -eq 0 ] && [ "$quick" = no ]; then
    compare_alone "$name" "$@"
  fi
}

# compare_alone NAME PROGRAM...: does the door count the same when CUPTI is not there?
compare_alone() {
  local name=$1
  shift
  run_counted "$name-alone" no "$@" "$steps" || return
  python3 -B "$here/compare_doors.py" --program "$name, its door without CUPTI as reference" --calls-only \
    --door "$scratch/$name".door.* --reference "$scratch/$name-alone".door.*
}

record start doors steps "$steps"
if [ ! -e "$count" ]; then
  record skipped doors why "libtidepool-count.so was not built"
else
  cupti_candidates=$(cupti_files "$python")
  if [ -z "$cupti_candidates" ]; then cupti_candidates=$(cupti_files python3); fi
  if [ -x "$build/lib/probe/static_steps" ]; then
    count_program static_steps "$build/lib/probe/static_steps"
  else
    record skipped static_steps why "not built"
  fi
  count_program torch_step "$python" -B "$here/torch_step.py"
fi
record end doors seconds "$SECONDS"
