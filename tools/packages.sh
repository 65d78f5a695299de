# shellcheck shell=bash
# Sourced by tools/quickstart.sh and tests/run.sh: the Debian 12 packages that Tidepool is built and tested with,
# and two functions that make sure they and the CUDA toolkit are there.

# shellcheck disable=SC2034 # used by those who source this
TP_BUILD_PACKAGES=(cmake g++ libfmt-dev liblz4-dev libspdlog-dev libtomlplusplus-dev libxxhash-dev libzstd-dev make ninja-build)
# shellcheck disable=SC2034
TP_TEST_PACKAGES=(
  catch2 ccache clang-format-14 clang-tidy-14 codespell eatmydata faketime fish git libbenchmark-dev mandoc procps python3
  shellcheck valgrind zsh
)

# tp_say <text>: one line of our own, on stderr.
tp_say() {
  printf '%s: %s\n' "${TP_SELF:-tidepool}" "$*" >&2
}

# tp_fail <text>: one line, and the end.
tp_fail() {
  tp_say "$*"
  exit 1
}

# tp_usage_error <text>: a wrong command line.
tp_usage_error() {
  tp_say "$* (--help lists the options)"
  exit 2
}

# tp_install_missing <package>...: installs those that are not there, with sudo where needed. Touches nothing
# and needs no network when all are there.
tp_install_missing() {
  local package missing=() as_root=()
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    tp_say "this is not Debian; make sure that these or their like are installed: $*"
    return 0
  fi
  for package in "$@"; do
    # shellcheck disable=SC2016 # the format is dpkg's, not the shell's
    if [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null) != installed ]]; then
      missing+=("$package")
    fi
  done
  if ((${#missing[@]} == 0)); then
    return 0
  fi
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      tp_fail "missing packages, and no sudo to install them; run as root: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  tp_say "installing ${missing[*]}"
  local log
  log=$(mktemp)
  # The lists may be empty (a fresh machine or image) or old.
  if ! {
    "${as_root[@]}" apt-get -q -y update &&
      "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends "${missing[@]}"
  } >"$log" 2>&1 </dev/null; then
    tail -n 20 "$log" >&2
    tp_fail "installing failed; the whole output is in $log"
  fi
  rm -f "$log"
}

# tp_find_nvcc: puts nvcc 13 or newer on PATH, or says what is missing and ends.
tp_find_nvcc() {
  local folder version
  if [[ -n ${CUDACXX:-} ]]; then
    PATH=$(dirname -- "$CUDACXX"):$PATH
  elif ! command -v nvcc >/dev/null; then
    for folder in "${CUDA_HOME:-}" /usr/local/cuda /usr/local/cuda-13*; do
      if [[ -x $folder/bin/nvcc ]]; then
        PATH=$folder/bin:$PATH
        break
      fi
    done
  fi
  command -v nvcc >/dev/null ||
    tp_fail "nvcc was not found. Tidepool needs the CUDA toolkit 13 (package cuda-toolkit-13-0 of the vendor's" \
      "repository) to build; no GPU and no driver. Install it, or set CUDACXX to its nvcc."
  version=$(nvcc --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
  if ((${version:-0} < 13)); then
    tp_fail "$(command -v nvcc) is release ${version:-unknown}; Tidepool needs nvcc 13 (package cuda-toolkit-13-0)."
  fi
}

# tp_with_progress <what> <command>...: as tp_quietly, and every 15 seconds one line says how far a build by Ninja is.
tp_with_progress() {
  local what=$1 log line told=$SECONDS
  shift
  log=$(mktemp)
  if ! "$@" 2>&1 | tee "$log" | while IFS= read -r line; do
    if [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] && ((SECONDS - told >= ${TP_PROGRESS_SECONDS:-15})); then
      told=$SECONDS
      tp_say "$what: ${BASH_REMATCH[1]} of ${BASH_REMATCH[2]}"
    fi
  done; then
    tail -n 60 "$log" >&2
    tp_fail "$what failed; the whole output is in $log"
  fi
  rm -f "$log"
}

# tp_quietly <what> <command>...: runs a command; its output is shown only if it fails.
tp_quietly() {
  local what=$1 log
  shift
  log=$(mktemp)
  if ! "$@" >"$log" 2>&1; then
    tail -n 60 "$log" >&2
    tp_fail "$what failed; the whole output is in $log"
  fi
  rm -f "$log"
}
