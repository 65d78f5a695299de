#include <cmath>

#include "tests/workloads/reference.h"

namespace tidepool::test {
namespace {

constexpr std::size_t kColours = 3;
constexpr std::size_t kClasses = 16;
constexpr std::size_t kBatches = 4;
constexpr double kEpsilon = 1e-5;

/// Images as [sample][channel][y][x].
struct Images {
  std::size_t samples, channels, side;
  Numbers values;
  Images() : Images(0, 0, 0) {}
  Images(std::size_t n, std::size_t c, std::size_t s)
      : samples(n), channels(c), side(s), values(n * c * s * s, 0.0) {}
  double& at(std::size_t n, std::size_t c, std::size_t y, std::size_t x) {
    return values[((n * channels + c) * side + y) * side + x];
  }
  [[nodiscard]] double at(std::size_t n, std::size_t c, std::size_t y, std::size_t x) const {
    return values[((n * channels + c) * side + y) * side + x];
  }
  [[nodiscard]] Images zeros() const { return {samples, channels, side}; }
};

template <class Visit>
void each_pixel(const Images& like, std::size_t channel, const Visit& visit) {
  for (std::size_t n = 0; n < like.samples; ++n) {
    for (std::size_t y = 0; y < like.side; ++y) {
      for (std::size_t x = 0; x < like.side; ++x) visit(n, channel, y, x);
    }
  }
}

/// A convolution and its normalisation: five parameters from `first` on.
struct Layer {
  std::size_t inputs, outputs, kernel, first;
  // Of the last forward pass:
  Images input, normal;
  Numbers scale, mean, unbiased;
};

struct Block {
  Layer one, two;
  std::vector<Layer> skip;
  Images input, middle, output;
};

class Cnn final : public Reference {
 public:
  explicit Cnn(const CnnShape& shape) : shape_(shape) {
    const auto width = static_cast<std::size_t>(shape.width);
    stem_ = make_layer(kColours, width, 3);
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < shape.layers; ++i) {
        const std::size_t outputs = half == 0 ? width : 2 * width;
        const std::size_t inputs = i == 0 ? width : outputs;
        Block block;
        block.one = make_layer(inputs, outputs, 3);
        block.two = make_layer(outputs, outputs, 3);
        if (inputs != outputs) block.skip.push_back(make_layer(inputs, outputs, 1));
        halves_[half].push_back(block);
      }
    }
    head_ = parameters.size();
    parameters.push_back(drawn_weights(shape.seed, head_, 2 * width, 2 * width * kClasses));
    parameters.emplace_back(kClasses, 0.0);
    speed_ = zero_gradients();
  }

  double loss(int batch, int, std::vector<Numbers>* gradients) override {
    std::vector<std::size_t> labels;
    const Images images = make_batch(static_cast<std::size_t>(batch), &labels);
    stem_output_ = rectified(forward(stem_, images));
    Images x = run_half(halves_[0], stem_output_);
    const Images before_pool = x;
    x = run_half(halves_[1], pooled(x));

    const auto samples = static_cast<double>(x.samples);
    const auto pixels = static_cast<double>(x.side * x.side);
    Images dx = x.zeros();
    double total = 0.0;
    for (std::size_t n = 0; n < x.samples; ++n) {
      Numbers means(x.channels, 0.0);
      for (std::size_t c = 0; c < x.channels; ++c) {
        for (std::size_t i = 0; i < x.side * x.side; ++i)
          means[c] += x.at(n, c, i / x.side, i % x.side) / pixels;
      }
      Numbers logits = parameters[head_ + 1];
      for (std::size_t c = 0; c < x.channels; ++c) {
        for (std::size_t k = 0; k < kClasses; ++k)
          logits[k] += means[c] * parameters[head_][c * kClasses + k];
      }
      Numbers dlogits(kClasses, 0.0);
      total += cross_entropy(logits.data(), kClasses, labels[n], 1.0 / samples, dlogits.data());
      if (gradients == nullptr) continue;
      for (std::size_t k = 0; k < kClasses; ++k) (*gradients)[head_ + 1][k] += dlogits[k];
      for (std::size_t c = 0; c < x.channels; ++c) {
        double dmean = 0.0;
        for (std::size_t k = 0; k < kClasses; ++k) {
          (*gradients)[head_][c * kClasses + k] += means[c] * dlogits[k];
          dmean += parameters[head_][c * kClasses + k] * dlogits[k];
        }
        for (std::size_t i = 0; i < x.side * x.side; ++i)
          dx.at(n, c, i / x.side, i % x.side) = dmean / pixels;
      }
    }
    if (gradients != nullptr) {
      dx = back_through(halves_[1], dx, gradients);
      dx = unpooled(before_pool, dx);
      dx = back_through(halves_[0], dx, gradients);
      backward(stem_, masked(stem_output_, dx), gradients);
    }
    return total / samples;
  }

