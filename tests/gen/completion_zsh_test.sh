#!/usr/bin/env bash
# zsh takes the script; what it hands to zsh's own functions, which need a terminal, is looked at in their place.
# usage: completion_zsh_test.sh TIDEPOOL
set -euo pipefail
tidepool=$1
command -v zsh >/dev/null || { echo "zsh is not installed"; exit 77; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$tidepool" completion zsh >"$folder/_tidepool"
zsh -n "$folder/_tidepool"

# handed CURRENT WORD...: the arguments of _describe or _arguments, one a line.
cat >"$folder/ask.zsh" <<'ZSH'
_describe() { print -rl -- _describe ${(P)2} }
_arguments() { print -rl -- "_arguments at $CURRENT of $words" "$@" }
_tidepool() { source $1/_tidepool }
ask() { local CURRENT=$2; local -a words; words=("${@:3}"); _tidepool $1 }
ask "$@"
ZSH
handed() {
  zsh -f "$folder/ask.zsh" "$folder" "$@"
}
has() {
  grep -qxF -- "$1" <<<"$2" || { printf 'no line "%s" in:\n%s\n' "$1" "$2"; exit 1; }
}

said=$(handed 2 tidepool r)
has '_describe' "$said"
has 'run:run a program with its GPU memory managed' "$said"
said=$(handed 4 tidepool run --check c)
has '_arguments at 3 of run --check c' "$said"
has '-S' "$said"
has '--check=[Check invariants while running cheap ones, or everything after each step, and the bytes of what moves against a second copy (slow)]:value:(off cheap full unmap)' "$said"
has '-q[Print errors only]' "$said"
has '--quiet[Print errors only]' "$said"
has '(-)1:program:_command_names -e' "$said"
said=$(handed 3 tidepool completion z)
has '1:what:(bash zsh fish)' "$said"
