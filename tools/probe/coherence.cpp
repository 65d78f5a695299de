#include "tools/probe/coherence.h"

#include <string>

#include "tools/probe/counters.h"
#include "tools/probe/memory.h"

namespace tidepool::probe {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kBlocks = 256;
constexpr unsigned kBlockedMs = 5;  // the host queues a case's launches in less

/// How one word gets from the writer to the reader.
struct Case {
  bool write_by_copy = false;
  bool read_by_copy = false;
  bool other_stream = false;
  bool programmatic = false;
  bool alias = false;  ///< read through another address than it was written through
};

class Coherence {
 public:
  Coherence(const Run& run, std::uint64_t bytes)
      : run_(run),
        words_(bytes / sizeof(Word)),
        handle_(run.gpu, bytes),
        window_(run.gpu, 2, bytes),
        source_(bytes),
        target_(bytes) {
    window_.map(0, handle_);
    window_.map(1, handle_);
    window_.set_access(0, 2);
  }

  /// Both checkers look for words of another seed than was written: they must find each word wrong.
  void check_checkers() {
    const Case kernels{};
    const Word seed = ++seed_;
    write(kernels, window_.at(0), seed);
    read(kernels, window_.at(1), seed + 1, first_);
    answer_finds("kernel", wrong_.take().first);
    read({.read_by_copy = true}, window_.at(1), seed, first_);
    first_.synchronize();
    answer_finds("host", wrong_in_target(seed + 1));
    seed_ = seed + 1;
  }

  /// What a chain of kernels takes that are queued before the first one runs: less, where each may start
  /// before the one in front has ended.
  void time_chains() {
    for (const bool programmatic : {false, true}) {
      Samples chain;
      run_.warm_up([&] { (void)time_chain(programmatic); });
      Repeats repeats = run_.repeats(20, 0.02);
      while (repeats.next()) chain.add(time_chain(programmatic));
      run_.out.result(
          programmatic ? "programmatic_chain" : "plain_chain",
          {{"launches", std::uint64_t{chain_launches()}}, {"handle_bytes", words_ * sizeof(Word)}}, "ns",
          chain);
    }
    const std::uint64_t wrong = wrong_.take().first;
    run_.out.answer("wrong_words_in_chains", {{"handle_bytes", words_ * sizeof(Word)}}, wrong);
  }

  void check(const Case& c) {
    const std::size_t rounds = run_.quick() ? 2 : (words_ * sizeof(Word) > kGranule ? 20 : 100);
    const Stream& reader = c.other_stream ? second_ : first_;
    const CUdeviceptr to = window_.at(0);
    const CUdeviceptr from = window_.at(c.alias ? 1 : 0);
    std::uint64_t wrong = 0;
    if (c.programmatic) block();
    std::size_t done = 0;
    for (; done < rounds && !run_.is_over(); ++done) {
      const Word seed = ++seed_;
      write(c, to, seed);
      if (c.other_stream) {
        written_.record(first_);
        written_.hold(second_);
      }
      read(c, from, seed, reader);
      if (c.other_stream) {
        read_.record(second_);
        read_.hold(first_);
      }
      // Kernels alone are queued round after round; the host's own buffers are free only when a round is
      // over.
      if (c.write_by_copy || c.read_by_copy) reader.synchronize();
      if (c.read_by_copy) wrong += wrong_in_target(seed);
    }
    wrong += wrong_.take().first;
    run_.out.answer("wrong_words",
                    {{"handle_bytes", words_ * sizeof(Word)},
                     {"write", c.write_by_copy ? "copy" : "kernel"},
                     {"read", c.read_by_copy ? "copy" : "kernel"},
                     {"stream", c.other_stream ? "other" : "same"},
                     {"programmatic", c.programmatic},
                     {"alias", c.alias},
                     {"rounds", std::uint64_t{done}}},
                    wrong);
  }

 private:
  /// Keeps the first stream busy while the host queues what comes behind.
  void block() { run_.gpu.kernels().spin({first_.get()}, run_.gpu.cycles(kBlockedMs)); }

  [[nodiscard]] std::size_t chain_launches() const { return run_.quick() ? 4 : 128; }

  /// Device time of the chain, ns.
  double time_chain(bool programmatic) {
    const Case c{.programmatic = programmatic, .alias = true};
    const Kernels& kernels = run_.gpu.kernels();
    block();
    start_.record(first_);
    for (std::size_t i = 0; i < chain_launches() / 2; ++i) {
      const Word seed = ++seed_;
      kernels.write_words_waiting(launch(c, first_), window_.pointer<Word>(0), words_, seed);
      kernels.check_words_waiting(launch(c, first_), window_.pointer<Word>(1), words_, seed, wrong_.device());
    }
    end_.record(first_);
    first_.synchronize();
    return end_.ns_since(start_);
  }

