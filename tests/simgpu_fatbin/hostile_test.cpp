#include <sys/mman.h>
#include <zstd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "tests/simgpu_fatbin/sample_files.h"
#include "tools/simgpu/fatbin/format.h"
#include "tools/simgpu/fatbin/image.h"
#include "tools/simgpu/fatbin/inflate.h"
#include "tools/simgpu/fatbin/memory.h"

/// Images that lie. Each must end in an error, or in facts about a damaged module; the sanitizer builds judge
/// the reads. tests/fuzz looks further.
namespace simgpu::fatbin::test {
namespace {

/// Reads everything there is to read.
Problem read_all(Bytes image) {
  std::vector<Entry> entries;
  Problem problem = list_entries(image, &entries);
  for (const Entry& entry : entries) {
    ModuleFacts facts;
    const Problem of_entry = read_entry_facts(entry, &facts);
    if (problem == Problem::kNone) problem = of_entry;
  }
  return problem;
}

/// Two pages, the second of which cannot be read.
class Fence {
 public:
  Fence()
      : memory_(static_cast<std::byte*>(
            ::mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    ::mprotect(memory_ + kPage, kPage, PROT_NONE);
  }
  ~Fence() { ::munmap(memory_, 2 * kPage); }
  Fence(const Fence&) = delete;
  Fence& operator=(const Fence&) = delete;

  /// Puts bytes right before the fence.
  const void* put(const void* bytes, std::size_t size) {
    std::memcpy(memory_ + kPage - size, bytes, size);
    return memory_ + kPage - size;
  }

 private:
  static constexpr std::size_t kPage = 4096;
  std::byte* memory_;
};

Problem extent_of(const void* image) {
  Bytes bytes;
  return find_extent(image, &bytes);
}

}  // namespace

TEST_CASE("fatbin: an image that ends early is an error, wherever it ends") {
  for (const char* name : {"plain.cubin", "compress_size.fatbin"}) {
    INFO(name);
    const File whole(name);
    const std::size_t size = whole.bytes().size();
    for (std::size_t length = 0; length < size; length += 1 + length / 37) {
      const File part(Bytes(whole.bytes().data(), length));
      INFO(length);
      REQUIRE(read_all(part.bytes()) != Problem::kNone);
    }
  }
}

TEST_CASE("fatbin: damaged images never do more than fail") {
  std::mt19937 random(7);
  for (const char* name : {"plain.cubin", "compress_size.fatbin", "plain.ptx"}) {
    const File whole(name);
    File damaged(whole.bytes());
    for (int round = 0; round < 400; ++round) {
      std::memcpy(damaged.memory().data(), whole.bytes().data(), whole.bytes().size());
      for (unsigned flips = 1 + random() % 8; flips > 0; --flips) {
        damaged.memory()[random() % damaged.memory().size()] = static_cast<std::byte>(random());
      }
      static_cast<void>(read_all(damaged.bytes()));
    }
  }
}

TEST_CASE("fatbin: pointers that lead nowhere are found out") {
  CHECK(extent_of(nullptr) == Problem::kUnreadable);
  CHECK(extent_of(reinterpret_cast<const void*>(std::uintptr_t{1})) == Problem::kUnreadable);
  CHECK(extent_of(reinterpret_cast<const void*>(~std::uintptr_t{0} - 1)) == Problem::kUnreadable);
  const Wrapper nowhere{kWrapperMagic, 1, reinterpret_cast<const void*>(std::uintptr_t{64}), nullptr};
  CHECK(extent_of(&nowhere) == Problem::kUnreadable);
  const Wrapper itself{kWrapperMagic, 1, &itself, nullptr};
  CHECK(extent_of(&itself) == Problem::kNotAnImage);
}

TEST_CASE("fatbin: sizes that lead out of readable memory are found out") {
  Fence fence;
  ContainerHeader header{kContainerMagic, 1, sizeof header, 64};
  CHECK(extent_of(fence.put(&header, sizeof header)) == Problem::kUnreadable);
  header.size = 0;
  CHECK(extent_of(fence.put(&header, sizeof header)) == Problem::kNone);
  header.size = ~std::uint64_t{0};
  CHECK(extent_of(fence.put(&header, sizeof header)) == Problem::kTooLarge);
  CHECK(extent_of(fence.put(".version 9.0", 12)) == Problem::kUnreadable);
  CHECK(extent_of(fence.put(".version 9.0", 13)) == Problem::kNone);

  const File cubin("plain.cubin");
  CHECK(extent_of(fence.put(cubin.bytes().data(), 64)) == Problem::kUnreadable);
  CHECK(extent_of(fence.put(cubin.bytes().data(), 16)) == Problem::kUnreadable);
}

TEST_CASE("fatbin: an image without length ends where its headers say") {
  for (const char* name : {"plain.cubin", "specific.cubin", "all.fatbin"}) {
    INFO(name);
    const File file(name);
    Bytes bytes;
    REQUIRE(find_extent(file.bytes().data(), &bytes) == Problem::kNone);
    CHECK(bytes.size() == file.bytes().size());
    const Wrapper wrapper{kWrapperMagic, 2, file.bytes().data(), nullptr};
    const bool container = std::string(name) == "all.fatbin";
    CHECK(extent_of(&wrapper) == (container ? Problem::kNone : Problem::kNotAnImage));
  }
}

TEST_CASE("fatbin: entries that claim too much, or not what they hold, are errors") {
  const std::string text(1000, 'x');
  std::vector<std::byte> packed(ZSTD_compressBound(text.size()));
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  const Bytes payload(packed.data(), packed.size());
  const auto read = [&](std::uint64_t flags, std::uint64_t claimed) {
    const File file(container_of(payload, 80, flags, claimed, 64));
    Inflated inflated;
    return inflate(entries_of(file)[0], &inflated);
  };
  CHECK(read(kFlagZstd, 1000) == Problem::kNone);
  CHECK(read(kFlagZstd, 999) == Problem::kCorrupt);
  CHECK(read(kFlagZstd, 1001) == Problem::kCorrupt);
  CHECK(read(kFlagZstd, kLargestInflated) == Problem::kCorrupt);
  CHECK(read(kFlagZstd, kLargestInflated + 1) == Problem::kTooLarge);
  CHECK(read(kFlagZstd, ~std::uint64_t{0}) == Problem::kTooLarge);
  CHECK(read(kFlagLz4, 1000) == Problem::kCorrupt);
  CHECK(read(kFlagLz4, ~std::uint64_t{0}) == Problem::kTooLarge);
}

TEST_CASE("fatbin: an entry whose header or payload does not fit is an error") {
  const File cubin("plain.cubin");
  const std::vector<std::byte> sound = container_of(cubin.bytes(), 80, 0x11, 0, 64);
  REQUIRE(read_all(File(sound).bytes()) == Problem::kNone);
  const auto with = [&](auto member, auto value) {
    std::vector<std::byte> bytes = sound;
    EntryHeader header;
    std::memcpy(&header, bytes.data() + sizeof(ContainerHeader), sizeof header);
    header.*member = value;
    std::memcpy(bytes.data() + sizeof(ContainerHeader), &header, sizeof header);
    return read_all(File(bytes).bytes());
  };
  CHECK(with(&EntryHeader::header_size, 63) == Problem::kCorrupt);
  CHECK(with(&EntryHeader::header_size, 0) == Problem::kCorrupt);
  CHECK(with(&EntryHeader::header_size, ~0U) == Problem::kTruncated);
  CHECK(with(&EntryHeader::padded_size, ~std::uint64_t{0}) == Problem::kTruncated);
  CHECK(with(&EntryHeader::padded_size, std::uint64_t{0}) != Problem::kNone);
  CHECK(with(&EntryHeader::arch, ~0U) == Problem::kCorrupt);
  CHECK(with(&EntryHeader::flags, std::uint64_t{0x11 | kFlagZstd}) != Problem::kNone);
}

TEST_CASE("fatbin: anything else is not an image") {
  CHECK(read_all(Bytes()) == Problem::kNotAnImage);
  CHECK(read_all(Bytes("hello, world", 12)) == Problem::kNotAnImage);
  CHECK(read_all(Bytes(".version 9.0", 12)) == Problem::kNotAnImage);
  std::vector<std::byte> host(64, std::byte{0});
  std::memcpy(host.data(), "\177ELF\2\1\1", 7);
  CHECK(read_all(Bytes(host.data(), host.size())) == Problem::kNotAnImage);
}

TEST_CASE("fatbin: every problem has its words") {
  CHECK(std::string(describe(Problem::kNone)) != describe(Problem::kCorrupt));
  CHECK(std::string(describe(static_cast<Problem>(99))) == "unknown");
}

}  // namespace simgpu::fatbin::test
