#!/usr/bin/env bash
# bash tests/fuzz/run.sh TARGET SECONDS [libFuzzer option]…
#
# Fuzzes one target (tests/fuzz/TARGET_fuzzer.cpp) with clang++, libFuzzer, AddressSanitizer and
# UndefinedBehaviorSanitizer, starting from tests/fuzz/corpus/TARGET. New inputs go to build/fuzz/found/TARGET, a
# finding to build/fuzz/crash-…; the exit status is then not 0. Give a finding to the replay program of any build:
#   build/dev/tests/fuzz_TARGET FILE
set -euo pipefail
TP_SELF=tests/fuzz/run.sh
cd "$(dirname -- "${BASH_SOURCE[0]}")/../.."
# shellcheck source=tools/packages.sh
source tools/packages.sh

(($# >= 2)) || tp_usage_error "needs a target and a number of seconds"
target=$1
seconds=$2
shift 2
[[ -f tests/fuzz/${target}_fuzzer.cpp ]] || tp_usage_error "there is no tests/fuzz/${target}_fuzzer.cpp"
[[ $seconds =~ ^[0-9]+$ ]] || tp_usage_error "'$seconds' is no number of seconds"
compiler=${CLANGXX:-clang++}
command -v "$compiler" >/dev/null ||
  tp_fail "$compiler was not found; fuzzing needs clang with libFuzzer (Debian packages clang, libclang-rt-14-dev)"
tp_find_nvcc

build=${TP_FUZZ_BUILD:-build/fuzz}
# The warnings are those of the compiler that the project is built with.
tp_quietly "configuring" cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_FLAGS=-fsanitize=fuzzer-no-link -DTP_SANITIZE=address,undefined \
  -DTP_WERROR=OFF -DTP_FUZZ=ON
tp_quietly "building" cmake --build "$build" --target "fuzz_$target"
mkdir -p "$build/found/$target"
exec "$build/tests/fuzz_$target" -max_total_time="$seconds" -artifact_prefix="$build/" -print_final_stats=1 \
  "$@" "$build/found/$target" "tests/fuzz/corpus/$target"
