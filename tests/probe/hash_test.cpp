#include "tools/probe/hash.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "tools/probe/kernel_bodies.h"

namespace tidepool::probe {
namespace {

/// Runs the kernel's body over blocks of the host's memory, as the simulated device does.
template <class Body, class... A>
void run_body(unsigned blocks, unsigned threads, A... arguments) {
  static std::vector<unsigned char> scratch(64 << 10);
  SimgpuGrid grid{};
  grid.grid[0] = blocks;
  grid.block[0] = threads;
  grid.grid[1] = grid.grid[2] = grid.block[1] = grid.block[2] = 1;
  grid.scratch = scratch.data();
  grid.scratch_bytes = scratch.size();
  grid.check_range = [](const void*, std::size_t, int) {};
  grid.fail = [](const char*) { std::abort(); };
  simgpu::CpuContext context(grid);
  for (unsigned x = 0; x < blocks; ++x) {
    context.start_block({x, 0, 0});
    Body::run(context, arguments...);
  }
}

/// Memory that is aligned as device memory is.
std::vector<WordPair> pattern(std::size_t words) {
  std::vector<WordPair> pairs(words / 2 + 1);
  for (std::size_t i = 0; i < pairs.size(); ++i)
    pairs[i] = {pattern_word(9, 2 * i), pattern_word(9, 2 * i + 1)};
  return pairs;
}

Hash by_kernel(const std::vector<WordPair>& pairs, std::size_t words, unsigned blocks) {
  unsigned long long sums[2] = {};
  Word out[2] = {};
  run_body<HashWords>(blocks, HashWords::kThreads, &pairs.data()->first, Word{words},
                      static_cast<unsigned long long*>(sums));
  run_body<FinishHash>(1, 1, static_cast<unsigned long long*>(sums), Word{words}, static_cast<Word*>(out));
  REQUIRE(sums[0] == 0);
  REQUIRE(sums[1] == 0);
  return {{out[0], out[1]}};
}

std::pair<Word, Word> lanes(const Hash& hash) {
  return {hash.lanes[0], hash.lanes[1]};
}

}  // namespace

TEST_CASE("hash: the kernel gives what the definition says, at every length and grid") {
  for (const std::size_t words : {0, 1, 2, 3, 511, 512, 513, 4096, 12'345}) {
    const std::vector<WordPair> pairs = pattern(words);
    const std::pair<Word, Word> want = lanes(hash_words(&pairs.data()->first, words));
    for (const unsigned blocks : {1U, 3U, 8U}) {
      INFO(words << " words, " << blocks << " blocks");
      REQUIRE(lanes(by_kernel(pairs, words, blocks)) == want);
    }
  }
}

TEST_CASE("hash: every bit, place and length counts in both lanes") {
  std::vector<Word> words(64, 0);
  const Hash zero = hash_words(words.data(), words.size());
  std::set<Word> first{zero.lanes[0]};
  std::set<Word> second{zero.lanes[1]};
  std::size_t hashes = 1;
  const auto add = [&](std::size_t length) {
    const Hash hash = hash_words(words.data(), length);
    first.insert(hash.lanes[0]);
    second.insert(hash.lanes[1]);
    ++hashes;
  };
  for (Word& word : words) {
    for (unsigned bit = 0; bit < 64; ++bit) {
      word = Word{1} << bit;
      add(words.size());
    }
    word = 0;
  }
  for (std::size_t length = 0; length < words.size(); ++length) add(length);
  REQUIRE(first.size() == hashes);
  REQUIRE(second.size() == hashes);
}

TEST_CASE("hash: flipped signs of two words do not cancel") {
  std::vector<Word> words(64, 0);
  for (const unsigned bit : {31U, 63U}) {
    const Word flip = Word{1} << bit;
    std::set<Word> first;
    std::set<Word> second;
    std::size_t hashes = 0;
    for (std::size_t i = 0; i < words.size(); ++i) {
      for (std::size_t j = i; j < words.size(); ++j, ++hashes) {
        words[i] ^= flip;
        words[j] ^= flip;  // the same word twice: nothing is changed
        const Hash hash = hash_words(words.data(), words.size());
        first.insert(hash.lanes[0]);
        second.insert(hash.lanes[1]);
        words[i] = words[j] = 0;
      }
    }
    // The unchanged block was met once for each word.
    REQUIRE(first.size() == hashes - words.size() + 1);
    REQUIRE(second.size() == hashes - words.size() + 1);
  }
}

TEST_CASE("hash: words that change places change both lanes, and a value does not repeat in the other lane") {
  std::vector<Word> words = {1, 2, 3, 4};
  const Hash before = hash_words(words.data(), words.size());
  std::swap(words[1], words[2]);
  const Hash after = hash_words(words.data(), words.size());
  REQUIRE(before.lanes[0] != after.lanes[0]);
  REQUIRE(before.lanes[1] != after.lanes[1]);
  REQUIRE(before.lanes[0] != before.lanes[1]);
}

}  // namespace tidepool::probe
