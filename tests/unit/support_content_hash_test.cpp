#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "allocator/support/content_hash.h"
#include "allocator/support/content_hash_kernel.h"

namespace tidepool {
namespace {

using Words = std::vector<std::uint64_t>;

struct Index {
  unsigned x, y, z;
};

/// One block of the kernel: its threads in the order 0, 1, 2, … in each phase, or one loop for all of them.
class Block {
 public:
  Block(bool loop, unsigned blocks, unsigned threads) : loop_(loop), blocks_(blocks), threads_(threads) {}
  void start(unsigned x) {
    x_ = x;
    shared_.assign(shared_.size(), 0);
  }

  [[nodiscard]] Index block() const { return {x_, 0, 0}; }
  [[nodiscard]] Index grid_dim() const { return {blocks_, 1, 1}; }
  [[nodiscard]] unsigned block_threads() const { return threads_; }
  [[nodiscard]] std::uint64_t global_x(unsigned tid) const { return std::uint64_t{x_} * threads_ + tid; }
  [[nodiscard]] bool on_host() const { return loop_; }
  void reads(const void*, std::uint64_t size) { declared_ += size; }
  void writes(const void*, std::uint64_t) {}
  template <class F>
  void phase(F&& f) {
    for (unsigned tid = 0; tid < threads_; ++tid) f(tid);
  }
  template <class T>
  T* block_array(std::size_t count) {
    REQUIRE(count * sizeof(T) <= shared_.size() * sizeof shared_[0]);
    return reinterpret_cast<T*>(shared_.data());
  }
  template <class T>
  T atomic_add(T* at, T value) {
    return std::exchange(*at, *at + value);
  }
  [[nodiscard]] std::uint64_t declared() const { return declared_; }

 private:
  bool loop_;
  unsigned blocks_;
  unsigned threads_;
  unsigned x_ = 0;
  std::vector<unsigned long long> shared_ =
      std::vector<unsigned long long>(2 * std::size_t{HashContent::kThreads} + 1);
  std::uint64_t declared_ = 0;
};

/// What the kernel's body makes of the bytes. The blocks come in an order drawn from the seed.
ContentHash by_kernel(bool loop, const unsigned char* from, std::size_t size, unsigned blocks,
                      HashControl* control = nullptr, unsigned long long number = 0) {
  HashSlot slot{};
  slot.hash = {{1, 2}};
  std::vector<unsigned> order(blocks);
  for (unsigned i = 0; i < blocks; ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), std::mt19937_64(size + blocks));
  Block block(loop, blocks, HashContent::kThreads);
  for (const unsigned x : order) {
    block.start(x);
    HashContent::run(block, from, size, &slot, control, number);
  }
  REQUIRE(block.declared() == size);
  REQUIRE(slot.sums[0] == 0);
  REQUIRE(slot.sums[1] == 0);
  REQUIRE(slot.arrived == 0);
  return slot.hash;
}

/// Exactly `size` bytes at an offset from a multiple of 16, so that a sanitizer sees a touch beyond the end.
class Bytes16 {
 public:
  Bytes16(std::size_t size, std::size_t offset, std::uint64_t seed) : offset_(offset) {
    base_.reset(static_cast<unsigned char*>(std::aligned_alloc(16, (size + offset + 15) / 16 * 16)));
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; i < size; ++i) data()[i] = static_cast<unsigned char>(random());
  }
  [[nodiscard]] unsigned char* data() const { return base_.get() + offset_; }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<unsigned char, Free> base_;
  std::size_t offset_;
};

ContentHash hash_of(const Words& words) {
  return content_hash(words.data(), words.size() * sizeof words[0]);
}

/// Collects hashes that must all differ, in each lane alone.
class Distinct {
 public:
  void add(const ContentHash& hash) {
    first_.insert(hash.lanes[0]);
    second_.insert(hash.lanes[1]);
    ++count_;
  }
  [[nodiscard]] bool all() const { return first_.size() == count_ && second_.size() == count_; }
  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  std::set<std::uint64_t> first_, second_;
  std::size_t count_ = 0;
};

}  // namespace

