// The environment door: getenv and secure_getenv answer for the settings of PyTorch's allocator with ours
// merged in (decisions/0010), and are the C library's for every other name. Built without sanitizers:
// programs read their environment before anything is ready.

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/auxv.h>

#include <atomic>
#include <cstddef>
#include <cstring>

#include "shim/own_memory.h"
#include "shim/process.h"
#include "shim/real_driver.h"
#include "shim/torch_settings.h"

namespace tidepool::shim {
namespace {

using Getenv = char* (*)(const char*) noexcept;
constinit std::atomic<Getenv> g_getenv{nullptr};
constinit std::atomic<Getenv> g_secure_getenv{nullptr};

/// The next definition: the C library's, or that of another tool.
Getenv next(std::atomic<Getenv>& known, const char* name) noexcept {
  Getenv found = known.load(std::memory_order_relaxed);
  if (found == nullptr) [[unlikely]] {
    found = reinterpret_cast<Getenv>(real_dlsym(RTLD_NEXT, name));
    known.store(found, std::memory_order_relaxed);
  }
  return found;
}

/// Texts that were given out. The program may keep them for ever, so each is made once and stays.
constinit std::atomic<char*> g_texts[64] = {};

char* lasting(const char* text) noexcept {
  const std::size_t size = std::strlen(text) + 1;
  char* copy = nullptr;
  for (std::atomic<char*>& place : g_texts) {
    char* there = place.load(std::memory_order_acquire);
    if (there == nullptr) {
      if (copy == nullptr) copy = static_cast<char*>(std::memcpy(take_own_memory(size), text, size));
      if (place.compare_exchange_strong(there, copy, std::memory_order_acq_rel)) return copy;
    }
    if (std::strcmp(there, text) != 0) continue;
    if (copy != nullptr) give_own_memory(copy);
    return there;
  }
  if (copy != nullptr) give_own_memory(copy);
  return nullptr;  // a program that sets dozens of values has its own way
}

char* merged(Getenv read, const char* name) noexcept {
  char* const own = read(name);
  start_process();
  if (is_switched_off()) return own;
  // Who only watches changes nothing, unless asked for it.
  if (options().mode == RunMode::kObserve && options().alloc == AllocChoice::kAuto) return own;
  const char* user = own;
  if (user == nullptr || *user == '\0') user = read(other_torch_settings(name));
  char text[4096];
  if (merge_torch_settings(user != nullptr ? user : "", options().alloc, text, sizeof text)) {
    char* const kept = lasting(text);
    return kept != nullptr ? kept : own;
  }
  return own;
}

}  // namespace
}  // namespace tidepool::shim

extern "C" {

__attribute__((visibility("default"))) char* getenv(const char* name) noexcept {
  using namespace tidepool::shim;
  const Getenv read = next(g_getenv, "getenv");
  return is_torch_settings(name) ? merged(read, name) : read(name);
}

__attribute__((visibility("default"))) char* secure_getenv(const char* name) noexcept {
  using namespace tidepool::shim;
  const Getenv read = next(g_secure_getenv, "secure_getenv");
  // In a set-uid program it knows no variable, and so do we.
  return is_torch_settings(name) && ::getauxval(AT_SECURE) == 0 ? merged(read, name) : read(name);
}
}
