#include "allocator/kernel_table.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace tidepool::runtime {
namespace {

std::atomic<int> g_asked{0};

const void* function(std::uintptr_t n) {
  return reinterpret_cast<const void*>(n * 64);
}

// The name of function n is "kN", of function 1000 + n too.
void ask(const void* handle, std::span<char> buffer) {
  ++g_asked;
  const std::string name = "k" + std::to_string(reinterpret_cast<std::uintptr_t>(handle) / 64 % 1000);
  std::memcpy(buffer.data(), name.c_str(), name.size() + 1);
}
void ask_other(const void*, std::span<char> buffer) {
  std::memcpy(buffer.data(), "other", 6);
}

struct Found {
  std::uint32_t id;
  bool is_new;
  std::string name;
};
Found find(KernelTable& table, const void* handle, KernelTable::AskName* asked = &ask) {
  char name[KernelTable::kNameRoom] = "";
  const KernelTable::Kernel kernel = table.find(handle, asked, name);
  if (kernel.is_new) table.publish();
  return {kernel.id, kernel.is_new, name};
}

TEST_CASE("kernels: a function is asked for its name once, and one name is one kernel") {
  const auto table = std::make_unique<KernelTable>();
  g_asked = 0;
  const Found first = find(*table, function(1));
  CHECK(first.is_new);
  CHECK(first.id == 1);
  CHECK(first.name == "k1");
  for (int i = 0; i < 5; ++i) {
    const Found again = find(*table, function(1));
    CHECK(again.id == 1);
    CHECK_FALSE(again.is_new);
  }
  CHECK(g_asked == 1);
  CHECK(find(*table, function(2)).id == 2);
  const Found same_name = find(*table, function(1001));
  CHECK(same_name.id == 1);
  CHECK_FALSE(same_name.is_new);
}

TEST_CASE("kernels: after a module is unloaded a handle may be another kernel's") {
  const auto table = std::make_unique<KernelTable>();
  CHECK(find(*table, function(1)).id == 1);
  table->forget();
  const Found other = find(*table, function(1), &ask_other);
  CHECK(other.is_new);
  CHECK(other.id == 2);
  CHECK(find(*table, function(1), &ask).id == 2);  // known again: not asked
  table->forget();
  CHECK(find(*table, function(1)).id == 1);  // what was loaded again is the kernel that it was
}

TEST_CASE("kernels: a table that is full gives no wrong kernel") {
  const auto table = std::make_unique<KernelTable>();
  static std::uintptr_t serial;
  const auto ask_serial = [](const void* handle, std::span<char> buffer) {
    serial = reinterpret_cast<std::uintptr_t>(handle);
    std::snprintf(buffer.data(), buffer.size(), "s%zu", static_cast<std::size_t>(serial));
  };
  std::set<std::uint32_t> ids;
  constexpr std::uintptr_t kMany = 20'000;
  std::uintptr_t refused = 0;
  for (std::uintptr_t n = 1; n <= kMany; ++n) {
    const std::uint32_t id = find(*table, function(n), ask_serial).id;
    if (id == 0) {
      ++refused;
    } else {
      REQUIRE(ids.insert(id).second);
    }
  }
  CHECK(ids.size() + refused == kMany);
  CHECK(ids.size() == 1 << 14);
}

TEST_CASE("kernels: threads agree on the number of each kernel, and one of them announces it") {
  constexpr std::uintptr_t kKernels = 500;
  const auto table = std::make_unique<KernelTable>();
  std::vector<std::vector<std::uint32_t>> ids(4, std::vector<std::uint32_t>(kKernels));
  std::atomic<std::uint64_t> announced{0};
  std::vector<std::thread> threads;
  for (auto& mine : ids) {
    threads.emplace_back([&] {
      for (std::uintptr_t n = 0; n < kKernels; ++n) {
        const Found found = find(*table, function(n + 1));
        mine[n] = found.id;
        announced += found.is_new ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(announced == kKernels);
  for (const auto& mine : ids) CHECK(mine == ids[0]);
  CHECK(std::set<std::uint32_t>(ids[0].begin(), ids[0].end()).size() == kKernels);
}

}  // namespace
}  // namespace tidepool::runtime
