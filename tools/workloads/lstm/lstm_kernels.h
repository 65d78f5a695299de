#pragma once

#include <cmath>

#include "tools/workloads/ops/arrays.h"

namespace lstm {

using workload::chunk_of;
using workload::for_each_in;
using workload::Span;

/// One position of all samples. Arrays have a row per sample.
struct CellArgs {
  float* gates;             ///< four parts per row; sums before, i f g o after CellForward
  const float* before;      ///< c of the position before; null at the first
  float* cells;             ///< c
  float* outputs;           ///< h
  const float* doutputs;    ///< gradient of h from above
  const float* drecurrent;  ///< and from the position after; null at the last
  float* dcells;            ///< gradient of c from the position after, then of `before`
  int last;                 ///< 1 at the last position, where dcells holds nothing yet
  int rows, width;
};

/// Where the four parts of a cell lie, and what a block declares of them: all gates of the rows it works on.
struct Cell {
  std::size_t i, f, g, o;
  SIMGPU_HD Cell(std::size_t index, int width)
      : i(index / static_cast<std::size_t>(width) * 4 * static_cast<std::size_t>(width) +
          index % static_cast<std::size_t>(width)),
        f(i + static_cast<std::size_t>(width)),
        g(f + static_cast<std::size_t>(width)),
        o(g + static_cast<std::size_t>(width)) {}
};
SIMGPU_HD inline Span gates_of(Span cells, int width) {
  const auto row_length = static_cast<std::size_t>(width);
  const std::size_t first = cells.first / row_length;
  const std::size_t last = (cells.first + cells.count - 1) / row_length;
  return {first * 4 * row_length, (last - first + 1) * 4 * row_length};
}

SIMGPU_HD inline float logistic(float x) {
  return 1.0f / (1.0f + expf(-x));
}

struct CellForward {
  template <class C>
  SIMGPU_HD static void run(C& c, CellArgs args) {
    const Span span = chunk_of(c, workload::at(args.rows, args.width, 0));
    const Span gates = gates_of(span, args.width);
    const std::size_t bytes = span.count * sizeof(float);
    c.reads(args.gates + gates.first, gates.count * sizeof(float));
    c.writes(args.gates + gates.first, gates.count * sizeof(float));
    if (args.before != nullptr) c.reads(args.before + span.first, bytes);
    c.writes(args.cells + span.first, bytes);
    c.writes(args.outputs + span.first, bytes);
    for_each_in(c, span, [&](std::size_t index) {
      const Cell at(index, args.width);
      const float i = logistic(args.gates[at.i]);
      const float f = logistic(args.gates[at.f]);
      const float g = tanhf(args.gates[at.g]);
      const float o = logistic(args.gates[at.o]);
      const float before = args.before == nullptr ? 0.0f : args.before[index];
      const float cell = f * before + i * g;
      args.gates[at.i] = i;
      args.gates[at.f] = f;
      args.gates[at.g] = g;
      args.gates[at.o] = o;
      args.cells[index] = cell;
      args.outputs[index] = o * tanhf(cell);
    });
  }
};

/// The gradients of the gates' sums, in place of the gates.
struct CellBackward {
  template <class C>
  SIMGPU_HD static void run(C& c, CellArgs args) {
    const Span span = chunk_of(c, workload::at(args.rows, args.width, 0));
    const Span gates = gates_of(span, args.width);
    const std::size_t bytes = span.count * sizeof(float);
    c.reads(args.gates + gates.first, gates.count * sizeof(float));
    c.writes(args.gates + gates.first, gates.count * sizeof(float));
    c.reads(args.cells + span.first, bytes);
    if (args.before != nullptr) c.reads(args.before + span.first, bytes);
    c.reads(args.doutputs + span.first, bytes);
    if (args.drecurrent != nullptr) c.reads(args.drecurrent + span.first, bytes);
    if (args.last == 0) c.reads(args.dcells + span.first, bytes);
    c.writes(args.dcells + span.first, bytes);
    for_each_in(c, span, [&](std::size_t index) {
      const Cell at(index, args.width);
      const float i = args.gates[at.i];
      const float f = args.gates[at.f];
      const float g = args.gates[at.g];
      const float o = args.gates[at.o];
      const float before = args.before == nullptr ? 0.0f : args.before[index];
      const float bent = tanhf(args.cells[index]);
      float dh = args.doutputs[index];
      if (args.drecurrent != nullptr) dh += args.drecurrent[index];
      float dcell = dh * o * (1.0f - bent * bent);
      if (args.last == 0) dcell += args.dcells[index];
      args.gates[at.i] = dcell * g * (i * (1.0f - i));
      args.gates[at.f] = dcell * before * (f * (1.0f - f));
      args.gates[at.g] = dcell * i * (1.0f - g * g);
      args.gates[at.o] = dh * bent * (o * (1.0f - o));
      args.dcells[index] = dcell * f;
    });
  }
};

}  // namespace lstm
