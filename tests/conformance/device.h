#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "tests/conformance/case.h"
#include "tests/conformance/entry.h"
#include "tests/conformance/kernels.h"

/// What most cases begin with. Every function ends the case if a call of it fails.
namespace conformance {

constexpr std::size_t kKiB = 1 << 10;
constexpr std::size_t kMiB = 1 << 20;

/// cuInit, and the primary context of device 0 retained and made current.
CUcontext use_device();

int attribute(CUdevice_attribute which, CUdevice device = 0);
/// Skips the case unless the device has the feature.
void need(CUdevice_attribute which, const char* what);
/// Device memory that this context could still give.
std::size_t free_bytes();

CUdeviceptr allocate(std::size_t bytes);
CUstream make_stream(unsigned flags = CU_STREAM_DEFAULT);
CUevent make_event(unsigned flags = CU_EVENT_DISABLE_TIMING);
/// Page-locked host memory.
unsigned* pinned_words(std::size_t words);

/// Words of device memory, read when everything queued is over.
std::vector<unsigned> read_words(CUdeviceptr from, std::size_t words);
unsigned read_word(CUdeviceptr from);
/// Expects first, first + 1, … at this address once the device is idle.
void expect_words(CUdeviceptr from, std::size_t words, unsigned first, const char* file, int line);

// Virtual memory management.
CUmemAllocationProp device_memory(bool exportable = false);
std::size_t granularity();
CUmemGenericAllocationHandle create_memory(std::size_t bytes, bool exportable = false);
CUdeviceptr reserve(std::size_t bytes);
CUresult set_access(CUdeviceptr base, std::size_t bytes, CUmemAccess_flags access);
/// Reserves nothing: maps at an address of a reservation and gives access.
void map_memory(CUdeviceptr base, std::size_t bytes, CUmemGenericAllocationHandle handle);

/// Another process, forked before this one has called CUDA, and a socket to it. If its body fails, so does
/// the case.
class Partner {
 public:
  /// What a partner's body and its case talk through.
  class Channel {
   public:
    explicit Channel(int fd) : fd_(fd) {}
    void send_bytes(const void* bytes, std::size_t count) const;
    void receive_bytes(void* bytes, std::size_t count) const;
    template <class T>
    void send(const T& value) const {
      send_bytes(&value, sizeof value);
    }
    template <class T>
    T receive() const {
      T value{};
      receive_bytes(&value, sizeof value);
      return value;
    }
    void send_descriptor(int fd) const;
    int receive_descriptor() const;

   private:
    int fd_;
  };

  explicit Partner(const std::function<void(const Channel&)>& body);
  const Channel& channel() const { return channel_; }
  /// Ends it at once, as a crash would.
  void kill();
  /// Waits until it has ended by itself.
  void join();

 private:
  pid_t child_ = -1;
  Channel channel_{-1};
};

}  // namespace conformance

#define EXPECT_WORDS(from, words, first) ::conformance::expect_words(from, words, first, __FILE__, __LINE__)
