#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>

/// What reaches the driver, seen from within it: the recording driver asks the witness at each call.
namespace tidepool::test {

class Witness {
 public:
  /// The only one; from the first call on it sees every call. Its driver has a pool, and graphs of one
  /// memset, whose parameters lie where the graph's handle points.
  static Witness& instance();

  /// True if there is memory behind all of the range just now, by the calls that map and unmap.
  [[nodiscard]] bool is_mapped(CUdeviceptr at, std::size_t size) const;

  /// Copies between host and device in other streams than this one are Tidepool's own.
  void set_program_stream(CUstream stream) { stream_ = stream; }

  /// From here on calls of this entry are counted, and the nth of them answers `code`; 0: as ever.
  void watch(std::string_view entry, CUdeviceptr block, std::size_t size, int code = 0, int nth = 1);
  [[nodiscard]] int calls() const { return calls_; }
  /// Was there memory behind the block at each of these calls?
  [[nodiscard]] bool was_mapped() const { return was_mapped_; }
  /// Calls, since then, by which memory went back to the driver.
  [[nodiscard]] int returns() const { return returns_; }

  /// For the driver: a call has come.
  int see(std::string_view entry, const std::uint64_t* arguments);

 private:
  std::map<std::uint64_t, std::uint64_t> mapped_;  // address -> size
  CUstream stream_ = nullptr;
  std::string_view watched_;
  CUdeviceptr block_ = 0;
  std::size_t size_ = 0;
  int code_ = 0;
  int nth_ = 1;
  int calls_ = 0;
  int returns_ = 0;
  bool was_mapped_ = true;
};

}  // namespace tidepool::test
