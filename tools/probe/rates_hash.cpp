#include <cinttypes>
#include <cstdio>
#include <vector>

#include "tools/probe/hash.h"
#include "tools/probe/memory.h"
#include "tools/probe/rates.h"

namespace tidepool::probe {
namespace {

/// Buffers for hashing `bytes` of device memory.
class Hashing {
 public:
  Hashing(const Run& run, std::uint64_t bytes)
      : run_(run),
        bytes_(bytes),
        data_(bytes),
        copy_(bytes),
        sums_(2 * sizeof(unsigned long long)),
        result_(sizeof(Hash)) {
    kernels().write_words({stream_.get(), 64, kThreads}, data_.pointer<Word>(), bytes / sizeof(Word), 1);
    stream_.synchronize();
  }

  /// Hashes the first n words on the device.
  [[nodiscard]] Hash hash(Word n) const {
    enqueue_hash(n);
    stream_.synchronize();
    Hash hash{};
    TP_CU(cuMemcpyDtoH_v2, static_cast<void*>(&hash), result_.at(), sizeof hash);
    return hash;
  }

  /// The same by the definition, on the host.
  [[nodiscard]] Hash reference(Word n) const {
    std::vector<Word> words(n);
    TP_CU(cuMemcpyDtoH_v2, static_cast<void*>(words.data()), data_.at(), n * sizeof(Word));
    return hash_words(words.data(), n);
  }

  void measure() {
    const Word pairs = bytes_ / sizeof(WordPair);
    const auto* from = data_.pointer<Word>();
    Samples read, copied, hashed;
    run_.warm_up([&] {
      enqueue_hash(bytes_ / sizeof(Word));
      kernels().read_pairs(full(kernels().read_pairs), from, pairs, result_.pointer<Word>());
      kernels().copy_pairs(full(kernels().copy_pairs), from, copy_.pointer<Word>(), pairs);
      stream_.synchronize();
    });
    Repeats repeats = run_.repeats(30, 0.1);
    while (repeats.next()) {
      read.add(rate(bytes_, [&] {
        kernels().read_pairs(full(kernels().read_pairs), from, pairs, result_.pointer<Word>());
      }));
      copied.add(rate(2 * bytes_, [&] {
        kernels().copy_pairs(full(kernels().copy_pairs), from, copy_.pointer<Word>(), pairs);
      }));
      hashed.add(rate(bytes_, [&] { enqueue_hash(bytes_ / sizeof(Word)); }));
    }
    run_.out.result("device_read", {{"bytes", bytes_}}, "B/s", read);
    run_.out.result("device_copy", {{"bytes", bytes_}, {"counted", "read and written"}}, "B/s", copied);
    run_.out.result("device_hash", {{"bytes", bytes_}, {"bits", 128}}, "B/s", hashed);
  }

 private:
  static constexpr unsigned kThreads = HashWords::kThreads;

  [[nodiscard]] const Kernels& kernels() const { return run_.gpu.kernels(); }
  template <class... P>
  [[nodiscard]] Launch full(const Kernel<void(P...)>& kernel) const {
    return {stream_.get(), run_.quick() ? 16 : run_.gpu.full_grid(kernel.function(), kThreads), kThreads};
  }
  void enqueue_hash(Word n) const {
    auto* sums = sums_.pointer<unsigned long long>();
    kernels().hash_words(full(kernels().hash_words), data_.pointer<Word>(), n, sums);
    kernels().finish_hash({stream_.get()}, sums, n, result_.pointer<Word>());
  }
  template <class F>
  double rate(std::uint64_t bytes, F&& enqueue) const {
    constexpr double kNanosPerSecond = 1e9;
    start_.record(stream_);
    enqueue();
    end_.record(stream_);
    stream_.synchronize();
    return static_cast<double>(bytes) / end_.ns_since(start_) * kNanosPerSecond;
  }

  const Run& run_;
  std::uint64_t bytes_;
  DeviceBuffer data_, copy_, sums_, result_;
  Stream stream_;
  Event start_, end_;
};

std::string hex(const Hash& hash) {
  char text[36];
  std::snprintf(text, sizeof text, "%016" PRIx64 "%016" PRIx64, hash.lanes[0], hash.lanes[1]);
  return text;
}

}  // namespace

void measure_hash(const Run& run) {
  const std::uint64_t wanted = run.quick() ? kGranule : 1024 * kMiB;
  const std::uint64_t bytes = std::min(wanted, run.gpu.allowance() / 4 / kGranule * kGranule);
  if (bytes == 0) throw std::runtime_error("four buffers of 2 MiB are more than a quarter of the device");
  Hashing hashing(run, bytes);
  // Lengths that fill no block, no pair and no thread's share evenly.
  for (const Word n : {Word{1}, Word{2}, Word{4097}, kGranule / sizeof(Word) - 1}) {
    const Hash got = hashing.hash(n);
    const Hash want = hashing.reference(n);
    const bool same = got.lanes[0] == want.lanes[0] && got.lanes[1] == want.lanes[1];
    run.out.answer("hash_is_as_defined", {{"words", n}}, same, hex(got));
  }
  hashing.measure();
}

}  // namespace tidepool::probe
