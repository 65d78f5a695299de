#include "tools/workloads/lstm/lstm_model.h"

#include "tools/workloads/common/random.h"

namespace lstm {

using workload::uniform;

Batch make_batch(const Settings& settings, int index) {
  const auto width = static_cast<std::size_t>(settings.width);
  const auto samples = static_cast<std::size_t>(settings.batch);
  const auto sequence = static_cast<std::size_t>(settings.sequence);
  const auto number = static_cast<std::size_t>(index);
  Batch made{std::vector<float>(sequence * samples * width), std::vector<int>(sequence * samples)};
  for (std::size_t s = 0; s < samples; ++s) {
    int before = 0;
    for (std::size_t t = 0; t < sequence; ++t) {
      const auto u = static_cast<double>(uniform(settings.seed, 3000 + number, s * sequence + t));
      const int now = static_cast<int>((u + 1.0) * kClasses / 2);
      const std::size_t row = t * samples + s;
      made.labels[row] = t == 0 ? now : before;
      before = now;
      for (std::size_t f = 0; f < width; ++f) {
        made.inputs[row * width + f] =
            0.75f * uniform(settings.seed, 1000, static_cast<std::size_t>(now) * width + f) +
            0.25f * uniform(settings.seed, 2000 + number, (s * sequence + t) * width + f);
      }
    }
  }
  return made;
}

}  // namespace lstm
