#!/usr/bin/env bash
# Installs what is missing, builds, and shows Tidepool at work: a training program in a quarter of its memory.
set -euo pipefail
TP_SELF=tools/quickstart.sh
cd "$(dirname -- "${BASH_SOURCE[0]}")/.."
# shellcheck source=tools/packages.sh
. tools/packages.sh

usage() {
  cat <<'TEXT'
usage: tools/quickstart.sh [--jobs N] [--no-install]

Installs missing packages (apt, sudo where needed), builds into build/release, then trains a small network on a
simulated GPU twice: with all the memory it asks for, and under Tidepool in a quarter of that. No GPU is needed.

  --jobs N      parallel compilations (default: number of processors)
  --no-install  install nothing
  -h, --help    this text
TEXT
}

install=1
jobs=$(nproc)
while (($# > 0)); do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --no-install) install=0 ;;
    --jobs)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || tp_usage_error "--jobs ${2:-}: want a number from 1"
      jobs=$2
      shift
      ;;
    *) tp_usage_error "unknown argument '$1'" ;;
  esac
  shift
done

if [[ $PWD == *[:\ ]* ]]; then
  tp_fail "the path $PWD has a space or colon, which LD_PRELOAD cannot name; move the folder to a path without"
fi
if ((install)); then
  tp_install_missing "${TP_BUILD_PACKAGES[@]}"
fi
tp_find_nvcc

tp_say "building into build/release (about five minutes of a processor the first time)"
tp_quietly "configuring" cmake --preset release -DBUILD_TESTING=OFF -DTP_WERROR=OFF
tp_with_progress "building" cmake --build build/release --parallel "$jobs"

bold='' green='' red='' plain=''
if [[ -t 1 && -z ${NO_COLOR:-} ]]; then
  bold=$'\e[1m' green=$'\e[32m' red=$'\e[31m' plain=$'\e[0m'
fi

bin=build/release/bin
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# peak_of <report>: the most physical device memory in use at once, as the device itself counted it.
peak_of() {
  local peak
  peak=$(sed -n 's/.*"physical_peak_bytes": *\([0-9][0-9]*\).*/\1/p' "$1")
  [[ -n $peak ]] || tp_fail "the device's report $1 names no peak"
  printf '%s' "$peak"
}

mib() {
  printf '%d.%d MiB' "$(($1 / 1048576))" "$(($1 % 1048576 * 10 / 1048576))"
}

$bin/simgpu --device h100 --report "$scratch/plain.json" -- $bin/train_mlp >"$scratch/plain.txt" ||
  tp_fail "train_mlp failed without Tidepool"
peak=$(peak_of "$scratch/plain.json")
budget=$((peak / 4 / 1048576))MiB
printf '%swithout Tidepool%s  %s of device memory\n' "$bold" "$plain" "$(mib "$peak")"

command=("$bin/simgpu" --device h100 --report "$scratch/tidepool.json" --
  "$bin/tidepool" run --device-budget "$budget" -- "$bin/train_mlp")
printf '%s$%s %s\n' "$bold" "$plain" "${command[*]/"$scratch"\/tidepool.json/report.json}"
"${command[@]}" >"$scratch/tidepool.txt" || tp_fail "train_mlp failed under Tidepool"
printf '%sunder Tidepool%s    %s of device memory, as the device counted it\n' "$bold" "$plain" \
  "$(mib "$(peak_of "$scratch/tidepool.json")")"

sed 's/^/    /' "$scratch/tidepool.txt"
if ! cmp -s "$scratch/plain.txt" "$scratch/tidepool.txt"; then
  printf '%sdifferent output%s\n' "$red" "$plain"
  diff "$scratch/plain.txt" "$scratch/tidepool.txt" || true
  exit 1
fi
printf '%ssame output%s: every loss and the digest of all weights agree, bit for bit\n' "$green" "$plain"
cat <<TEXT

Next: a program of yours on a GPU, in 8 GiB of its memory:
    export PATH=\$PWD/$bin:\$PATH
    tidepool run --device-budget 8GiB -- ./your-program
tidepool run --help lists the options, README.md says what works today.
TEXT
