#!/usr/bin/env bash
# The manual pages are mdoc without faults, and say what the commands say.
# usage: manual_test.sh FOLDER
set -euo pipefail
folder=$1

command -v mandoc >/dev/null || { echo "mandoc is not installed"; exit 77; }
ls "$folder"/man1/tidepool-run.1 "$folder"/man1/tidepool.1 "$folder"/man7/tidepool.7 >/dev/null
mandoc -T lint -W warning "$folder"/man?/*
# The check itself refuses.
broken=$(mktemp)
trap 'rm -f "$broken"' EXIT
sed 's/^\.El$/.Ell/' "$folder/man1/tidepool-run.1" >"$broken"
mandoc -T lint -W warning "$broken" >/dev/null && exit 1

text=$(mandoc -T ascii "$folder/man1/tidepool-run.1" | sed 's/.\x08//g')
for word in --device-budget --run-dir --quiet --verbose 'EXIT STATUS' 125; do
  [[ $text == *"$word"* ]]
done
text=$(mandoc -T ascii "$folder/man7/tidepool.7" | sed 's/.\x08//g')
for word in TIDEPOOL_DEVICE_BUDGET TIDEPOOL_MIN_BLOCK '16MiB..100%'; do
  [[ $text == *"$word"* ]]
done
