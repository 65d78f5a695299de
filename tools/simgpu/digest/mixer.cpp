#include "tools/simgpu/digest/mixer.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <new>

namespace simgpu::digest {
namespace {

XXH3_state_t* state(unsigned char* bytes) {
  return std::launder(reinterpret_cast<XXH3_state_t*>(bytes));
}

const XXH3_state_t* state(const unsigned char* bytes) {
  return std::launder(reinterpret_cast<const XXH3_state_t*>(bytes));
}

}  // namespace

Mixer::Mixer() {
  static_assert(sizeof(XXH3_state_t) <= sizeof state_ && alignof(XXH3_state_t) <= 64);
  auto* made = new (state_) XXH3_state_t;
  XXH3_INITSTATE(made);
  XXH3_128bits_reset(made);
}

void Mixer::bytes(const void* from, std::size_t n) {
  XXH3_128bits_update(state(state_), from, n);
}

Mix Mixer::mix() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state(state_));
  return {hash.low64, hash.high64};
}

std::uint64_t scatter(const Mix& mix, std::uint64_t n) {
  const std::uint64_t words[3] = {mix.low, mix.high, n};
  return XXH3_64bits(words, sizeof words);
}

}  // namespace simgpu::digest
