// What allocator/device.h promises, judged on every implementation of it. The rules are those of the CUDA
// Driver API, sections "Virtual Memory Management", "Stream Management", "Event Management" and
// "Memory Management" (cuMemHostRegister), as far as drivers keep them: what a driver tolerates although the
// documentation forbids it is not judged.

#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "tests/contract/device_fixture.h"

namespace tidepool::contract {

TEST_CASE("device: the granularity is a power of two and divides the memory's size") {
  Fixture f;
  REQUIRE(f.unit.count() > 0);
  REQUIRE((f.unit.count() & (f.unit.count() - 1)) == 0);
  REQUIRE(f.device.total_memory() >= MiB(64));
}

TEST_CASE("device: reservations are aligned, apart from each other and given back whole") {
  Fixture f;
  const DevicePtr a = f.reserve(f.unit * 4);
  const DevicePtr b = f.reserve(f.unit * 4);
  REQUIRE(Bytes(a.address()).is_multiple_of(f.unit));
  REQUIRE((a + f.unit * 4 <= b || b + f.unit * 4 <= a));
  CHECK_FALSE(f.device.release_addresses(a, f.unit).ok());
  REQUIRE(f.device.release_addresses(a, f.unit * 4).ok());
  REQUIRE(f.device.release_addresses(b, f.unit * 4).ok());
}

TEST_CASE("device: sizes that are not multiples of the granularity are refused") {
  Fixture f;
  const Bytes odd = f.unit + KiB(4);
  // cuMemAddressReserve wants a multiple of the host's page only.
  CHECK_FALSE(f.device.reserve(f.unit + Bytes(1)).ok());
  CHECK_FALSE(f.device.create(odd).ok());
  CHECK_FALSE(f.device.create(Bytes(0)).ok());
}

TEST_CASE("device: more than the whole memory is out of memory, and takes nothing") {
  Fixture f;
  const auto refused = f.device.create((f.device.total_memory() * 2).round_up(f.unit));
  REQUIRE_FALSE(refused.ok());
  REQUIRE(refused.error() == runtime::kOutOfMemory);
  const PhysicalHandle handle = f.create(f.unit);
  REQUIRE(f.device.destroy(handle).ok());
}

TEST_CASE("device: a mapping covers a whole handle, where nothing is mapped") {
  Fixture f;
  const DevicePtr base = f.reserve(f.unit * 4);
  const PhysicalHandle two = f.create(f.unit * 2);
  const PhysicalHandle one = f.create(f.unit);

  CHECK_FALSE(f.device.map(base, f.unit, two).ok());               // part of a handle
  CHECK_FALSE(f.device.map(base + KiB(4), f.unit * 2, two).ok());  // not aligned
  REQUIRE(f.device.map(base + f.unit, f.unit * 2, two).ok());
  CHECK_FALSE(f.device.map(base + f.unit * 2, f.unit, one).ok());  // onto a mapping
  REQUIRE(f.device.map(base, f.unit, one).ok());

  REQUIRE(f.device.unmap(base, f.unit * 3).ok());
  REQUIRE(f.device.destroy(one).ok());
  REQUIRE(f.device.destroy(two).ok());
  REQUIRE(f.device.release_addresses(base, f.unit * 4).ok());
}

TEST_CASE("device: an unmap takes whole mappings only") {
  Fixture f;
  const DevicePtr base = f.reserve(f.unit * 4);
  const PhysicalHandle two = f.create(f.unit * 2);
  const PhysicalHandle one = f.create(f.unit);
  REQUIRE(f.device.map(base, f.unit * 2, two).ok());
  REQUIRE(f.device.map(base + f.unit * 2, f.unit, one).ok());

  CHECK_FALSE(f.device.unmap(base, f.unit).ok());
  CHECK_FALSE(f.device.unmap(base + f.unit, f.unit).ok());
  REQUIRE(f.device.unmap(base, f.unit * 3).ok());  // several whole ones

  REQUIRE(f.device.destroy(one).ok());
  REQUIRE(f.device.destroy(two).ok());
  REQUIRE(f.device.release_addresses(base, f.unit * 4).ok());
}

TEST_CASE("device: access can be set only up to where memory is mapped, over several mappings at once") {
  Fixture f;
  const DevicePtr base = f.reserve(f.unit * 3);
  const PhysicalHandle a = f.create(f.unit);
  const PhysicalHandle b = f.create(f.unit);
  REQUIRE(f.device.map(base, f.unit, a).ok());
  CHECK_FALSE(f.device.set_access(base, f.unit * 2).ok());
  REQUIRE(f.device.map(base + f.unit, f.unit, b).ok());
  REQUIRE(f.device.set_access(base, f.unit * 2).ok());

  REQUIRE(f.device.unmap(base, f.unit * 2).ok());
  REQUIRE(f.device.destroy(a).ok());
  REQUIRE(f.device.destroy(b).ok());
}

TEST_CASE("device: bytes come back as they were written") {
  Fixture f;
  const Bytes size = f.unit * 2;
  const DevicePtr base = f.reserve(size);
  const PhysicalHandle handle = f.back(base, size);
  const StreamHandle stream = f.stream();
  RegisteredHost out(f.device, size);
  RegisteredHost in(f.device, size);
  for (std::size_t i = 0; i < size.count(); ++i) out.data()[i] = static_cast<std::uint8_t>(i * 131 >> 3);

  f.put(base, out.data(), size, stream);
  f.get(in.data(), base, size, stream);
  REQUIRE(f.device.synchronize().ok());
  REQUIRE(std::memcmp(out.data(), in.data(), size.count()) == 0);

  REQUIRE(f.device.unmap(base, size).ok());
  REQUIRE(f.device.destroy(handle).ok());
}

TEST_CASE("device: memory moves with its handle to another address") {
  Fixture f;
  const DevicePtr base = f.reserve(f.unit * 2);
  const PhysicalHandle handle = f.back(base, f.unit);
  const StreamHandle stream = f.stream();
  RegisteredHost host(f.device, f.unit * 2);
  std::memset(host.data(), 0x5C, f.unit.count());

  f.put(base, host.data(), f.unit, stream);
  REQUIRE(f.device.synchronize().ok());
  REQUIRE(f.device.unmap(base, f.unit).ok());
  REQUIRE(f.device.map(base + f.unit, f.unit, handle).ok());
  REQUIRE(f.device.set_access(base + f.unit, f.unit).ok());
  f.get(host.data() + f.unit.count(), base + f.unit, f.unit, stream);
  REQUIRE(f.device.synchronize().ok());
  REQUIRE(std::memcmp(host.data(), host.data() + f.unit.count(), f.unit.count()) == 0);

  REQUIRE(f.device.unmap(base + f.unit, f.unit).ok());
  REQUIRE(f.device.destroy(handle).ok());
}

TEST_CASE("device: a handle mapped twice is the same memory at both addresses") {
  Fixture f;
  const DevicePtr base = f.reserve(f.unit * 2);
  const PhysicalHandle handle = f.back(base, f.unit);
  REQUIRE(f.device.map(base + f.unit, f.unit, handle).ok());
  REQUIRE(f.device.set_access(base + f.unit, f.unit).ok());
  const StreamHandle stream = f.stream();
  RegisteredHost host(f.device, f.unit * 2);
  std::memset(host.data(), 0x3D, f.unit.count());

  f.put(base, host.data(), f.unit, stream);
  f.get(host.data() + f.unit.count(), base + f.unit, f.unit, stream);
  REQUIRE(f.device.synchronize().ok());
  REQUIRE(host.data()[f.unit.count()] == 0x3D);
  REQUIRE(host.data()[f.unit.count() * 2 - 1] == 0x3D);

  REQUIRE(f.device.unmap(base, f.unit * 2).ok());
  REQUIRE(f.device.destroy(handle).ok());
}

TEST_CASE("device: a destroyed handle keeps its memory until the last mapping is gone") {
  Fixture f;
  const DevicePtr base = f.reserve(f.unit);
  const PhysicalHandle handle = f.back(base, f.unit);
  REQUIRE(f.device.destroy(handle).ok());
  const StreamHandle stream = f.stream();
  RegisteredHost host(f.device, f.unit * 2);
  std::memset(host.data(), 0x77, f.unit.count());
  f.put(base, host.data(), f.unit, stream);
  f.get(host.data() + f.unit.count(), base, f.unit, stream);
  REQUIRE(f.device.synchronize().ok());
  REQUIRE(host.data()[f.unit.count()] == 0x77);
  REQUIRE(f.device.unmap(base, f.unit).ok());
}

TEST_CASE("device: memory given back can be created again, as often as one likes") {
  Fixture f;
  const DevicePtr base = f.reserve(f.unit);
  const Bytes whole = Bytes(f.device.total_memory().count() / 2 / f.unit.count() * f.unit.count());
  for (int round = 0; round < 8; ++round) {
    const PhysicalHandle big = f.create(whole);
    REQUIRE(f.device.destroy(big).ok());
    const PhysicalHandle small = f.back(base, f.unit);
    REQUIRE(f.device.unmap(base, f.unit).ok());
    REQUIRE(f.device.destroy(small).ok());
  }
}

TEST_CASE("device: an event completes after the work that was recorded before it") {
  Fixture f;
  const DevicePtr base = f.reserve(f.unit);
  const PhysicalHandle handle = f.back(base, f.unit);
  const StreamHandle stream = f.stream();
  const EventHandle event = f.event();
  RegisteredHost host(f.device, f.unit * 2);
  std::memset(host.data(), 0x11, f.unit.count());
  REQUIRE(f.device.query(event).ok());  // never recorded: complete

  f.put(base, host.data(), f.unit, stream);
  f.get(host.data() + f.unit.count(), base, f.unit, stream);
  REQUIRE(f.device.record(event, stream).ok());
  runtime::Status status = kNotReady;
  while (status == kNotReady) status = f.device.query(event);  // polling alone gets there
  REQUIRE(status.ok());
  REQUIRE(host.data()[f.unit.count()] == 0x11);

  REQUIRE(f.device.destroy_event(event).ok());
  REQUIRE(f.device.synchronize().ok());
  REQUIRE(f.device.unmap(base, f.unit).ok());
  REQUIRE(f.device.destroy(handle).ok());
}

TEST_CASE("device: a stream that waits for an event sees what was done before it") {
  Fixture f;
  const DevicePtr base = f.reserve(f.unit);
  const PhysicalHandle handle = f.back(base, f.unit);
  const StreamHandle in = f.stream();
  const StreamHandle out = f.stream();
  RegisteredHost host(f.device, f.unit * 2);

  for (std::uint8_t round = 1; round <= 16; ++round) {
    const EventHandle written = f.event();
    const EventHandle read = f.event();
    std::memset(host.data(), round, f.unit.count());
    f.put(base, host.data(), f.unit, in);
    REQUIRE(f.device.record(written, in).ok());
    REQUIRE(f.device.wait(out, written).ok());
    // A wait holds what was recorded when it was issued, even if the event goes away.
    REQUIRE(f.device.destroy_event(written).ok());
    f.get(host.data() + f.unit.count(), base, f.unit, out);
    REQUIRE(f.device.record(read, out).ok());
    runtime::Status status = kNotReady;
    while (status == kNotReady) status = f.device.query(read);
    REQUIRE(status.ok());
    REQUIRE(host.data()[f.unit.count()] == round);
    REQUIRE(host.data()[f.unit.count() * 2 - 1] == round);
    REQUIRE(f.device.destroy_event(read).ok());
  }
  REQUIRE(f.device.synchronize().ok());
  REQUIRE(f.device.unmap(base, f.unit).ok());
  REQUIRE(f.device.destroy(handle).ok());
}

TEST_CASE("device: copies may start and end anywhere, also across mappings") {
  Fixture f;
  const DevicePtr base = f.reserve(f.unit * 2);
  const PhysicalHandle a = f.back(base, f.unit);
  const PhysicalHandle b = f.back(base + f.unit, f.unit);
  const StreamHandle stream = f.stream();
  RegisteredHost host(f.device, KiB(64));
  for (std::size_t i = 0; i < 1000; ++i) host.data()[i] = static_cast<std::uint8_t>(i);
  const DevicePtr across(base.address() + f.unit.count() - 333);

  f.put(across, host.data(), Bytes(1000), stream);
  f.get(host.data() + 4001, across, Bytes(1000), stream);
  REQUIRE(f.device.synchronize().ok());
  REQUIRE(std::memcmp(host.data(), host.data() + 4001, 1000) == 0);

  REQUIRE(f.device.unmap(base, f.unit * 2).ok());
  REQUIRE(f.device.destroy(a).ok());
  REQUIRE(f.device.destroy(b).ok());
}

TEST_CASE("device: host memory is registered once and unregistered once") {
  Fixture f;
  std::vector<std::uint8_t> bytes(MiB(1).count());
  REQUIRE(f.device.register_host(bytes.data(), Bytes(bytes.size())).ok());
  CHECK_FALSE(f.device.register_host(bytes.data(), Bytes(bytes.size())).ok());
  REQUIRE(f.device.unregister_host(bytes.data()).ok());
  CHECK_FALSE(f.device.unregister_host(bytes.data()).ok());
}

TEST_CASE("device: copying where nothing is mapped ends in an error, not in bytes") {
  Fixture f;
  const DevicePtr base = f.reserve(f.unit);
  const StreamHandle stream = f.stream();
  std::vector<std::uint8_t> host(f.unit.count());
  REQUIRE(f.device.register_host(host.data(), f.unit).ok());
  const runtime::Status at_call = f.device.copy_to_host(host.data(), base, f.unit, stream);
  const runtime::Status later = f.device.synchronize();
  REQUIRE_FALSE((at_call.ok() && later.ok()));
}

}  // namespace tidepool::contract
