#!/usr/bin/env bash
# What fish offers behind `tidepool`.
# usage: completion_fish_test.sh TIDEPOOL
set -euo pipefail
command -v fish >/dev/null || { echo "fish is not installed"; exit 77; }
HOME=$(mktemp -d)
export HOME
trap 'rm -rf "$HOME"' EXIT
"$1" completion fish >"$HOME/tidepool.fish"
fish --no-execute "$HOME/tidepool.fish"

# expect WANTED LINE
expect() {
  local got
  got=$(fish --no-config --command "source $HOME/tidepool.fish; complete --do-complete '$2'" | cut -f1 | sort |
    tr '\n' ' ' | sed 's/ $//')
  [[ $got == "$1" ]] || { echo "'$2' offers '$got', not '$1'"; exit 1; }
}
expect 'run' 'tidepool ru'
expect '--device-budget --device-reserve' 'tidepool run --device'
expect 'cheap full off unmap' 'tidepool run --check '
expect '--json' 'tidepool env --j'
expect 'TP1010' 'tidepool explain TP1010'
expect 'bash fish zsh' 'tidepool completion '
