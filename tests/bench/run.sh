#!/usr/bin/env bash
# Prints what the hooks cost and how fast simgpu launches; the numbers go to <build>/bench.json.
set -euo pipefail
TP_SELF=tests/bench/run.sh
cd "$(dirname -- "${BASH_SOURCE[0]}")/../.."
# shellcheck source=tools/packages.sh
. tools/packages.sh

build=build/dev
options=()
while (($# > 0)); do
  case $1 in
    -h | --help)
      echo "usage: tests/bench/run.sh [--build FOLDER] [--quick]    (default: build/dev, which must be built)"
      exit 0
      ;;
    --build)
      (($# > 1)) || tp_usage_error "--build needs a folder"
      build=$2
      shift
      ;;
    --quick) options+=(--quick) ;;
    *) tp_usage_error "unknown argument '$1'" ;;
  esac
  shift
done
[[ -f $build/CMakeCache.txt ]] || tp_fail "$build is not a build folder; build it first: tests/run.sh --preset dev"
exec python3 -B tests/bench/run_bench.py --build "$build" "${options[@]}"