TEST_CASE("content hash: the kernel gives what the definition says, at every length, address and grid") {
  for (const std::size_t size : {1, 7, 8, 9, 15, 16, 17, 24, 31, 511, 4095, 4096, 4104, 16'384, 98'765}) {
    for (const std::size_t offset : {0, 1, 4, 8, 13}) {
      const Bytes16 bytes(size, offset, size);
      const ContentHash want = content_hash(bytes.data(), size);
      for (const unsigned blocks : {1U, 3U, 8U, 40U}) {
        INFO(size << " bytes, offset " << offset << ", " << blocks << " blocks");
        REQUIRE(by_kernel(false, bytes.data(), size, blocks) == want);
        REQUIRE(by_kernel(true, bytes.data(), size, blocks) == want);
      }
    }
  }
}

TEST_CASE("content hash: hashes that were given up read nothing, those after them do") {
  const Bytes16 bytes(4104, 0, 1);
  const ContentHash want = content_hash(bytes.data(), 4104);
  for (const bool loop : {false, true}) {
    HashControl control{};
    control.void_up_to = 5;
    CHECK(by_kernel(loop, bytes.data(), 4104, 3, &control, 6) == want);
    CHECK(control.entered == 3);
    CHECK(control.left == 3);
  }
  // At no address at all: a read would end the test.
  for (const unsigned long long number : {4ULL, 5ULL}) {
    HashControl control{};
    control.void_up_to = 5;
    (void)by_kernel(false, nullptr, 4104, 3, &control, number);
    CHECK(control.entered == 3);
    CHECK(control.left == 3);
  }
}

TEST_CASE("content hash: it is the one that was written down") {
  // Computed from the definition in content_hash.h by another program, in Python's integers.
  std::array<unsigned char, 20> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i + 1);
  const ContentHash hash = content_hash(bytes.data(), bytes.size());
  CHECK(hash.lanes[0] == 0x53506312c49993b2u);
  CHECK(hash.lanes[1] == 0x6317c02526c127e2u);
}

TEST_CASE("content hash: every bit, place and length counts in both lanes") {
  Words words(64, 0);
  Distinct hashes;
  hashes.add(hash_of(words));
  for (std::uint64_t& word : words) {
    for (unsigned bit = 0; bit < 64; ++bit) {
      word = std::uint64_t{1} << bit;
      hashes.add(hash_of(words));
    }
    word = 0;
  }
  for (std::size_t size = 0; size < words.size() * sizeof words[0]; ++size)
    hashes.add(content_hash(words.data(), size));
  REQUIRE(hashes.all());
}

TEST_CASE("content hash: a flipped bit flips half of the bits of each lane") {
  constexpr int kWords = 32;
  constexpr int kRounds = 64;
  std::mt19937_64 random(11);
  // How often bit `out` of a lane flipped, for the bit of a word that was flipped.
  std::array<std::array<std::array<int, 64>, 2>, 64> flips{};
  for (int round = 0; round < kRounds; ++round) {
    Words words(kWords);
    for (auto& word : words) word = random();
    const ContentHash before = hash_of(words);
    for (unsigned bit = 0; bit < 64; ++bit) {
      auto& word = words[random() % kWords];
      word ^= std::uint64_t{1} << bit;
      const ContentHash after = hash_of(words);
      word ^= std::uint64_t{1} << bit;
      for (unsigned lane = 0; lane < 2; ++lane) {
        const std::uint64_t changed = before.lanes[lane] ^ after.lanes[lane];
        for (unsigned out = 0; out < 64; ++out) flips[bit][lane][out] += static_cast<int>(changed >> out & 1);
      }
    }
  }
  double total = 0;
  for (const auto& of_bit : flips) {
    for (const auto& of_lane : of_bit) {
      for (const int count : of_lane) {
        // 64 throws of a coin, 8192 times: six standard deviations are 24.
        REQUIRE(count > 32 - 24);
        REQUIRE(count < 32 + 24);
        total += count;
      }
    }
  }
  const double mean = total / (64.0 * 2 * 64 * kRounds);
  CHECK(mean > 0.495);
  CHECK(mean < 0.505);
}