  void answer_finds(const char* checker, std::uint64_t found) const {
    run_.out.answer("checker_finds", {{"handle_bytes", words_ * sizeof(Word)}, {"checker", checker}}, found,
                    "expected " + std::to_string(words_) + ": every word was written with another seed");
  }

  void write(const Case& c, CUdeviceptr to, Word seed) {
    if (c.write_by_copy) {
      Word* words = source_.pointer<Word>();
      for (Word i = 0; i < words_; ++i) words[i] = pattern_word(seed, i);
      TP_CU(cuMemcpyHtoDAsync_v2, to, static_cast<const void*>(words), words_ * sizeof(Word), first_.get());
      return;
    }
    const Kernels& kernels = run_.gpu.kernels();
    const auto& kernel = c.programmatic ? kernels.write_words_waiting : kernels.write_words;
    kernel(launch(c, first_), reinterpret_cast<Word*>(to), words_, seed);
  }

  void read(const Case& c, CUdeviceptr from, Word seed, const Stream& stream) {
    if (c.read_by_copy) {
      TP_CU(cuMemcpyDtoHAsync_v2, target_.pointer<void>(), from, words_ * sizeof(Word), stream.get());
      return;
    }
    const Kernels& kernels = run_.gpu.kernels();
    const auto& kernel = c.programmatic ? kernels.check_words_waiting : kernels.check_words;
    kernel(launch(c, stream), reinterpret_cast<const Word*>(from), words_, seed, wrong_.device());
  }

  static Launch launch(const Case& c, const Stream& stream) {
    Launch how{stream.get(), kBlocks, kThreads};
    how.programmatic = c.programmatic;
    return how;
  }

  [[nodiscard]] std::uint64_t wrong_in_target(Word seed) const {
    const Word* words = target_.pointer<Word>();
    std::uint64_t wrong = 0;
    for (Word i = 0; i < words_; ++i) wrong += words[i] != pattern_word(seed, i) ? 1 : 0;
    return wrong;
  }

  const Run& run_;
  Word words_;
  Handle handle_;
  Window window_;
  PinnedBuffer source_, target_;
  Counters wrong_;
  Stream first_, second_;
  Event written_{CU_EVENT_DISABLE_TIMING}, read_{CU_EVENT_DISABLE_TIMING};
  Event start_, end_;
  Word seed_ = 0;
};

/// Empty, or why grids cannot be launched before the one in front has ended.
const char* no_programmatic_launch(const Run& run) {
  constexpr int kFirstMajor = 9;
  if (cu().cuLaunchKernelEx == nullptr) return "the driver has no cuLaunchKernelEx";
  if (run.gpu.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) < kFirstMajor) {
    return "devices before compute capability 9.0 have no programmatic launch";
  }
  return nullptr;
}

constexpr const char* kTimeIsOver = "the section's time is over";

/// Every way from writer to reader; with programmatic launches those in which a kernel takes part. False: the
/// time was over before the last.
bool check_cases(const Run& run, Coherence& coherence, bool programmatic) {
  for (const bool alias : {true, false}) {
    for (const bool other_stream : {false, true}) {
      for (const bool write_by_copy : {false, true}) {
        for (const bool read_by_copy : {false, true}) {
          if (programmatic && write_by_copy && read_by_copy) continue;
          if (run.is_over()) return false;
          coherence.check({write_by_copy, read_by_copy, other_stream, programmatic, alias});
        }
      }
    }
  }
  return true;
}

}  // namespace

void check_coherence(const Run& run, std::uint64_t handle_bytes) {
  require_room(run, handle_bytes);
  Coherence coherence(run, handle_bytes);
  coherence.check_checkers();
  if (!check_cases(run, coherence, false)) return run.out.skipped("wrong_words", kTimeIsOver);
  if (const char* why = no_programmatic_launch(run)) return run.out.skipped("wrong_words_programmatic", why);
  if (!check_cases(run, coherence, true)) return run.out.skipped("wrong_words_programmatic", kTimeIsOver);
  if (run.is_over()) return run.out.skipped("programmatic_chain", kTimeIsOver);
  coherence.time_chains();
}

}  // namespace tidepool::probe
