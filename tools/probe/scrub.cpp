#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tools/probe/child.h"
#include "tools/probe/counters.h"
#include "tools/probe/sharing.h"

namespace tidepool::probe {
namespace {

using std::chrono::milliseconds;

/// The same word everywhere: pages may come back in another order.
constexpr Word kMark = 0x746964652d706f6fu;
constexpr unsigned kThreads = 256;

/// Memory in handles of one size, all mapped.
struct Mapped {
  std::vector<Handle> handles;
  Window window;

  Mapped(const Gpu& gpu, std::size_t count, std::uint64_t bytes) : window(gpu, count, bytes) {
    for (std::size_t i = 0; i < count; ++i) {
      handles.emplace_back(gpu, bytes);
      window.map(i, handles.back());
    }
    window.set_access(0, count);
  }
  [[nodiscard]] Word words() const { return handles.size() * window.unit_bytes() / sizeof(Word); }
};

void fill(const Gpu& gpu, std::size_t count, std::uint64_t bytes) {
  const Mapped memory(gpu, count, bytes);
  gpu.kernels().fill_words({nullptr, 512, kThreads}, memory.window.pointer<Word>(), memory.words(), kMark);
  TP_CU(cuCtxSynchronize);
}

struct Found {
  Word words, marked, not_zero;
};

Found look(const Gpu& gpu, std::size_t count, std::uint64_t bytes) {
  const Counters counts;
  const Mapped memory(gpu, count, bytes);
  gpu.kernels().count_words({nullptr, 512, kThreads}, memory.window.pointer<Word>(), memory.words(), kMark,
                            counts.device());
  const Counters::Pair pair = counts.take();
  return {memory.words(), pair.first, pair.second};
}

void write(const Run& run, const char* where, const Found& found) {
  const Fields params = {{"where", where}, {"bytes", found.words * sizeof(Word)}};
  const auto share = [&](Word words) {
    return static_cast<double>(words) / static_cast<double>(found.words);
  };
  run.out.answer("share_of_words_still_marked", params, share(found.marked));
  run.out.answer("share_of_words_not_zero", params, share(found.not_zero));
}

/// Runs a child that fills or looks; returns its last line. Throws if it failed.
std::string ask_child(const Run& run, const char* what, std::size_t count, std::uint64_t bytes) {
  const auto left = std::chrono::duration_cast<milliseconds>(run.end - Clock::now());
  const milliseconds patience = std::max(left, milliseconds(2000));
  Child child(
      {"scrub", std::to_string(run.options.device), what, std::to_string(count), std::to_string(bytes)});
  std::string said = child.line(patience).value_or("the child said nothing");
  const std::string ended = child.finish(patience);
  if (!ended.empty() || said.starts_with("failed ")) throw std::runtime_error(said + "; " + ended);
  return said;
}

Found parse_found(std::string_view line) {
  Word values[3] = {};
  const char* at = line.data();
  const char* const end = at + line.size();
  for (Word& value : values) {
    while (at != end && *at == ' ') ++at;
    at = std::from_chars(at, end, value).ptr;
  }
  if (values[0] == 0) throw std::runtime_error("a child said: " + std::string(line));
  return {values[0], values[1], values[2]};
}

Word number(const char* text) {
  return std::strtoull(text, nullptr, 10);
}

}  // namespace

/// scrub DEVICE fill|look COUNT BYTES: fills memory with marks and says "filled", or says how many words
/// there are, how many are marks and how many are not zero.
int scrub_child(std::span<char* const> words) {
  if (words.size() != 4) return EXIT_FAILURE;
  const Gpu gpu(std::atoi(words[0]));
  const std::size_t count = number(words[2]);
  if (std::string_view(words[1]) == "fill") {
    fill(gpu, count, number(words[3]));
    std::puts("filled");
  } else {
    const Found found = look(gpu, count, number(words[3]));
    std::printf("%llu %llu %llu\n", static_cast<unsigned long long>(found.words),
                static_cast<unsigned long long>(found.marked),
                static_cast<unsigned long long>(found.not_zero));
  }
  return std::fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/// Which pages come back is the driver's choice: the more are marked and looked at, the likelier it is to
/// meet a marked one.
void measure_scrubbing(const Run& run) {
  const std::uint64_t bytes = run.quick() ? kGranule : 64 * kMiB;
  constexpr std::uint64_t kMost = std::uint64_t{8} << 30;
  const Clock::time_point start = Clock::now();
  run.part("share_of_words_still_marked", [&] {
    fill(run.gpu, 1, bytes);
    write(run, "same process, one handle", look(run.gpu, 1, bytes));
  });
  // Filling and looking again, twice, has to fit into the time that is left.
  const Clock::duration one = Clock::now() - start;
  const auto affordable =
      static_cast<std::size_t>(std::max<std::int64_t>(1, (run.end - Clock::now()) / one / 3));
  const std::size_t wanted = std::min(kMost, run.gpu.allowance() / 2) / bytes;
  const std::size_t count = run.quick() ? 2 : std::min(wanted, affordable);
  run.part("share_of_words_still_marked", [&] {
    fill(run.gpu, count, bytes);
    write(run, "same process, many handles", look(run.gpu, count, bytes));
  });
  run.part("share_of_words_still_marked", [&] {
    ask_child(run, "fill", count, bytes);
    write(run, "new process", parse_found(ask_child(run, "look", count, bytes)));
  });
}

}  // namespace tidepool::probe
