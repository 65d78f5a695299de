#!/usr/bin/env bash
# --check takes what --write wrote, and finds a page that was changed, is missing, or has something after its end.
# usage: stale_test.sh TIDEPOOL_GEN SOURCES
set -euo pipefail
gen=$1 sources=$2

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$gen" --write "$folder"
"$gen" --check "$folder"
for page in "$folder"/docs/reference/*.md; do
  name=${page#"$folder"/}
  for change in s/e/E/ '1i more' 2d; do
    cp "$page" "$folder/kept"
    sed -i "$change" "$page"
    said=$("$gen" --check "$folder") && exit 1
    [[ $said == "$name is not current"$'\n'* ]]
    mv "$folder/kept" "$page"
  done
  rm "$page"
  said=$("$gen" --check "$folder") && exit 1
  [[ $said == "$name is not current"$'\n'* ]]
  "$gen" --write "$folder"
done
"$gen" --check "$folder"

# A folder that cannot be written is an error, not silence.
said=$("$gen" --write /proc/no-such-folder 2>&1) && exit 1
[[ $said == *"cannot be written"* ]]
# Each generated page that is committed is one that --write knows.
committed=$(grep -l 'Written by tidepool-gen' "$sources"/docs/reference/*.md | wc -l)
written=$(find "$folder/docs" -name '*.md' | wc -l)
[[ $committed == "$written" ]]