TEST_CASE("content hash: flipped signs of two words do not cancel") {
  for (const unsigned bit : {31U, 63U}) {
    Words words(64, 0);
    const std::uint64_t flip = std::uint64_t{1} << bit;
    Distinct hashes;
    hashes.add(hash_of(words));
    for (std::size_t i = 0; i < words.size(); ++i) {
      for (std::size_t j = i + 1; j < words.size(); ++j) {
        words[i] ^= flip;
        words[j] ^= flip;
        hashes.add(hash_of(words));
        words[i] = words[j] = 0;
      }
    }
    REQUIRE(hashes.all());
  }
}

TEST_CASE("content hash: words and pages that change places change both lanes") {
  constexpr std::size_t kPageWords = 512;
  constexpr std::size_t kPages = 16;
  Words words(kPages * kPageWords);
  std::mt19937_64 random(5);
  for (auto& word : words) word = random();
  Distinct hashes;
  hashes.add(hash_of(words));
  for (std::size_t i = 0; i < kPages; ++i) {
    for (std::size_t j = i + 1; j < kPages; ++j) {
      Words other = words;
      std::swap(other[i], other[j]);
      hashes.add(hash_of(other));
      other = words;
      std::swap_ranges(other.begin() + static_cast<std::ptrdiff_t>(i * kPageWords),
                       other.begin() + static_cast<std::ptrdiff_t>((i + 1) * kPageWords),
                       other.begin() + static_cast<std::ptrdiff_t>(j * kPageWords));
      hashes.add(hash_of(other));
    }
  }
  Words rotated = words;
  std::rotate(rotated.begin(), rotated.begin() + kPageWords, rotated.end());
  hashes.add(hash_of(rotated));
  REQUIRE(hashes.all());
}

TEST_CASE("content hash: blocks of one value differ by the value, and by where another one stands") {
  Distinct hashes;
  // Zeros, ones as float and half, the bytes that debuggers fill memory with, minus zero.
  for (const std::uint64_t value : {0x0ull, 0x3f8000003f800000ull, 0x3c003c003c003c00ull,
                                    0xcdcdcdcdcdcdcdcdull, 0xffffffffffffffffull, 0x8000000080000000ull}) {
    for (const std::size_t count : {512u, 1024u, 4096u}) hashes.add(hash_of(Words(count, value)));
  }
  Words words(4096, 0);
  for (std::size_t i = 0; i < words.size(); i += 37) {
    words[i] = 1;
    hashes.add(hash_of(words));
    words[i] = 0;
  }
  // Values that undo the step between places: every word adds the same to the first lane, until two change.
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = 0 - i * 0x9e3779b97f4a7c15u;
  hashes.add(hash_of(words));
  for (std::size_t i = 1; i < words.size(); i += 311) {
    std::swap(words[i - 1], words[i]);
    hashes.add(hash_of(words));
  }
  REQUIRE(hashes.all());
}

TEST_CASE("content hash: small changes of small numbers do not collide in half a lane") {
  // A birthday test: 2^17 hashes of blocks that differ in one or two small numbers. 32 of 64 bits of a lane
  // are expected to meet twice; all 64 never.
  std::set<std::uint64_t> whole[2];
  std::set<std::uint32_t> half[2];
  constexpr std::uint64_t kSide = 362;
  Words words(8, 0);
  for (std::uint64_t a = 0; a < kSide; ++a) {
    for (std::uint64_t b = 0; b < kSide; ++b) {
      words[2] = a;
      words[5] = b;
      const ContentHash hash = hash_of(words);
      for (unsigned lane = 0; lane < 2; ++lane) {
        whole[lane].insert(hash.lanes[lane]);
        half[lane].insert(static_cast<std::uint32_t>(hash.lanes[lane]));
      }
    }
  }
  for (unsigned lane = 0; lane < 2; ++lane) {
    CHECK(whole[lane].size() == kSide * kSide);
    // n^2 / 2^33 = 2.0 pairs are expected to meet; 12 or more have a chance below one in a million.
    CHECK(half[lane].size() > kSide * kSide - 12);
  }
}

TEST_CASE("content hash: the lanes are not one") {
  Words words = {1, 2, 3, 4};
  const ContentHash hash = hash_of(words);
  REQUIRE(hash.lanes[0] != hash.lanes[1]);
  REQUIRE(hash != ContentHash{{hash.lanes[1], hash.lanes[0]}});
}

}  // namespace tidepool
