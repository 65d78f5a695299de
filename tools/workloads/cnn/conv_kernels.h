#pragma once

#include "tools/workloads/ops/arrays.h"

/// Images become matrices and back, and pooling. Activations are [channel][image][y][x]: a channel of the
/// whole batch is one row of a matrix.
namespace cnn {

using workload::at_most;
using workload::chunk_of;
using workload::for_each_in;
using workload::kThreads;
using workload::Span;

constexpr int kTaps = 9;  ///< of a 3x3 convolution

SIMGPU_HD inline std::size_t size_of(int n) {
  return static_cast<std::size_t>(n);
}

/// A run of images of a batch and their matrix: row channel * kTaps + tap, a column per pixel of the run.
struct PatchArgs {
  const float* from;
  float* to;
  int size;         ///< pixels of a side
  int all_images;   ///< of the batch
  int first_image;  ///< of the run
  int images;       ///< of the run
};

/// Where the pixels of one image of one channel are, in the activations and in row `tap` of the matrix.
struct Patch {
  std::size_t pixels;
  std::size_t image;
  std::size_t column;
  std::size_t row_length;
  std::size_t row;
  SIMGPU_HD Patch(const PatchArgs& args, int image_in_run, int channel)
      : pixels(size_of(args.size) * size_of(args.size)),
        image((size_of(channel) * size_of(args.all_images) + size_of(args.first_image + image_in_run)) *
              pixels),
        column(size_of(image_in_run) * pixels),
        row_length(size_of(args.images) * pixels),
        row(size_of(channel * kTaps)) {}
  SIMGPU_HD std::size_t tap(int k) const { return (row + size_of(k)) * row_length + column; }
};

/// The matrix whose product with weights is the convolution: what each tap sees at each pixel, zeros outside.
/// One block per image (x) and channel (y).
struct ToPatches {
  template <class C>
  SIMGPU_HD static void run(C& c, PatchArgs args) {
    const Patch patch(args, static_cast<int>(c.block().x), static_cast<int>(c.block().y));
    c.reads(args.from + patch.image, patch.pixels * sizeof(float));
    for (int k = 0; k < kTaps; ++k) c.writes(args.to + patch.tap(k), patch.pixels * sizeof(float));
    const float* const image = args.from + patch.image;
    const int n = args.size;
    if (c.on_host()) {
      for (int k = 0; k < kTaps; ++k) {
        const int dy = k / 3 - 1;
        const int dx = k % 3 - 1;
        float* const out = args.to + patch.tap(k);
        for (int y = 0; y < n; ++y) {
          float* const row = out + size_of(y) * size_of(n);
          const bool inside = y + dy >= 0 && y + dy < n;
          for (int x = 0; x < n; ++x) row[x] = 0.0f;
          if (!inside) continue;
          const float* const seen = image + size_of(y + dy) * size_of(n);
          const int first = dx < 0 ? 1 : 0;
          const int last = dx > 0 ? n - 1 : n;
          for (int x = first; x < last; ++x) row[x] = seen[x + dx];
        }
      }
      return;
    }
    c.phase([&](unsigned tid) {
      for (std::size_t i = tid; i < patch.pixels; i += kThreads) {
        const int y = static_cast<int>(i) / n;
        const int x = static_cast<int>(i) % n;
        for (int k = 0; k < kTaps; ++k) {
          const int from_y = y + k / 3 - 1;
          const int from_x = x + k % 3 - 1;
          const bool inside = from_y >= 0 && from_y < n && from_x >= 0 && from_x < n;
          args.to[patch.tap(k) + i] = inside ? image[size_of(from_y) * size_of(n) + size_of(from_x)] : 0.0f;
        }
      }
    });
  }
};

/// The gradient of the activations from that of the matrix: each pixel adds up what its taps got, in the
/// taps' order. One block per image (x) and channel (y).
struct FromPatches {
  template <class C>
  SIMGPU_HD static void run(C& c, PatchArgs args) {
    const Patch patch(args, static_cast<int>(c.block().x), static_cast<int>(c.block().y));
    for (int k = 0; k < kTaps; ++k) c.reads(args.from + patch.tap(k), patch.pixels * sizeof(float));
    c.writes(args.to + patch.image, patch.pixels * sizeof(float));
    float* const image = args.to + patch.image;
    const int n = args.size;
    if (c.on_host()) {
      for (std::size_t i = 0; i < patch.pixels; ++i) image[i] = 0.0f;
      for (int k = 0; k < kTaps; ++k) {
        const int dy = k / 3 - 1;
        const int dx = k % 3 - 1;
        const float* const in = args.from + patch.tap(k);
        for (int y = 0; y < n; ++y) {
          if (y - dy < 0 || y - dy >= n) continue;
          float* const row = image + size_of(y) * size_of(n);
          const float* const got = in + size_of(y - dy) * size_of(n);
          const int first = dx > 0 ? 1 : 0;
          const int last = dx < 0 ? n - 1 : n;
          for (int x = first; x < last; ++x) row[x] += got[x - dx];
        }
      }
      return;
    }
    c.phase([&](unsigned tid) {
      for (std::size_t i = tid; i < patch.pixels; i += kThreads) {
        const int y = static_cast<int>(i) / n;
        const int x = static_cast<int>(i) % n;
        float sum = 0.0f;
        for (int k = 0; k < kTaps; ++k) {
          const int at_y = y - k / 3 + 1;
          const int at_x = x - k % 3 + 1;
          if (at_y < 0 || at_y >= n || at_x < 0 || at_x >= n) continue;
          sum += args.from[patch.tap(k) + size_of(at_y) * size_of(n) + size_of(at_x)];
        }
        image[i] = sum;
      }
    });
  }
};

/// The largest of each 2x2 pixels, and which one it was (the first of equals).
struct PoolArgs {
  const float* from;
  float* to;
  unsigned char* which;  ///< 0..3 for each result
  std::size_t results;
  int size;  ///< pixels of a side before pooling, even
};

/// Where the four pixels of result i begin, and the rows of them that a span of results covers.
SIMGPU_HD inline std::size_t first_of_four(const PoolArgs& args, std::size_t i) {
  const std::size_t half = size_of(args.size) / 2;
  return i / half * 2 * size_of(args.size) + i % half * 2;
}
SIMGPU_HD inline Span rows_of(const PoolArgs& args, Span results) {
  const std::size_t half = size_of(args.size) / 2;
  const std::size_t first = results.first / half;
  const std::size_t last = (results.first + results.count - 1) / half;
  return {first * 2 * size_of(args.size), (last - first + 1) * 2 * size_of(args.size)};
}

struct MaxPool {
  template <class C>
  SIMGPU_HD static void run(C& c, PoolArgs args) {
    const Span span = chunk_of(c, args.results);
    const Span rows = rows_of(args, span);
    c.reads(args.from + rows.first, rows.count * sizeof(float));
    c.writes(args.to + span.first, span.count * sizeof(float));
    c.writes(args.which + span.first, span.count);
    for_each_in(c, span, [&](std::size_t i) {
      const float* const four = args.from + first_of_four(args, i);
      int best = 0;
      float largest = four[0];
      for (int k = 1; k < 4; ++k) {
        const float value = four[size_of(k / 2) * size_of(args.size) + size_of(k % 2)];
        if (value > largest) {
          largest = value;
          best = k;
        }
      }
      args.to[i] = largest;
      args.which[i] = static_cast<unsigned char>(best);
    });
  }
};

/// The gradient of MaxPool: `from` is that of the results, `to` that of the pixels.
struct MaxPoolBackward {
  template <class C>
  SIMGPU_HD static void run(C& c, PoolArgs args) {
    const Span span = chunk_of(c, args.results);
    const Span rows = rows_of(args, span);
    c.reads(args.from + span.first, span.count * sizeof(float));
    c.reads(args.which + span.first, span.count);
    c.writes(args.to + rows.first, rows.count * sizeof(float));
    for_each_in(c, span, [&](std::size_t i) {
      float* const four = args.to + first_of_four(args, i);
      for (int k = 0; k < 4; ++k) {
        four[size_of(k / 2) * size_of(args.size) + size_of(k % 2)] = args.which[i] == k ? args.from[i] : 0.0f;
      }
    });
  }
};

/// The mean of each channel of each image, as rows of images: to[image][channel].
struct MeanPool {
  template <class C>
  SIMGPU_HD static void run(C& c, const float* from, int channels, int images, int pixels, float* to) {
    const std::size_t results = size_of(channels) * size_of(images);
    const Span span = chunk_of(c, results);
    c.reads(from, results * size_of(pixels) * sizeof(float));
    c.writes(to + span.first, span.count * sizeof(float));
    for_each_in(c, span, [&](std::size_t i) {
      const std::size_t image = i / size_of(channels);
      const std::size_t channel = i % size_of(channels);
      const float* const in = from + (channel * size_of(images) + image) * size_of(pixels);
      float sum = 0.0f;
      for (int p = 0; p < pixels; ++p) sum += in[p];
      to[i] = sum / static_cast<float>(pixels);
    });
  }
};

struct MeanPoolBackward {
  template <class C>
  SIMGPU_HD static void run(C& c, const float* from, int channels, int images, int pixels, float* to) {
    const std::size_t count = size_of(channels) * size_of(images) * size_of(pixels);
    const Span span = chunk_of(c, count);
    c.reads(from, size_of(channels) * size_of(images) * sizeof(float));
    c.writes(to + span.first, span.count * sizeof(float));
    for_each_in(c, span, [&](std::size_t i) {
      const std::size_t row = i / size_of(pixels);
      const std::size_t channel = row / size_of(images);
      const std::size_t image = row % size_of(images);
      to[i] = from[image * size_of(channels) + channel] / static_cast<float>(pixels);
    });
  }
};

}  // namespace cnn
