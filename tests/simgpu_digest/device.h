#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/simgpu/digest/engine.h"
#include "tools/simgpu/digest/extent_map.h"

namespace digest_test {

namespace dg = simgpu::digest;

/// The parameters of a launch, laid out as nvcc does.
class Params {
 public:
  Params() = default;
  template <class... T>
  explicit Params(const T&... values) {
    (add(&values, sizeof(T), alignof(T)), ...);
  }

  void add(const void* value, std::size_t bytes, std::size_t align) {
    const std::size_t offset = (data.size() + align - 1) / align * align;
    data.resize(offset + bytes);
    std::memcpy(data.data() + offset, value, bytes);
    layout.push_back({static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(bytes)});
  }

  std::vector<unsigned char> data;
  std::vector<dg::Slot> layout;
};

/// A device's memory with a map of extents, run at once. The seed decides what garbage it starts with, and in
/// which 4 GiB of the address space it lies: addresses of two seeds have no half in common.
class Device {
 public:
  Device(std::size_t bytes, std::uint64_t garbage_seed, const std::string& roles = "simgpu-roles 1\n");

  /// Memory of the program at this offset of the device; returns its address.
  std::uint64_t allocate(std::size_t offset, std::size_t bytes, std::uint32_t unit = 0);
  void free(std::uint64_t address);
  [[nodiscard]] std::uint64_t address(std::size_t offset) const;
  [[nodiscard]] unsigned char* bytes(std::uint64_t address) {
    return reinterpret_cast<unsigned char*>(address);
  }
  /// The number of a call that is made now.
  std::uint64_t call() { return ++stamp_; }

  void copy_in(std::uint64_t to, const void* from, std::size_t n) { copy_in(to, from, n, call()); }
  void copy_in(std::uint64_t to, const void* from, std::size_t n, std::uint64_t call);
  void copy(std::uint64_t to, std::uint64_t from, std::size_t n) { copy(to, from, n, call()); }
  void copy(std::uint64_t to, std::uint64_t from, std::size_t n, std::uint64_t call);
  dg::Effect launch(const std::string& kernel, std::array<std::uint32_t, 3> grid, const Params& params) {
    return launch(kernel, grid, params, call());
  }
  dg::Effect launch(const std::string& kernel, std::array<std::uint32_t, 3> grid, const Params& params,
                    std::uint64_t call);

  dg::Stride stride = dg::kEveryByte;
  dg::ExtentMap map;
  std::vector<dg::StrayPointer> strays;  ///< of the latest launch
  bool scan_payloads = true;             ///< off: pointers in copies from the host are not noticed

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(std::uint64_t* at) const;
  };

  std::unique_ptr<std::uint64_t[], Unmap> memory_;
  dg::RoleFile roles_;
  std::uint64_t stamp_ = 0;
};

/// Numbers that look random: SplitMix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  /// From 0 to n - 1.
  std::uint64_t below(std::uint64_t n) { return next() % n; }
  bool chance(std::uint64_t percent) { return below(100) < percent; }

 private:
  std::uint64_t state_;
};

}  // namespace digest_test
