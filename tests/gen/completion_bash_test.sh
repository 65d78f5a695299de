#!/usr/bin/env bash
# What bash offers behind `tidepool`, word by word.
# usage: completion_bash_test.sh TIDEPOOL
set -euo pipefail
# shellcheck disable=SC1090 # the script under test
source <("$1" completion bash)

# offers WORD...: what is offered for the last word, sorted, in one line.
offers() {
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  COMPREPLY=()
  _tidepool
  printf '%s\n' "${COMPREPLY[@]}" | sort -u | tr '\n' ' ' | sed 's/ $//'
}
# expect WANTED WORD...
expect() {
  local wanted=$1 got
  shift
  got=$(offers "$@")
  [[ $got == "$wanted" ]] || { echo "'$*' offers '$got', not '$wanted'"; exit 1; }
}

expect 'run' tidepool ru
expect 'explain' tidepool exp
expect '--version' tidepool --v
expect '--device-budget --device-reserve' tidepool run --device
expect '--help' tidepool run --device-budget 1GiB --hel
expect 'cheap' tidepool run --check c
expect 'cheap full off unmap' tidepool run --check ''
expect 'full' tidepool run --check = f
expect '' tidepool run --device-budget ''
expect '--json' tidepool env --j
expect 'TP1010' tidepool explain TP1010
expect 'TIDEPOOL_DEVICE_BUDGET TIDEPOOL_DEVICE_RESERVE' tidepool explain TIDEPOOL_DEV
expect '--min-block --mode' tidepool explain --m
expect 'debug error info off trace warn' tidepool run --log ''
expect 'zsh' tidepool completion z
expect 'link' tidepool bench l
# The program and what follows it.
expect 'mktemp' tidepool run mktem
expect 'mktemp' tidepool run --device-budget 1GiB -- mktem
[[ " $(offers tidepool run el) " != *' elif '* ]] || { echo "keywords are offered as programs"; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
touch "$folder/--odd" "$folder/input"
cd "$folder"
expect 'input' tidepool run -- mktemp inp
expect '--odd' tidepool run mktemp --o
