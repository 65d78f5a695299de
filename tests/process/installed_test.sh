#!/usr/bin/env bash
# An installed command finds its installed library and manages a program with it.
# usage: installed_test.sh CMAKE BUILD_FOLDER SIMGPU TRAIN_MLP
set -euo pipefail
cmake=$1 build=$2 simgpu=$3 train_mlp=$4

prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
"$cmake" --install "$build" --prefix "$prefix" >/dev/null

# A sanitizer's run-time library, where the build has one, must come first.
said=$(LD_PRELOAD=${TP_TEST_PRELOAD_FIRST:-} "$simgpu" --device h100 -- "$prefix/bin/tidepool" run --device-budget 37MiB -- \
  "$train_mlp" --steps 2 2>&1 >/dev/null)
echo "$said"
[[ $said == *"fitted in 37.0 MiB"* ]]

# What is written from the tables comes with it.
for file in share/man/man1/tidepool.1 share/man/man1/tidepool-run.1 share/man/man7/tidepool.7 \
  share/bash-completion/completions/tidepool share/zsh/site-functions/_tidepool \
  share/fish/vendor_completions.d/tidepool.fish; do
  [[ -s $prefix/$file ]] || { echo "$file was not installed"; exit 1; }
done
[[ $("$prefix/bin/tidepool" version -v) == *"library: $prefix/lib"*"library_readable: yes"* ]]
