#include "tests/simgpu_digest/sensitivity.h"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

namespace digest_test {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kPiece = 4 * kKiB;
constexpr std::size_t kIterations = 10;
constexpr std::size_t kLayers = 10;

/// Activations of each layer, forward and back; sizes of all orders, most of them small. The largest is
/// an option.
constexpr std::array<std::size_t, kLayers> kSizes = {64 * kKiB,   100 * kKiB, 256 * kKiB, 64 * kKiB,
                                                     1024 * kKiB, 300 * kKiB, 640 * kKiB, 128 * kKiB,
                                                     0,           64 * kKiB};

struct Buffer {
  std::uint64_t address = 0;
  std::size_t bytes = 0;
  std::vector<unsigned char> host;      ///< where it lives while it is out
  std::vector<unsigned char> previous;  ///< what went out the time before
  bool out = false;
};

class Job {
 public:
  Job(std::uint64_t seed, Damage damage, const dg::Stride& stride, std::size_t largest)
      : random_(seed), damage_(damage), d_(total(largest), 1, kRoles) {
    d_.stride = stride;
    std::size_t offset = 0;
    for (const std::size_t given : kSizes) {
      const std::size_t size = given != 0 ? given : largest;
      for (std::vector<Buffer>* list : {&forward_, &backward_, &weights_}) {
        // Weights are a quarter of the activations, so that the job reads sizes of its own.
        Buffer b;
        b.bytes = list == &weights_ ? size / 4 : size;
        b.address = d_.allocate(offset, b.bytes);
        offset += (b.bytes + 511) / 512 * 512;
        list->push_back(std::move(b));
      }
    }
    // A copy that matters: not one of the first iteration, where nothing is stale.
    damaged_copy_ = kLayers * 2 + random_.below(kLayers * (kIterations - 3));
  }

  dg::Mix run() {
    for (Buffer& w : weights_) {
      std::vector<unsigned char> data(w.bytes);
      Random values(w.bytes);
      for (unsigned char& byte : data) byte = static_cast<unsigned char>(values.next());
      d_.copy_in(w.address, data.data(), data.size());
    }
    for (std::size_t i = 0; i < kIterations; ++i) iteration(i);
    return d_.launch("finish", {1, 1, 1}, Params(weights_[0].address, weights_[kLayers - 1].address)).mix;
  }

 private:
  static inline const std::string kRoles =
      "simgpu-roles 1\n"
      "kernel forward\n param 0 in\n param 1 in\n param 2 out\n"
      "kernel backward\n param 0 in\n param 1 in\n param 2 inout\n param 3 out\n"
      "kernel input\n param 0 out\n value 1\n"
      "kernel finish\n param 0 in\n param 1 in\n";

  static std::size_t total(std::size_t largest) {
    std::size_t sum = 3 * largest;
    for (const std::size_t size : kSizes) sum += 3 * size + 4 * 512;
    return sum;
  }

  void iteration(std::size_t number) {
    d_.launch("input", {1, 1, 1}, Params(forward_[0].address, static_cast<std::uint64_t>(number)));
    for (std::size_t i = 1; i < kLayers; ++i) {
      d_.launch("forward", {1, 1, 1},
                Params(forward_[i - 1].address, weights_[i].address, forward_[i].address));
      swap_out(&forward_[i - 1]);
    }
    d_.launch("forward", {2, 1, 1},
              Params(forward_.back().address, weights_[0].address, backward_.back().address));
    for (std::size_t i = kLayers - 1; i > 0; --i) {
      swap_in(&forward_[i - 1]);
      d_.launch("backward", {1, 1, 1},
                Params(backward_[i].address, forward_[i - 1].address, weights_[i].address,
                       backward_[i - 1].address));
    }
    d_.launch(
        "backward", {2, 1, 1},
        Params(backward_[0].address, forward_[0].address, weights_[0].address, backward_.back().address));
  }

  /// The copies are not the program's: nothing is noted of them, and other memory takes the place meanwhile.
  void swap_out(Buffer* b) {
    b->previous.swap(b->host);
    b->host.resize(b->bytes);
    copy(b->host.data(), d_.bytes(b->address), b);
    b->out = true;
    // Somebody else's bytes.
    std::memset(d_.bytes(b->address), 0xd5, b->bytes);
  }

  void swap_in(Buffer* b) {
    if (!b->out) return;
    copy(d_.bytes(b->address), b->host.data(), b);
    b->out = false;
  }

  void copy(unsigned char* to, const unsigned char* from, const Buffer* b) {
    const bool hit = damage_ != Damage::kNone && copies_++ == damaged_copy_;
    std::array<unsigned char, kPiece> kept;
    // Pieces of a copy engine start at multiples of 4 KiB of the copy; a page of anything else starts
    // anywhere.
    const std::size_t piece = random_.below((b->bytes - kPiece) / 64 + 1) * 64;
    if (hit) {
      const bool stale = damage_ == Damage::kStale && !b->previous.empty();
      std::memcpy(kept.data(), (stale ? b->previous.data() : to) + piece, kPiece);
    }
    std::memcpy(to, from, b->bytes);
    if (hit) std::memcpy(to + piece, kept.data(), kPiece);
  }

  Random random_;
  const Damage damage_;
  Device d_;
  std::vector<Buffer> forward_, backward_, weights_;
  std::size_t copies_ = 0;
  std::size_t damaged_copy_ = 0;
};

}  // namespace

dg::Mix run_job(std::uint64_t seed, Damage damage, const dg::Stride& stride, std::size_t largest) {
  return std::make_unique<Job>(seed, damage, stride, largest)->run();
}

}  // namespace digest_test
