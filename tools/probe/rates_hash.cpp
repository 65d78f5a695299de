#include <cinttypes>
#include <cstdio>
#include <vector>

#include "allocator/support/content_hash.h"
#include "tools/probe/memory.h"
#include "tools/probe/rates.h"

namespace tidepool::probe {
namespace {

/// Buffers for hashing `bytes` of device memory.
class Hashing {
 public:
  Hashing(const Run& run, std::uint64_t bytes)
      : run_(run), bytes_(bytes), data_(bytes), copy_(bytes), slot_(sizeof(HashSlot)), result_(sizeof(Word)) {
    kernels().write_words({stream_.get(), 64, kThreads}, data_.pointer<Word>(), bytes / sizeof(Word), 1);
    stream_.synchronize();
  }

  /// Hashes n bytes from `at` on, on the device.
  [[nodiscard]] ContentHash hash(Word at, Word n) const {
    enqueue_hash(at, n);
    stream_.synchronize();
    HashSlot slot{};
    TP_CU(cuMemcpyDtoH_v2, static_cast<void*>(&slot), slot_.at(), sizeof slot);
    return slot.hash;
  }

  /// The same by the definition, on the host.
  [[nodiscard]] ContentHash reference(Word at, Word n) const {
    std::vector<unsigned char> bytes(n);
    TP_CU(cuMemcpyDtoH_v2, static_cast<void*>(bytes.data()), data_.at() + at, n);
    return content_hash(bytes.data(), n);
  }

  [[nodiscard]] DeviceRates measure(Repeats repeats) const {
    const Word pairs = bytes_ / sizeof(WordPair);
    const auto* from = data_.pointer<Word>();
    DeviceRates rates;
    run_.warm_up([&] {
      enqueue_hash(0, bytes_);
      kernels().read_pairs(full(kernels().read_pairs), from, pairs, result_.pointer<Word>());
      kernels().copy_pairs(full(kernels().copy_pairs), from, copy_.pointer<Word>(), pairs);
      stream_.synchronize();
    });
    while (repeats.next()) {
      rates.read.add(rate(bytes_, [&] {
        kernels().read_pairs(full(kernels().read_pairs), from, pairs, result_.pointer<Word>());
      }));
      rates.copied.add(rate(2 * bytes_, [&] {
        kernels().copy_pairs(full(kernels().copy_pairs), from, copy_.pointer<Word>(), pairs);
      }));
      rates.hashed.add(rate(bytes_, [&] { enqueue_hash(0, bytes_); }));
    }
    return rates;
  }

 private:
  static constexpr unsigned kThreads = HashContent::kThreads;

  [[nodiscard]] const Kernels& kernels() const { return run_.gpu.kernels(); }
  template <class... P>
  [[nodiscard]] Launch full(const Kernel<void(P...)>& kernel) const {
    return {stream_.get(), run_.quick() ? 16 : run_.gpu.full_grid(kernel.function(), kThreads), kThreads};
  }
  void enqueue_hash(Word at, Word n) const {
    kernels().hash_content(full(kernels().hash_content), data_.pointer<unsigned char>() + at, n,
                           slot_.pointer<HashSlot>(), nullptr, 0);
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
  DeviceBuffer data_, copy_, slot_, result_;
  Stream stream_;
  Event start_, end_;
};

std::string hex(const ContentHash& hash) {
  char text[36];
  std::snprintf(text, sizeof text, "%016" PRIx64 "%016" PRIx64, hash.lanes[0], hash.lanes[1]);
  return text;
}

}  // namespace

DeviceRates measure_device_rates(const Run& run, std::uint64_t bytes, Repeats repeats) {
  return Hashing(run, bytes).measure(repeats);
}

void measure_hash(const Run& run) {
  const std::uint64_t wanted = run.quick() ? kGranule : 1024 * kMiB;
  const std::uint64_t bytes = std::min(wanted, run.gpu.allowance() / 4 / kGranule * kGranule);
  if (bytes == 0) throw std::runtime_error("four buffers of 2 MiB are more than a quarter of the device");
  Hashing hashing(run, bytes);
  // Lengths that fill no block, no pair, no word and no thread's share evenly, and an address that is no
  // word's.
  struct Piece {
    Word at, bytes;
  };
  for (const auto& [at, length] :
       {Piece{0, 1}, Piece{0, 16}, Piece{0, 32'777}, Piece{0, bytes - 8}, Piece{5, 4'099}}) {
    const ContentHash got = hashing.hash(at, length);
    const ContentHash want = hashing.reference(at, length);
    run.out.answer("hash_is_as_defined", {{"at", at}, {"bytes", length}}, got == want, hex(got));
  }
  const DeviceRates rates = hashing.measure(run.repeats(30, 0.1));
  run.out.result("device_read", {{"bytes", bytes}}, "B/s", rates.read);
  run.out.result("device_copy", {{"bytes", bytes}, {"counted", "read and written"}}, "B/s", rates.copied);
  run.out.result("device_hash", {{"bytes", bytes}, {"bits", 128}}, "B/s", rates.hashed);
}

}  // namespace tidepool::probe
