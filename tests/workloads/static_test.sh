#!/usr/bin/env bash
# The workloads link with the static CUDA run time, and say so in one line where there is no GPU.
# usage: static_test.sh CMAKE SOURCE_FOLDER NVCC
set -euo pipefail
cmake=$1 source=$2 nvcc=$3

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$cmake" -S "$source" -B "$scratch" -DBUILD_TESTING=OFF -DTP_STATIC_WORKLOADS=ON -DCMAKE_CUDA_COMPILER="$nvcc" \
  -DCMAKE_CUDA_ARCHITECTURES=80 >/dev/null
for program in train_mlp train_cnn train_transformer train_lstm; do
  "$cmake" --build "$scratch" --target "${program}_static" --parallel 2 >"$scratch/log" || { cat "$scratch/log"; exit 1; }
  file=$scratch/bin/${program}_static
  if ldd "$file" | grep cuda; then
    echo "$program: needs a shared library of CUDA"
    exit 1
  fi
  if said=$(LD_LIBRARY_PATH='' "$file" --steps 1 2>&1); then
    echo "$program: ran"  # there is a GPU
  elif [[ $said != "$program: cuda"*" failed: cudaError"* || $said == *$'\n'* ]]; then
    printf '%s: said: %s\n' "$program" "$said"
    exit 1
  fi
done
