// What tests rely on in the fake device beyond the contract: lateness, strictness, fault plans.

#include "tests/fakes/fake_device.h"

#include <catch2/catch.hpp>
#include <set>
#include <vector>

namespace tidepool::fakes {
namespace {

using runtime::DevicePtr;
using runtime::StreamHandle;

/// A device with one mapped range of 2 MiB at `base`.
struct Mapped {
  explicit Mapped(std::uint64_t seed = 1) : device({MiB(64), MiB(2), seed}), base(*device.reserve(MiB(2))) {
    handle = *device.create(MiB(2));
    REQUIRE(device.map(base, MiB(2), handle).ok());
    REQUIRE(device.set_access(base, MiB(2)).ok());
  }
  std::uint8_t first_byte() {
    std::uint8_t byte = 0;
    REQUIRE(device.peek(base, &byte, Bytes(1)));
    return byte;
  }
  FakeDevice device;
  DevicePtr base;
  runtime::PhysicalHandle handle{};
};

}  // namespace

TEST_CASE("fake device: work runs only when it is asked to") {
  Mapped m;
  const StreamHandle stream = m.device.create_program_stream();
  REQUIRE(m.device.submit_fill(stream, m.base, MiB(2), 0x42).ok());
  REQUIRE(m.first_byte() != 0x42);
  REQUIRE(m.device.pending() == 1);
  REQUIRE(m.device.run_some(5) == 1);
  REQUIRE(m.first_byte() == 0x42);
}

TEST_CASE("fake device: new memory is not zero, and not what was there before") {
  Mapped m;
  REQUIRE(m.first_byte() != 0);
  const std::uint8_t before = m.first_byte();
  REQUIRE(m.device.unmap(m.base, MiB(2)).ok());
  REQUIRE(m.device.destroy(m.handle).ok());
  m.handle = *m.device.create(MiB(2));
  REQUIRE(m.device.map(m.base, MiB(2), m.handle).ok());
  REQUIRE(m.device.set_access(m.base, MiB(2)).ok());
  REQUIRE(m.first_byte() != before);
}

TEST_CASE("fake device: unmapping under queued work ends the device, and says what it was") {
  Mapped m;
  const StreamHandle stream = m.device.create_program_stream();
  REQUIRE(m.device.submit_fill(stream, m.base, MiB(2), 0x42).ok());
  REQUIRE(m.device.unmap(m.base, MiB(2)).ok());
  REQUIRE(m.device.synchronize() == FakeDevice::kIllegalAddress);
  REQUIRE(m.device.create(MiB(2)).error() == FakeDevice::kIllegalAddress);
  REQUIRE(m.device.errors().size() == 1);
  REQUIRE(m.device.errors()[0].find("fill writes unmapped 0x") == 0);
}

TEST_CASE("fake device: a mapping without access cannot be touched") {
  FakeDevice device;
  const DevicePtr base = *device.reserve(MiB(2));
  REQUIRE(device.map(base, MiB(2), *device.create(MiB(2))).ok());
  std::uint8_t byte = 0;
  REQUIRE_FALSE(device.peek(base, &byte, Bytes(1)));
}

TEST_CASE("fake device: a pinned buffer is read when the copy runs, not when it is issued") {
  Mapped m;
  const StreamHandle stream = *m.device.create_stream();
  std::vector<std::uint8_t> host(4096, 1);
  REQUIRE(m.device.register_host(host.data(), Bytes(host.size())).ok());
  REQUIRE(m.device.copy_to_device(m.base, host.data(), Bytes(host.size()), stream).ok());
  host[0] = 2;
  m.device.run_all();
  REQUIRE(m.first_byte() == 2);
  REQUIRE(m.device.copied_to_device() == Bytes(4096));
}

TEST_CASE("fake device: host memory that is not registered is refused") {
  Mapped m;
  const StreamHandle stream = *m.device.create_stream();
  std::vector<std::uint8_t> host(16);
  REQUIRE_FALSE(m.device.copy_to_host(host.data(), m.base, Bytes(16), stream).ok());
  REQUIRE(m.device.errors().size() == 1);
}

TEST_CASE("fake device: hashing what is not mapped by then ends the device and writes nothing") {
  Mapped m;
  const StreamHandle stream = m.device.create_program_stream();
  std::vector<std::uint8_t> host(64, 0xEE);
  REQUIRE(m.device.prepare_hash(m.base).ok());
  CHECK(m.device.hash_to_host(host.data(), m.base, MiB(2), 1, stream) ==
        runtime::kInvalidValue);  // not registered
  REQUIRE(m.device.register_host(host.data(), Bytes(host.size())).ok());
  REQUIRE(m.device.hash_to_host(host.data(), m.base, MiB(2), 1, stream).ok());
  REQUIRE(m.device.unmap(m.base, MiB(2)).ok());
  REQUIRE(m.device.synchronize() == FakeDevice::kIllegalAddress);
  REQUIRE(host == std::vector<std::uint8_t>(64, 0xEE));
}

TEST_CASE("fake device: independent streams run in both orders, ordered ones in one") {
  std::set<std::uint8_t> free_results;
  std::set<std::uint8_t> ordered_results;
  for (std::uint64_t seed = 0; seed < 32; ++seed) {
    for (const bool ordered : {false, true}) {
      Mapped m(seed);
      const StreamHandle a = m.device.create_program_stream();
      const StreamHandle b = m.device.create_program_stream();
      const auto event = *m.device.create_event();
      REQUIRE(m.device.submit_fill(a, m.base, Bytes(64), 1).ok());
      if (ordered) {
        REQUIRE(m.device.record(event, a).ok());
        REQUIRE(m.device.wait(b, event).ok());
      }
      REQUIRE(m.device.submit_fill(b, m.base, Bytes(64), 2).ok());
      m.device.run_all();
      (ordered ? ordered_results : free_results).insert(m.first_byte());
    }
  }
  REQUIRE(free_results == std::set<std::uint8_t>{1, 2});
  REQUIRE(ordered_results == std::set<std::uint8_t>{2});
}

TEST_CASE("fake device: the legacy stream is ordered with blocking streams and with no others") {
  const StreamHandle legacy{0};
  std::set<std::uint8_t> blocking_results;
  std::set<std::uint8_t> other_results;
  for (std::uint64_t seed = 0; seed < 32; ++seed) {
    for (const bool blocking : {false, true}) {
      Mapped m(seed);
      const StreamHandle stream = m.device.create_program_stream(blocking);
      REQUIRE(m.device.submit_fill(stream, m.base, Bytes(64), 1).ok());
      REQUIRE(m.device.submit_fill(legacy, m.base, Bytes(64), 2).ok());
      m.device.run_all();
      (blocking ? blocking_results : other_results).insert(m.first_byte());
    }
  }
  REQUIRE(blocking_results == std::set<std::uint8_t>{2});
  REQUIRE(other_results == std::set<std::uint8_t>{1, 2});
}

TEST_CASE("fake device: unmapping where nothing is mapped succeeds, as in a driver, and is noted") {
  Mapped m;
  REQUIRE(m.device.unmap(m.base, MiB(2)).ok());
  REQUIRE(m.device.errors().empty());
  REQUIRE(m.device.unmap(m.base, MiB(2)).ok());
  REQUIRE(m.device.errors().size() == 1);
  REQUIRE(m.device.errors()[0].find("unmap where nothing is mapped: 0x") == 0);
}

TEST_CASE("fake device: a destroyed handle names its memory while that is mapped") {
  Mapped m;
  const auto elsewhere = m.device.reserve(MiB(2));
  REQUIRE(m.device.destroy(m.handle).ok());
  REQUIRE(m.device.map(*elsewhere, MiB(2), m.handle).ok());
  REQUIRE(m.device.unmap(*elsewhere, MiB(2)).ok());
  REQUIRE(m.device.unmap(m.base, MiB(2)).ok());
  REQUIRE_FALSE(m.device.map(m.base, MiB(2), m.handle).ok());
}

TEST_CASE("fake device: memory is charged until neither handle nor mapping holds it") {
  Mapped m;
  REQUIRE(m.device.in_use() == MiB(2));
  REQUIRE(m.device.destroy(m.handle).ok());
  REQUIRE(m.device.in_use() == MiB(2));
  REQUIRE(m.device.unmap(m.base, MiB(2)).ok());
  REQUIRE(m.device.in_use() == Bytes(0));
  REQUIRE(m.device.peak() == MiB(2));
}

TEST_CASE("fake device: a call that a fault plan names fails, once") {
  FakeDevice device;
  REQUIRE(device.faults().add_text("create after=2 return=2\n").empty());
  REQUIRE(device.create(MiB(2)).ok());
  REQUIRE(device.create(MiB(2)).ok());
  const auto refused = device.create(MiB(2));
  REQUIRE_FALSE(refused.ok());
  REQUIRE(refused.error() == runtime::kOutOfMemory);
  REQUIRE(device.create(MiB(2)).ok());
  REQUIRE(device.calls("create") == 4);
  REQUIRE(device.faults().injected() == 1);
  REQUIRE(device.in_use() == MiB(6));
}

}  // namespace tidepool::fakes