  double train(int step) override {
    std::vector<Numbers> gradients = zero_gradients();
    const double before = loss(step % static_cast<int>(kBatches), step, &gradients);
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      for (std::size_t i = 0; i < parameters[p].size(); ++i) {
        speed_[p][i] = 0.9 * speed_[p][i] + gradients[p][i];
        parameters[p][i] -= 0.02 * speed_[p][i];
      }
    }
    move_averages(stem_);
    for (std::vector<Block>& half : halves_) {
      for (Block& block : half) {
        move_averages(block.one);
        move_averages(block.two);
        for (Layer& layer : block.skip) move_averages(layer);
      }
    }
    return before;
  }

 private:
  Layer make_layer(std::size_t inputs, std::size_t outputs, std::size_t kernel) {
    Layer layer{inputs, outputs, kernel, parameters.size(), {}, {}, {}, {}, {}};
    const std::size_t fan_in = inputs * kernel * kernel;
    parameters.push_back(drawn_weights(shape_.seed, layer.first, fan_in, outputs * fan_in));
    parameters.emplace_back(outputs, 1.0);
    parameters.emplace_back(outputs, 0.0);
    parameters.emplace_back(outputs, 0.0);
    parameters.emplace_back(outputs, 1.0);
    return layer;
  }

  Images make_batch(std::size_t number, std::vector<std::size_t>* labels) const {
    const auto side = static_cast<std::size_t>(shape_.image);
    Images images(static_cast<std::size_t>(shape_.batch), kColours, side);
    const std::size_t per_image = kColours * side * side;
    for (std::size_t s = 0; s < images.samples; ++s) {
      const std::size_t label = (7 * (number * images.samples + s) + 3) % kClasses;
      labels->push_back(label);
      for (std::size_t j = 0; j < per_image; ++j) {
        images.values[s * per_image + j] = 0.75 * draw(shape_.seed, 1000, label * per_image + j) +
                                           0.25 * draw(shape_.seed, 2000 + number, s * per_image + j);
      }
    }
    return images;
  }

  /// Calls visit(output, input, weight index, output y, x, input y, x) for every product of the convolution.
  template <class Visit>
  static void each_product(const Layer& layer, std::size_t side, const Visit& visit) {
    const auto reach = static_cast<std::ptrdiff_t>(layer.kernel / 2);
    const auto limit = static_cast<std::ptrdiff_t>(side);
    std::size_t weight = 0;
    for (std::size_t o = 0; o < layer.outputs; ++o) {
      for (std::size_t i = 0; i < layer.inputs; ++i) {
        for (std::ptrdiff_t dy = -reach; dy <= reach; ++dy) {
          for (std::ptrdiff_t dx = -reach; dx <= reach; ++dx, ++weight) {
            for (std::ptrdiff_t y = 0; y < limit; ++y) {
              for (std::ptrdiff_t x = 0; x < limit; ++x) {
                if (y + dy < 0 || y + dy >= limit || x + dx < 0 || x + dx >= limit) continue;
                visit(o, i, weight, static_cast<std::size_t>(y), static_cast<std::size_t>(x),
                      static_cast<std::size_t>(y + dy), static_cast<std::size_t>(x + dx));
              }
            }
          }
        }
      }
    }
  }

  Images forward(Layer& layer, const Images& in) {
    layer.input = in;
    Images out(in.samples, layer.outputs, in.side);
    const Numbers& weights = parameters[layer.first];
    each_product(layer, in.side, [&](auto o, auto i, auto w, auto y, auto x, auto in_y, auto in_x) {
      for (std::size_t n = 0; n < in.samples; ++n) out.at(n, o, y, x) += weights[w] * in.at(n, i, in_y, in_x);
    });
    layer.normal = out.zeros();
    layer.scale.assign(layer.outputs, 0.0);
    layer.mean.assign(layer.outputs, 0.0);
    layer.unbiased.assign(layer.outputs, 0.0);
    const auto count = static_cast<double>(in.samples * in.side * in.side);
    for (std::size_t c = 0; c < layer.outputs; ++c) {
      double sum = 0.0;
      double squares = 0.0;
      each_pixel(out, c, [&](auto... at) { sum += out.at(at...); });
      const double mean = sum / count;
      each_pixel(out, c, [&](auto... at) { squares += (out.at(at...) - mean) * (out.at(at...) - mean); });
      layer.mean[c] = mean;
      layer.unbiased[c] = squares / (count - 1.0);
      layer.scale[c] = 1.0 / std::sqrt(squares / count + kEpsilon);
      each_pixel(out, c, [&](auto... at) {
        layer.normal.at(at...) = (out.at(at...) - mean) * layer.scale[c];
        out.at(at...) =
            parameters[layer.first + 1][c] * layer.normal.at(at...) + parameters[layer.first + 2][c];
      });
    }
    return out;
  }

  /// With v = (u - mean) / sigma: du = (dv - mean(dv) - v mean(dv v)) / sigma, means over the channel.
  Images backward(const Layer& layer, const Images& dout, std::vector<Numbers>* gradients) {
    Images du = dout.zeros();
    const auto count = static_cast<double>(dout.samples * dout.side * dout.side);
    for (std::size_t c = 0; c < layer.outputs; ++c) {
      const double gamma = parameters[layer.first + 1][c];
      double mean = 0.0;
      double mean_product = 0.0;
      each_pixel(dout, c, [&](auto... at) {
        (*gradients)[layer.first + 1][c] += dout.at(at...) * layer.normal.at(at...);
        (*gradients)[layer.first + 2][c] += dout.at(at...);
        mean += gamma * dout.at(at...) / count;
        mean_product += gamma * dout.at(at...) * layer.normal.at(at...) / count;
      });
      each_pixel(dout, c, [&](auto... at) {
        du.at(at...) =
            (gamma * dout.at(at...) - mean - layer.normal.at(at...) * mean_product) * layer.scale[c];
      });
    }
    Images din = layer.input.zeros();
    const Numbers& weights = parameters[layer.first];
    each_product(layer, dout.side, [&](auto o, auto i, auto w, auto y, auto x, auto in_y, auto in_x) {
      for (std::size_t n = 0; n < dout.samples; ++n) {
        (*gradients)[layer.first][w] += du.at(n, o, y, x) * layer.input.at(n, i, in_y, in_x);
        din.at(n, i, in_y, in_x) += du.at(n, o, y, x) * weights[w];
      }
    });
    return din;
  }

  static Images rectified(Images x) {
    for (double& value : x.values) value = std::max(value, 0.0);
    return x;
  }
  static Images masked(const Images& output, Images gradient) {
    for (std::size_t i = 0; i < gradient.values.size(); ++i) {
      if (output.values[i] <= 0.0) gradient.values[i] = 0.0;
    }
    return gradient;
  }
  static Images sum(Images a, const Images& b) {
    for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] += b.values[i];
    return a;
  }

  Images run_half(std::vector<Block>& blocks, Images x) {
    for (Block& block : blocks) {
      block.input = x;
      block.middle = rectified(forward(block.one, x));
      const Images direct = block.skip.empty() ? x : forward(block.skip[0], x);
      block.output = rectified(sum(forward(block.two, block.middle), direct));
      x = block.output;
    }
    return x;
  }

  Images back_through(const std::vector<Block>& blocks, Images gradient, std::vector<Numbers>* gradients) {
    for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
      const Images dsum = masked(block->output, gradient);
      const Images dmiddle = masked(block->middle, backward(block->two, dsum, gradients));
      const Images ddirect = block->skip.empty() ? dsum : backward(block->skip[0], dsum, gradients);
      gradient = sum(backward(block->one, dmiddle, gradients), ddirect);
    }
    return gradient;
  }

  /// Which of four pixels is the largest; the first of equals.
  static std::size_t largest_of(const Images& x, std::size_t n, std::size_t c, std::size_t y,
                                std::size_t col) {
    std::size_t best = 0;
    for (std::size_t k = 1; k < 4; ++k) {
      if (x.at(n, c, 2 * y + k / 2, 2 * col + k % 2) > x.at(n, c, 2 * y + best / 2, 2 * col + best % 2))
        best = k;
    }
    return best;
  }
  static Images pooled(const Images& x) {
    Images out(x.samples, x.channels, x.side / 2);
    for (std::size_t c = 0; c < x.channels; ++c) {
      each_pixel(out, c, [&](auto n, auto, auto y, auto col) {
        const std::size_t k = largest_of(x, n, c, y, col);
        out.at(n, c, y, col) = x.at(n, c, 2 * y + k / 2, 2 * col + k % 2);
      });
    }
    return out;
  }
  static Images unpooled(const Images& x, const Images& gradient) {
    Images out = x.zeros();
    for (std::size_t c = 0; c < x.channels; ++c) {
      each_pixel(gradient, c, [&](auto n, auto, auto y, auto col) {
        const std::size_t k = largest_of(x, n, c, y, col);
        out.at(n, c, 2 * y + k / 2, 2 * col + k % 2) = gradient.at(n, c, y, col);
      });
    }
    return out;
  }

  void move_averages(const Layer& layer) {
    for (std::size_t c = 0; c < layer.outputs; ++c) {
      double& mean = parameters[layer.first + 3][c];
      double& variance = parameters[layer.first + 4][c];
      mean = 0.9 * mean + 0.1 * layer.mean[c];
      variance = 0.9 * variance + 0.1 * layer.unbiased[c];
    }
  }

  CnnShape shape_;
  Layer stem_{};
  Images stem_output_;
  std::vector<Block> halves_[2];
  std::size_t head_ = 0;
  std::vector<Numbers> speed_;
};

}  // namespace

std::unique_ptr<Reference> make_cnn_reference(const CnnShape& shape) {
  return std::make_unique<Cnn>(shape);
}

}  // namespace tidepool::test
