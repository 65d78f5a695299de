// What allocator/device.h promises of content hashes, judged on every implementation of it.

#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "allocator/support/content_hash_kernel.h"
#include "tests/contract/device_fixture.h"

namespace tidepool::contract {

TEST_CASE("device: hashes are not to be had before they are prepared, nor of nothing") {
  Fixture f;
  const DevicePtr base = f.reserve(f.unit);
  const PhysicalHandle handle = f.back(base, f.unit);
  const StreamHandle stream = f.stream();
  RegisteredHost host(f.device, KiB(4));
  CHECK(f.device.hash_to_host(host.data(), base, f.unit, 1, stream) == runtime::kNotSupported);
  REQUIRE(f.prepare_hash().ok());
  REQUIRE(f.prepare_hash().ok());
  CHECK(f.device.hash_to_host(host.data(), base, Bytes(0), 1, stream) == runtime::kInvalidValue);
  REQUIRE(f.device.synchronize().ok());
  REQUIRE(f.device.unmap(base, f.unit).ok());
  REQUIRE(f.device.destroy(handle).ok());
}

TEST_CASE("device: a hash is that of the bytes, at every size and address and across mappings") {
  Fixture f;
  const DevicePtr base = f.reserve(f.unit * 2);
  const PhysicalHandle a = f.back(base, f.unit);
  const PhysicalHandle b = f.back(base + f.unit, f.unit);
  const StreamHandle stream = f.stream();
  const std::size_t all = f.unit.count() * 2;
  RegisteredHost bytes(f.device, f.unit * 2);
  RegisteredHost hashes(f.device, KiB(4));
  for (std::size_t i = 0; i < all; ++i) bytes.data()[i] = static_cast<std::uint8_t>(i * 197 >> 5);
  f.put(base, bytes.data(), f.unit * 2, stream);
  REQUIRE(f.prepare_hash().ok());

  struct Piece {
    std::size_t at, size;
  };
  const std::vector<Piece> pieces = {{0, all},   {0, 1},      {0, 7},       {0, 8},           {0, 16},
                                     {0, 17},    {0, 65'536}, {0, all - 8}, {0, all - 1},     {all - 1, 1},
                                     {8, 4'096}, {16, 4'099}, {5, 70'001},  {all / 2 - 3, 6}, {3, all - 5}};
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto& [at, size] = pieces[i];
    REQUIRE(
        f.device
            .hash_to_host(hashes.data() + i * sizeof(ContentHash), base + Bytes(at), Bytes(size), 1, stream)
            .ok());
  }
  REQUIRE(f.device.synchronize().ok());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto& [at, size] = pieces[i];
    INFO(size << " bytes at " << at);
    ContentHash got{};
    std::memcpy(&got, hashes.data() + i * sizeof got, sizeof got);
    CHECK(got == content_hash(bytes.data() + at, size));
  }
  // Nothing behind the last.
  CHECK(hashes.data()[pieces.size() * sizeof(ContentHash)] == 0);

  REQUIRE(f.device.unmap(base, f.unit * 2).ok());
  REQUIRE(f.device.destroy(a).ok());
  REQUIRE(f.device.destroy(b).ok());
}

TEST_CASE("device: a hash is taken when its stream gets there, and one changed byte shows") {
  Fixture f;
  const DevicePtr base = f.reserve(f.unit);
  const PhysicalHandle handle = f.back(base, f.unit);
  const StreamHandle stream = f.stream();
  RegisteredHost before(f.device, f.unit);
  RegisteredHost after(f.device, f.unit);
  RegisteredHost hashes(f.device, KiB(4));
  std::memset(before.data(), 0x21, f.unit.count());
  std::memset(after.data(), 0x21, f.unit.count());
  after.data()[f.unit.count() - 1] = 0x22;
  REQUIRE(f.prepare_hash().ok());

  const auto hash = [&](std::size_t i) {
    REQUIRE(f.device.hash_to_host(hashes.data() + i * sizeof(ContentHash), base, f.unit, 1, stream).ok());
  };
  f.put(base, before.data(), f.unit, stream);
  hash(0);
  f.put(base, after.data(), f.unit, stream);
  hash(1);
  f.put(base, before.data(), f.unit, stream);
  hash(2);
  REQUIRE(f.device.synchronize().ok());
  ContentHash got[3];
  std::memcpy(got, hashes.data(), sizeof got);
  CHECK(got[0] == content_hash(before.data(), f.unit.count()));
  CHECK(got[1] == content_hash(after.data(), f.unit.count()));
  CHECK(got[2] == got[0]);
  CHECK(got[1] != got[0]);

  REQUIRE(f.device.unmap(base, f.unit).ok());
  REQUIRE(f.device.destroy(handle).ok());
}

TEST_CASE("device: an event recorded behind a hash tells that it is there") {
  Fixture f;
  const DevicePtr base = f.reserve(f.unit);
  const PhysicalHandle handle = f.back(base, f.unit);
  const StreamHandle stream = f.stream();
  const EventHandle event = f.event();
  RegisteredHost bytes(f.device, f.unit);
  RegisteredHost hash(f.device, KiB(4));
  std::memset(bytes.data(), 0x7E, f.unit.count());
  REQUIRE(f.prepare_hash().ok());
  f.put(base, bytes.data(), f.unit, stream);
  REQUIRE(f.device.hash_to_host(hash.data(), base, f.unit, 1, stream).ok());
  REQUIRE(f.device.record(event, stream).ok());
  runtime::Status status = kNotReady;
  while (status == kNotReady) status = f.device.query(event);
  REQUIRE(status.ok());
  ContentHash got{};
  std::memcpy(&got, hash.data(), sizeof got);
  CHECK(got == content_hash(bytes.data(), f.unit.count()));

  REQUIRE(f.device.destroy_event(event).ok());
  REQUIRE(f.device.unmap(base, f.unit).ok());
  REQUIRE(f.device.destroy(handle).ok());
}

TEST_CASE("device: many hashes in several streams do not disturb each other") {
  Fixture f;
  constexpr std::size_t kPieces = 300;  // more than any implementation has room for at one time
  constexpr std::size_t kSize = 4'096 + 24;
  const DevicePtr base = f.reserve(f.unit);
  const PhysicalHandle handle = f.back(base, f.unit);
  const std::vector<StreamHandle> streams = {f.stream(), f.stream(), f.stream()};
  RegisteredHost bytes(f.device, f.unit);
  RegisteredHost hashes(f.device, Bytes(kPieces * sizeof(ContentHash)));
  for (std::size_t i = 0; i < f.unit.count(); ++i) bytes.data()[i] = static_cast<std::uint8_t>(i * i >> 9);
  REQUIRE(f.prepare_hash().ok());
  f.put(base, bytes.data(), f.unit, streams[0]);
  REQUIRE(f.device.synchronize().ok());
  for (std::size_t i = 0; i < kPieces; ++i) {
    REQUIRE(f.device
                .hash_to_host(hashes.data() + i * sizeof(ContentHash), base + Bytes(i * 16), Bytes(kSize), 1,
                              streams[i * 7 % streams.size()])
                .ok());
  }
  REQUIRE(f.device.synchronize().ok());
  for (std::size_t i = 0; i < kPieces; ++i) {
    ContentHash got{};
    std::memcpy(&got, hashes.data() + i * sizeof got, sizeof got);
    REQUIRE(got == content_hash(bytes.data() + i * 16, kSize));
  }
  REQUIRE(f.device.unmap(base, f.unit).ok());
  REQUIRE(f.device.destroy(handle).ok());
}

TEST_CASE("device: a hash that was given up before it began reads nothing, and later ones do") {
  Fixture f;
  const DevicePtr base = f.reserve(f.unit * 2);  // the second half is mapped nowhere
  const PhysicalHandle handle = f.back(base, f.unit);
  const StreamHandle stream = f.stream();
  RegisteredHost bytes(f.device, f.unit);
  RegisteredHost hashes(f.device, KiB(4));
  std::memset(bytes.data(), 0x5C, f.unit.count());
  REQUIRE(f.prepare_hash().ok());
  f.put(base, bytes.data(), f.unit, stream);
  const DevicePtr control = f.hash_memory;
  const unsigned long long void_up_to = 7;
  std::memcpy(hashes.data() + KiB(2).count(), &void_up_to, sizeof void_up_to);
  f.put(control + Bytes(offsetof(HashControl, void_up_to)), hashes.data() + KiB(2).count(),
        Bytes(sizeof void_up_to), stream);
  const auto hash = [&](std::size_t place, DevicePtr at, std::uint64_t number) {
    return f.device.hash_to_host(hashes.data() + place * sizeof(ContentHash), at, f.unit, number, stream);
  };
  REQUIRE(hash(0, base + f.unit, 6).ok());
  REQUIRE(hash(0, base + f.unit, 7).ok());
  REQUIRE(hash(1, base, 8).ok());
  unsigned long long counts[2] = {1, 0};
  f.get(hashes.data() + KiB(1).count(), control + Bytes(offsetof(HashControl, entered)), Bytes(sizeof counts),
        stream);
  REQUIRE(f.device.synchronize().ok());
  ContentHash got{};
  std::memcpy(&got, hashes.data() + sizeof got, sizeof got);
  CHECK(got == content_hash(bytes.data(), f.unit.count()));
  std::memcpy(counts, hashes.data() + KiB(1).count(), sizeof counts);
  CHECK(counts[0] == counts[1]);
  REQUIRE(f.device.unmap(base, f.unit).ok());
  REQUIRE(f.device.destroy(handle).ok());
}

}  // namespace tidepool::contract
