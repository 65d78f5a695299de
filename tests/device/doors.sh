#!/usr/bin/env bash
# `doors.sh BUILD_FOLDER [--quick] [--seconds S]`: sections "doors" and "layouts" of the hardware probe. Runs a program
# with a static CUDA runtime and a PyTorch training step under the counting door library, alone and under CUPTI,
# compares, and prints JSON lines. What is missing becomes a record "skipped" that says why; the exit status is 0 all
# the same. No run begins or goes on after S seconds (default: 75); what a run had counted by then is printed.
#
# TIDEPOOL_PROBE_PYTHON names the python that has PyTorch (default: python3).
set -u

usage() {
  echo "usage: doors.sh BUILD_FOLDER [--quick] [--seconds S]" >&2
  exit 2
}

(($# > 0)) || usage
build=$(cd "$1" && pwd) || exit 2
shift
here=$(cd "$(dirname "$0")" && pwd)
steps=20
limit=60
total=75
while (($# > 0)); do
  case $1 in
    --quick)
      steps=4
      limit=30
      ;;
    --seconds)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || usage
      total=$2
      shift
      ;;
    *) usage ;;
  esac
  shift
done
python=${TIDEPOOL_PROBE_PYTHON:-python3}
reasons=$here/../shim/not_hooked.txt
known=$build/tests/fakes/recorded_entries.inc
count=$build/lib/libtidepool-count.so
cupti=$build/lib/libtidepool-cupti.so
scratch=$(mktemp -d) || exit 2
mkdir "$scratch/tmp"
child=''   # the run that goes on, a `timeout`
pending=() # the comparison that is owed once it ends, or is cut off

# cut_off: the section is to end now, at most a few seconds from being killed. What there is comes first.
cut_off() {
  trap '' TERM INT HUP
  [[ -z $child ]] || kill -TERM "$child" 2>/dev/null
  if ((${#pending[@]} > 0)); then "${pending[@]}"; fi
  record skipped "the rest" why "stopped from outside after $SECONDS s"
  [[ -z $child ]] || wait "$child" 2>/dev/null
  exit 143
}
trap cut_off TERM INT HUP
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

# run_counted TAG WITH_CUPTI ASK PROGRAM...: files $scratch/TAG.{door,cupti}.PID, .out, .err. Sets $status, 124 if it
# took too long, and $took, its seconds. Compilers of kernels leave what they make in $scratch, for the next run.
run_counted() {
  local tag=$1 with_cupti=$2 ask=$3 most=$((total - SECONDS))
  shift 3
  status=124
  took=0
  if ((most < 1)); then return; fi
  rm -f "$scratch/$tag".*
  if ((most > limit)); then most=$limit; fi
  local -a variables=("TIDEPOOL_COUNT_FILE=$scratch/$tag.door.%p" "TIDEPOOL_COUNT_ASK=$ask" "TMPDIR=$scratch/tmp"
    "TRITON_CACHE_DIR=$scratch/triton" "CUDA_CACHE_PATH=$scratch/cuda")
  if [ "$with_cupti" = yes ]; then
    variables+=("CUDA_INJECTION64_PATH=$cupti" "TIDEPOOL_CUPTI_FILE=$scratch/$tag.cupti.%p"
      "TIDEPOOL_CUPTI_LIBRARY=$cupti_candidates")
  fi
  local began=$SECONDS
  # In the foreground its group stays ours: who kills the script's group reaches the program, and nothing is orphaned.
  timeout --foreground --kill-after=1 "$most" env "${variables[@]}" \
    "LD_PRELOAD=$count${LD_PRELOAD:+:$LD_PRELOAD}" "$@" >"$scratch/$tag.out" 2>"$scratch/$tag.err" </dev/null &
  child=$!
  wait "$child"
  status=$?
  child=''
  took=$((SECONDS - began))
}

# last_words TAG: what a program said last, on one line.
last_words() {
  tail -n 1 "$scratch/$1.err" 2>/dev/null | cut -c1-300
}

# why_not TAG: why a run with this $status is not whole.
why_not() {
  case $status in
    77) last_words "$1" ;;
    124 | 137) echo "did not end within its time, $SECONDS s into the section; what it had counted by then follows" ;;
    *) echo "exit status $status: $(last_words "$1")" ;;
  esac
}

# died_by_signal: with this $status, and not because its time was up.
died_by_signal() {
  ((status > 128 && status != 137))
}

# has_time_for SECONDS: another run that takes as long ends in time.
has_time_for() {
  ((total - SECONDS > $1))
}

# compare NAME TAG...: with the files of a run at the door, and whatever options.
compare() {
  local name=$1 tag=$2
  shift 2
  python3 -B "$here/compare_doors.py" --program "$name" --door "$scratch/$tag".door.* "$@"
}

# compare_*: what is printed of a program once the run of that name is over. Names and layouts come from the run
# without CUPTI alone: CUPTI asks for names, too.
compare_alone() {
  grep -hs '"name": "marker"' "$scratch/$1.out"
  compare "$1" "$1" --truth "$scratch/$1.out" --reasons "$reasons" --known "$known"
}

compare_with_cupti() {
  compare "$1, with CUPTI" "$1-cupti" --calls-only --truth "$scratch/$1-cupti.out" \
    --reference "$scratch/$1-cupti".cupti.*
  compare "$1, with CUPTI, its door without as reference" "$1-cupti" --calls-only --reference "$scratch/$1".door.*
}

compare_longer() {
  compare "$1" "$1" --steps "$steps" --door-longer "$scratch/$1-longer".door.*
}

compare_longer_with_cupti() {
  compare "$1, with CUPTI" "$1-cupti" --steps "$steps" --door-longer "$scratch/$1-cupti-longer".door.* \
    --reference "$scratch/$1-cupti".cupti.* --reference-longer "$scratch/$1-cupti-longer".cupti.*
}

# run_alone NAME PROGRAM...: asking about a handle of the other kind, or at all, may be what the program dies of: an
# answer, and the rest goes on without.
run_alone() {
  local name=$1 ask
  shift
  for ask in both 'function' none; do
    run_counted "$name" no "$ask" "$@" "$steps"
    died_by_signal || return
    record answer "the program ends by a signal" program "$name" value "$status" asked_about_kernels "$ask"
  done
}

# run_with_cupti NAME PROGRAM...: once the counts without it are safe.
run_with_cupti() {
  local name=$1
  shift
  if [ ! -e "$cupti" ]; then
    record skipped "cupti: $name" why "libtidepool-cupti.so was not built: no CUPTI headers"
    return 1
  fi
  run_counted "$name-cupti" yes none "$@" "$steps"
  if [ "$status" -ne 0 ]; then
    record skipped "cupti: $name" why "$(why_not "$name-cupti")"
  elif ! compgen -G "$scratch/$name-cupti.cupti.*" >/dev/null; then
    record skipped "cupti: $name" why "the driver did not load the library that CUDA_INJECTION64_PATH names"
  fi
  compare_with_cupti "$name"
  [ "$status" -eq 0 ]
}

# count_program NAME PROGRAM...: the whole section for one program, which takes the number of steps last. What matters
# most and is least likely to fail comes first, and is printed at once.
count_program() {
  local name=$1 status=0 took=0 with_cupti=yes took_alone
  shift
  pending=(compare_alone "$name")
  run_alone "$name" "$@"
  if [ "$status" -ne 0 ]; then record skipped "$name" why "$(why_not "$name")"; fi
  if [ "$status" -ne 77 ]; then compare_alone "$name"; fi
  pending=()
  if [ "$status" -ne 0 ]; then return; fi
  took_alone=$took
  if has_time_for "$took"; then
    pending=(compare_with_cupti "$name")
    run_with_cupti "$name" "$@" || with_cupti=no
    pending=()
  else
    record skipped "cupti: $name" why "no time was left"
    return
  fi
  local took_with_cupti=$took
  if ! has_time_for $((2 * took_alone)); then
    record skipped "per step: $name" why "no time was left"
    return
  fi
  run_counted "$name-longer" no none "$@" $((2 * steps))
  compare_longer "$name"
  if [ "$with_cupti" = no ]; then return; fi
  if ! has_time_for $((2 * took_with_cupti)); then
    record skipped "per step: $name, with CUPTI" why "no time was left"
    return
  fi
  run_counted "$name-cupti-longer" yes none "$@" $((2 * steps))
  compare_longer_with_cupti "$name"
}

python3 -B "$here/start_record.py" doors steps "$steps"
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
