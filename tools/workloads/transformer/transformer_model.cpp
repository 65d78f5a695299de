#include "tools/workloads/transformer/transformer_model.h"

#include "tools/workloads/common/random.h"

namespace transformer {

using workload::uniform;

Batch make_batch(const Settings& settings, int index) {
  Batch made;
  for (int s = 0; s < settings.batch; ++s) {
    const float u =
        uniform(settings.seed, 2000 + static_cast<std::uint64_t>(index), static_cast<std::uint64_t>(s));
    int token = static_cast<int>((static_cast<double>(u) + 1.0) * kTokens / 2);
    for (int t = 0; t < settings.sequence; ++t) {
      made.tokens.push_back(token);
      token = (5 * token + 7) % kTokens;
      made.next.push_back(token);
    }
  }
  return made;
}

}  // namespace transformer
