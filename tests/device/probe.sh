#!/usr/bin/env bash
# Asks a GPU the questions that only a GPU answers. Needs the build tree and nothing else.
set -euo pipefail
from=$PWD  # paths that are given are relative to where the user stands
cd "$(dirname -- "${BASH_SOURCE[0]}")/../.."

usage() {
  cat <<'TEXT'
usage: tests/device/probe.sh [--build FOLDER] [--out FOLDER] [--seconds N] [--quick] [SECTION...]

Runs the sections of the hardware probe (all: vmm aliasing sharing faults launch rates doors conformance),
each in processes of its own and with a time limit, and prints a table at the end. What a section has measured is in
FOLDER/SECTION.jsonl at once, so that a run that is cut off still tells something.

  --build FOLDER  a build tree (default: build/release, else build/dev)
  --out FOLDER    where results go (default: build/probe); files of sections that run are overwritten
  --seconds N     time for everything (default: 170)
  --quick         as few repetitions as show that everything works
  -h, --help      this text

It uses the driver that the system finds as libcuda.so.1. Without a GPU:
  simgpu -- tests/device/probe.sh --quick
TEXT
}

usage_error() {
  printf 'probe.sh: %s (--help lists the options)\n' "$*" >&2
  exit 2
}

all=(vmm aliasing sharing faults launch rates doors conformance)
build=''
out=build/probe
total=170
quick=()
sections=()
while (($# > 0)); do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --quick) quick=(--quick) ;;
    --build | --out | --seconds)
      (($# > 1)) || usage_error "$1 needs a value"
      case $1 in
        --build | --out)
          [[ -n $2 && $2 != -* ]] || usage_error "$1 '$2': want a folder"
          path=$2
          [[ $path == /* ]] || path=$from/$path
          if [[ $1 == --build ]]; then build=$path; else out=$path; fi
          ;;
        *)
          [[ $2 =~ ^[1-9][0-9]*$ ]] || usage_error "--seconds $2: want a number from 1"
          total=$2
          ;;
      esac
      shift
      ;;
    -*) usage_error "unknown option '$1'" ;;
    *)
      [[ " ${all[*]} " == *" $1 "* ]] || usage_error "unknown section '$1'; there are: ${all[*]}"
      sections+=("$1")
      ;;
  esac
  shift
done
((${#sections[@]} > 0)) || sections=("${all[@]}")
if [[ -z $build ]]; then
  build=build/release
  [[ -d $build ]] || build=build/dev
fi
probe=$build/bin/tidepool-probe
[[ -x $probe ]] || usage_error "there is no $probe; build first, or name the build tree with --build"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null || usage_error "needs python3, 3.9 or newer"
mkdir -p "$out" 2>/dev/null || usage_error "cannot make $out"
[[ -w $out ]] || usage_error "cannot write into $out"

# Whoever stops this must not leave a section at work on the device.
exec {console}>&2  # a trap runs with the redirections of what it interrupts
child=''
stop() {
  trap - INT TERM HUP
  if [[ -n $child ]]; then
    kill -TERM "$child" 2>/dev/null || true
    wait "$child" 2>/dev/null || true
  fi
  python3 -B tests/device/read_probe.py "$out" --quiet --merge "$out/probe.json" || true
  printf 'probe.sh: stopped; what was measured is in %s\n' "$out" >&"$console"
  exit 130
}
trap stop INT TERM HUP

# record <name> <kind> <JSON members>: one line of our own in a section's file, on a line of its own.
record() {
  printf '\n{"section": "%s", "kind": "%s", %s}\n' "$1" "$2" "$3" >>"$out/$1.jsonl"
}

# bounded <seconds> <command...>: the command's status, or 124 when it did not end. A process that is stuck in the
# driver cannot be killed; it is left behind.
bounded() {
  local most=$1 status=0 waited
  shift
  timeout --kill-after=3 "$most" "$@" &
  child=$!
  for ((waited = 0; waited < (most + 6) * 10; ++waited)); do
    if ! kill -0 "$child" 2>/dev/null; then
      wait "$child" || status=$?
      child=''
      return "$status"
    fi
    sleep 0.1
  done
  child=''
  return 124
}

# run_section <name> <most seconds> <command...>: the section's records, and one more if it did not end by itself.
run_section() {
  local name=$1 most=$2 left status=0
  shift 2
  left=$((total - SECONDS))
  if ((left < 2)); then
    record "$name" skipped '"why": "no time was left"'
    return
  fi
  ((most <= left)) || most=$left
  printf 'probe.sh: %s (at most %s s)\n' "$name" "$most" >&2
  bounded "$most" "$@" >>"$out/$name.jsonl" 2>>"$out/$name.log" </dev/null || status=$?
  if ((status == 124 || status == 137)); then
    record "$name" skipped "\"name\": \"the rest\", \"why\": \"stopped after $most s\""
  elif ((status != 0 && status != 77)); then
    record "$name" answer "\"name\": \"exit status\", \"value\": $status"
  fi
  # Whoever is cut off from outside still has one file with everything up to here.
  python3 -B tests/device/read_probe.py "$out" --quiet --merge "$out/probe.json" || true
}

rm -f "$out/machine.jsonl"
run_section machine 15 python3 -B tests/device/machine.py before
for section in "${sections[@]}"; do
  rm -f "$out/$section.jsonl" "$out/$section.log"
  case $section in
    vmm | rates) run_section "$section" 25 "$probe" "$section" --seconds 20 "${quick[@]}" ;;
    aliasing | sharing) run_section "$section" 20 "$probe" "$section" --seconds 12 "${quick[@]}" ;;
    faults) run_section faults 30 "$probe" faults --seconds 24 "${quick[@]}" ;;
    launch)
      run_section launch 8 "$probe" launch --seconds 3 "${quick[@]}"
      # The section tells by this budget whether the hooks are at work: the device must look that small.
      run_section launch 8 env TIDEPOOL_DEVICE_BUDGET=$((256 << 20)) \
        LD_PRELOAD="$(realpath "$build")/lib/libtidepool.so${LD_PRELOAD:+:$LD_PRELOAD}" \
        "$probe" launch --seconds 3 "${quick[@]}"
      ;;
    doors)
      seconds=$((total - SECONDS - 25))
      ((seconds <= 75)) || seconds=75
      ((seconds >= 15)) || seconds=15
      run_section doors $((seconds + 5)) bash tests/device/doors.sh "$build" --seconds "$seconds" "${quick[@]}"
      ;;
    conformance) run_section conformance 40 python3 -B tests/device/conformance.py "$build" ;;
  esac
done
run_section machine 15 python3 -B tests/device/machine.py after
exec python3 -B tests/device/read_probe.py "$out" --merge "$out/probe.json"
