#include "tools/workloads/cnn/cnn_model.h"

#include "tools/workloads/common/random.h"

namespace cnn {

using workload::uniform;

Batch make_batch(const Settings& settings, int index) {
  const auto samples = static_cast<std::size_t>(settings.batch);
  const auto pixels = static_cast<std::size_t>(settings.image) * static_cast<std::size_t>(settings.image);
  const auto number = static_cast<std::size_t>(index);
  Batch made{std::vector<float>(kColours * samples * pixels), std::vector<int>(samples)};
  for (std::size_t s = 0; s < samples; ++s) {
    const std::size_t label = (7 * (number * samples + s) + 3) % kClasses;
    made.labels[s] = static_cast<int>(label);
    for (std::size_t j = 0; j < kColours * pixels; ++j) {
      const std::size_t colour = j / pixels;
      made.images[(colour * samples + s) * pixels + j % pixels] =
          0.75f * uniform(settings.seed, 1000, label * kColours * pixels + j) +
          0.25f * uniform(settings.seed, 2000 + number, s * kColours * pixels + j);
    }
  }
  return made;
}

}  // namespace cnn
