#!/usr/bin/env bash
# Installs what is missing, builds, runs every test but the nightly ones.
set -euo pipefail
TP_SELF=tests/run.sh
cd "$(dirname -- "${BASH_SOURCE[0]}")/.."
# shellcheck source=tools/packages.sh
. tools/packages.sh

usage() {
  cat <<'TEXT'
usage: tests/run.sh [--nightly] [--preset PRESET]... [--jobs N] [--no-install] [--] [CTEST-ARGUMENT...]

Installs missing packages (apt, sudo where needed), builds, and runs the tests of all presets in one ctest.

  --nightly        run the nightly tests as well
  --preset PRESET  dev, asan or tsan; may be repeated (default: all three)
  --jobs N         parallel compilations and tests (default: number of processors)
  --no-install     install nothing
  -h, --help       this text

Arguments of ctest that choose or show tests can be given as they are (-R, -E, -L, -LE, -I, -V, -VV, -N, -Q,
--rerun-failed, --stop-on-failure, --repeat); any other after --. TIDEPOOL_TEST_DATA names the folder of real
inputs. Example: tests/run.sh --preset dev -R residency
TEXT
}

nightly=0
install=1
jobs=$(nproc)
presets=()
ctest_arguments=()
excluded='^nightly$'

while (($# > 0)); do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --nightly) nightly=1 ;;
    --no-install) install=0 ;;
    --preset | --jobs | -R | -E | -L | -LE | -I | --repeat | --tests-regex | --exclude-regex | --label-regex | \
      --label-exclude | --tests-information)
      (($# > 1)) || tp_usage_error "$1 needs a value"
      case $1 in
        --preset)
          case $2 in
            dev | asan | tsan) presets+=("$2") ;;
            *) tp_usage_error "unknown preset '$2'; want dev, asan or tsan" ;;
          esac
          ;;
        --jobs)
          [[ $2 =~ ^[1-9][0-9]*$ ]] || tp_usage_error "--jobs $2: want a number from 1"
          jobs=$2
          ;;
        # ctest would exclude only what all of several -LE match.
        -LE | --label-exclude) excluded+="|$2" ;;
        *) ctest_arguments+=("$1" "$2") ;;
      esac
      shift
      ;;
    -V | -VV | -N | -Q | --verbose | --rerun-failed | --stop-on-failure | --quiet) ctest_arguments+=("$1") ;;
    --)
      shift
      ctest_arguments+=("$@")
      break
      ;;
    *) tp_usage_error "unknown argument '$1'" ;;
  esac
  shift
done
((${#presets[@]} > 0)) || presets=(dev asan tsan)
if ((nightly)); then
  excluded=${excluded#'^nightly$'}
  excluded=${excluded#'|'}
fi
[[ -z $excluded ]] || ctest_arguments+=(-LE "$excluded")

if ((install)); then
  tp_install_missing "${TP_BUILD_PACKAGES[@]}" "${TP_TEST_PACKAGES[@]}"
fi
tp_find_nvcc

# What goes without sanitizers is the same in all presets. ccache compiles it once, if it does not care where the
# build folder lies; and what the compiler says about included files spares it a look of its own.
if command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
  # Without this it leaves alone what takes precompiled headers.
  export CCACHE_SLOPPINESS=pch_defines,time_macros
fi

# One ctest over all builds, so that there is one result and one summary.
mkdir -p build/all
: >build/all/CTestTestfile.cmake
tp_say "configuring ${presets[*]}"
configuring=()
for preset in "${presets[@]}"; do
  tp_quietly "configuring preset $preset" cmake --preset "$preset" &
  configuring+=($!)
done
for process in "${configuring[@]}"; do
  wait "$process"
done
for preset in "${presets[@]}"; do
  started=$SECONDS
  tp_say "building preset $preset"
  tp_with_progress "building preset $preset" cmake --build "build/$preset" --parallel "$jobs"
  tp_say "built preset $preset in $((SECONDS - started)) s"
  printf 'subdirs("%s")\n' "$PWD/build/$preset" >>build/all/CTestTestfile.cmake
done

# ThreadSanitizer of gcc 12 stops at start where the kernel randomises more address bits than it knows.
launcher=()
random_bits=$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 0)
if [[ " ${presets[*]} " == *" tsan "* ]] && ((random_bits > 28)); then
  setarch --addr-no-randomize true 2>/dev/null ||
    tp_fail "preset tsan needs 'sysctl vm.mmap_rnd_bits=28' here (it is $random_bits)"
  launcher=(setarch --addr-no-randomize)
fi

skipped=0
if [[ -z ${TIDEPOOL_TEST_DATA:-} ]]; then
  skipped=$(ctest --test-dir build/all -N -L '^data$' | sed -n 's/^Total Tests: //p')
fi
tp_say "${skipped:-0} tests are skipped for lack of TIDEPOOL_TEST_DATA"
exec "${launcher[@]}" ctest --test-dir build/all --parallel "$jobs" --output-on-failure --no-tests=error "${ctest_arguments[@]}"
