#include <algorithm>
#include <array>
#include <cmath>

#include "tests/workloads/reference.h"

namespace tidepool::test {
namespace {

constexpr std::size_t kTokens = 64;
constexpr std::size_t kBatches = 4;
constexpr double kEpsilon = 1e-5;
constexpr std::size_t kPerLayer = 12;  // parameters

using Words = std::array<std::uint32_t, 4>;

/// Philox4x32-10 from its paper.
Words philox(Words c, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{c[0]} * 0xD2511F53U;
    const std::uint64_t b = std::uint64_t{c[2]} * 0xCD9E8D57U;
    const auto high = [](std::uint64_t n) { return static_cast<std::uint32_t>(n >> 32); };
    const auto low = [](std::uint64_t n) { return static_cast<std::uint32_t>(n & 0xffffffffU); };
    c = {high(b) ^ c[1] ^ key[0], low(b), high(a) ^ c[3] ^ key[1], low(a)};
    key = {key[0] + 0x9E3779B9U, key[1] + 0xBB67AE85U};
  }
  return c;
}

/// One row per position.
using Rows = std::vector<Numbers>;

Rows zeros(std::size_t rows, std::size_t columns) {
  return Rows(rows, Numbers(columns, 0.0));
}

struct Normed {
  Rows normal;  // before gamma and beta
  Numbers scale;
};

/// What a layer keeps of one sample.
struct Kept {
  Normed first, second;
  Rows normal, qkv, attended, middle_normal, wide, active;
  std::vector<Rows> shares;  // of each head
};

class Transformer final : public Reference {
 public:
  explicit Transformer(const TransformerShape& shape)
      : shape_(shape),
        width_(static_cast<std::size_t>(shape.width)),
        heads_(static_cast<std::size_t>(shape.heads)),
        layers_(static_cast<std::size_t>(shape.layers)),
        samples_(static_cast<std::size_t>(shape.batch)),
        sequence_(static_cast<std::size_t>(shape.sequence)) {
    add_weights(kTokens, width_, width_);
    add_weights(sequence_, width_, width_);
    for (std::size_t l = 0; l < layers_; ++l) {
      add_norm();
      add_linear(width_, 3 * width_);
      add_linear(width_, width_);
      add_norm();
      add_linear(width_, 4 * width_);
      add_linear(4 * width_, width_);
    }
    add_norm();
    add_linear(width_, kTokens);
    first_moment_ = zero_gradients();
    second_moment_ = zero_gradients();
  }

  double loss(int batch, int step, std::vector<Numbers>* gradients) override {
    step_ = step;
    double total = 0.0;
    for (std::size_t s = 0; s < samples_; ++s) total += sample(static_cast<std::size_t>(batch), s, gradients);
    return total / static_cast<double>(samples_ * sequence_);
  }

  double train(int step) override {
    std::vector<Numbers> gradients = zero_gradients();
    const double before = loss(step % static_cast<int>(kBatches), step, &gradients);
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      for (std::size_t i = 0; i < parameters[p].size(); ++i) {
        const double g = gradients[p][i];
        first_moment_[p][i] = 0.9 * first_moment_[p][i] + 0.1 * g;
        second_moment_[p][i] = 0.99 * second_moment_[p][i] + 0.01 * g * g;
        const double mean = first_moment_[p][i] / (1.0 - std::pow(0.9, step + 1));
        const double square = second_moment_[p][i] / (1.0 - std::pow(0.99, step + 1));
        parameters[p][i] -= 1e-3 * mean / (std::sqrt(square) + 1e-6);
      }
    }
    return before;
  }

  /// A bias of the keys adds the same to all scores of a query, and softmax does not see that.
  [[nodiscard]] bool is_idle(std::size_t parameter, std::size_t i) const override {
    constexpr std::size_t kKeyBias = 3;
    return parameter >= 2 && parameter < 2 + layers_ * kPerLayer && (parameter - 2) % kPerLayer == kKeyBias &&
           i / width_ == 1;
  }

 private:
  void add_weights(std::size_t rows, std::size_t columns, std::size_t inputs) {
    parameters.push_back(drawn_weights(shape_.seed, parameters.size(), inputs, rows * columns));
  }
  void add_linear(std::size_t inputs, std::size_t outputs) {
    add_weights(inputs, outputs, inputs);
    parameters.emplace_back(outputs, 0.0);
  }
  void add_norm() {
    parameters.emplace_back(width_, 1.0);
    parameters.emplace_back(width_, 0.0);
  }

  [[nodiscard]] Rows linear(const Rows& x, std::size_t p) const {
    Rows y;
    for (const Numbers& row : x) {
      Numbers out = parameters[p + 1];
      for (std::size_t i = 0; i < row.size(); ++i) {
        for (std::size_t o = 0; o < out.size(); ++o) out[o] += row[i] * parameters[p][i * out.size() + o];
      }
      y.push_back(out);
    }
    return y;
  }
  Rows linear_back(const Rows& x, const Rows& dy, std::size_t p, std::vector<Numbers>& gradients) const {
    Rows dx = zeros(x.size(), x[0].size());
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::size_t o = 0; o < dy[t].size(); ++o) {
        gradients[p + 1][o] += dy[t][o];
        for (std::size_t i = 0; i < x[t].size(); ++i) {
          gradients[p][i * dy[t].size() + o] += x[t][i] * dy[t][o];
          dx[t][i] += parameters[p][i * dy[t].size() + o] * dy[t][o];
        }
      }
    }
    return dx;
  }

  Rows norm(const Rows& x, std::size_t p, Normed& kept) const {
    Rows y = x;
    kept.normal = x;
    kept.scale.clear();
    const auto count = static_cast<double>(width_);
    for (std::size_t t = 0; t < x.size(); ++t) {
      double mean = 0.0;
      double variance = 0.0;
      for (const double value : x[t]) mean += value / count;
      for (const double value : x[t]) variance += (value - mean) * (value - mean) / count;
      kept.scale.push_back(1.0 / std::sqrt(variance + kEpsilon));
      for (std::size_t i = 0; i < width_; ++i) {
        kept.normal[t][i] = (x[t][i] - mean) * kept.scale[t];
        y[t][i] = parameters[p][i] * kept.normal[t][i] + parameters[p + 1][i];
      }
    }
    return y;
  }
  /// With v = (u - mean) / sigma: du = (dv - mean(dv) - v mean(dv v)) / sigma, means over the row.
  Rows norm_back(const Normed& kept, const Rows& dy, std::size_t p, std::vector<Numbers>& gradients) const {
    Rows du = zeros(dy.size(), width_);
    const auto count = static_cast<double>(width_);
    for (std::size_t t = 0; t < dy.size(); ++t) {
      double mean = 0.0;
      double mean_product = 0.0;
      for (std::size_t i = 0; i < width_; ++i) {
        const double dv = dy[t][i] * parameters[p][i];
        mean += dv / count;
        mean_product += dv * kept.normal[t][i] / count;
        gradients[p][i] += dy[t][i] * kept.normal[t][i];
        gradients[p + 1][i] += dy[t][i];
      }
      for (std::size_t i = 0; i < width_; ++i) {
        const double dv = dy[t][i] * parameters[p][i];
        du[t][i] = (dv - mean - kept.normal[t][i] * mean_product) * kept.scale[t];
      }
    }
    return du;
  }

  /// Dropout of the rows of sample s; its own derivative.
  [[nodiscard]] Rows drop(Rows x, std::size_t s, std::size_t place) const {
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::size_t j = 0; j < width_; ++j) {
        const std::size_t i = (s * sequence_ + t) * width_ + j;
        const Words counter = {static_cast<std::uint32_t>(i / 4), 0, static_cast<std::uint32_t>(place),
                               static_cast<std::uint32_t>(step_)};
        const Words random = philox(counter, {static_cast<std::uint32_t>(shape_.seed),
                                              static_cast<std::uint32_t>(shape_.seed >> 32)});
        x[t][j] = random[i % 4] < 429496730U ? 0.0 : x[t][j] / 0.9;
      }
    }
    return x;
  }

  static double normal_below(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
  static double normal_density(double x) { return std::exp(-x * x / 2.0) / std::sqrt(2.0 * std::acos(-1.0)); }

  static Rows sum(Rows a, const Rows& b) {
    for (std::size_t t = 0; t < a.size(); ++t) {
      for (std::size_t i = 0; i < a[t].size(); ++i) a[t][i] += b[t][i];
    }
    return a;
  }

  Rows attention(Kept& kept) const {
    const std::size_t share_width = width_ / heads_;
    Rows y = zeros(sequence_, width_);
    for (std::size_t h = 0; h < heads_; ++h) {
      Rows shares = zeros(sequence_, sequence_);
      for (std::size_t q = 0; q < sequence_; ++q) {
        double sum = 0.0;
        for (std::size_t k = 0; k <= q; ++k) {
          double score = 0.0;
          for (std::size_t j = h * share_width; j < (h + 1) * share_width; ++j) {
            score += kept.qkv[q][j] * kept.qkv[k][width_ + j];
          }
          shares[q][k] = std::exp(score / std::sqrt(static_cast<double>(share_width)));
          sum += shares[q][k];
        }
        for (std::size_t k = 0; k <= q; ++k) {
          shares[q][k] /= sum;
          for (std::size_t j = h * share_width; j < (h + 1) * share_width; ++j) {
            y[q][j] += shares[q][k] * kept.qkv[k][2 * width_ + j];
          }
        }
      }
      kept.shares.push_back(shares);
    }
    return y;
  }
  [[nodiscard]] Rows attention_back(const Kept& kept, const Rows& dy) const {
    const std::size_t share_width = width_ / heads_;
    const double root = std::sqrt(static_cast<double>(share_width));
    Rows dqkv = zeros(sequence_, 3 * width_);
    for (std::size_t h = 0; h < heads_; ++h) {
      const Rows& shares = kept.shares[h];
      for (std::size_t q = 0; q < sequence_; ++q) {
        Numbers dshare(q + 1, 0.0);
        double mean = 0.0;
        for (std::size_t k = 0; k <= q; ++k) {
          for (std::size_t j = h * share_width; j < (h + 1) * share_width; ++j) {
            dshare[k] += dy[q][j] * kept.qkv[k][2 * width_ + j];
            dqkv[k][2 * width_ + j] += shares[q][k] * dy[q][j];
          }
          mean += shares[q][k] * dshare[k];
        }
        for (std::size_t k = 0; k <= q; ++k) {
          const double dscore = shares[q][k] * (dshare[k] - mean) / root;
          for (std::size_t j = h * share_width; j < (h + 1) * share_width; ++j) {
            dqkv[q][j] += dscore * kept.qkv[k][width_ + j];
            dqkv[k][width_ + j] += dscore * kept.qkv[q][j];
          }
        }
      }
    }
    return dqkv;
  }

  double sample(std::size_t batch, std::size_t s, std::vector<Numbers>* gradients) const {
    std::vector<std::size_t> tokens;
    tokens.push_back(static_cast<std::size_t>((draw(shape_.seed, 2000 + batch, s) + 1.0) * kTokens / 2));
    for (std::size_t t = 0; t < sequence_; ++t) tokens.push_back((5 * tokens[t] + 7) % kTokens);

    Rows x = zeros(sequence_, width_);
    for (std::size_t t = 0; t < sequence_; ++t) {
      for (std::size_t j = 0; j < width_; ++j) {
        x[t][j] = parameters[0][tokens[t] * width_ + j] + parameters[1][t * width_ + j];
      }
    }
    x = drop(x, s, 0);
    std::vector<Kept> kept(layers_);
    for (std::size_t l = 0; l < layers_; ++l) {
      const std::size_t p = 2 + l * kPerLayer;
      Kept& k = kept[l];
      k.normal = norm(x, p, k.first);
      k.qkv = linear(k.normal, p + 2);
      k.attended = attention(k);
      x = sum(x, drop(linear(k.attended, p + 4), s, 1 + 2 * l));
      k.middle_normal = norm(x, p + 6, k.second);
      k.wide = linear(k.middle_normal, p + 8);
      k.active = k.wide;
      for (Numbers& row : k.active) {
        for (double& value : row) value *= normal_below(value);
      }
      x = sum(x, drop(linear(k.active, p + 10), s, 2 + 2 * l));
    }
    const std::size_t last = 2 + layers_ * kPerLayer;
    Normed last_normed;
    const Rows normal = norm(x, last, last_normed);
    const Rows logits = linear(normal, last + 2);
    Rows dlogits = zeros(sequence_, kTokens);
    double total = 0.0;
    for (std::size_t t = 0; t < sequence_; ++t) {
      total += cross_entropy(logits[t].data(), kTokens, tokens[t + 1],
                             1.0 / static_cast<double>(samples_ * sequence_), dlogits[t].data());
    }
    if (gradients == nullptr) return total;

    Rows dx = norm_back(last_normed, linear_back(normal, dlogits, last + 2, *gradients), last, *gradients);
    for (std::size_t l = layers_; l-- > 0;) dx = layer_back(l, s, kept[l], dx, *gradients);
    dx = drop(dx, s, 0);
    for (std::size_t t = 0; t < sequence_; ++t) {
      for (std::size_t j = 0; j < width_; ++j) {
        (*gradients)[0][tokens[t] * width_ + j] += dx[t][j];
        (*gradients)[1][t * width_ + j] += dx[t][j];
      }
    }
    return total;
  }

  Rows layer_back(std::size_t l, std::size_t s, const Kept& k, const Rows& dy,
                  std::vector<Numbers>& gradients) const {
    const std::size_t p = 2 + l * kPerLayer;
    Rows d = linear_back(k.active, drop(dy, s, 2 + 2 * l), p + 10, gradients);
    for (std::size_t t = 0; t < d.size(); ++t) {
      for (std::size_t i = 0; i < d[t].size(); ++i) {
        const double x = k.wide[t][i];
        d[t][i] *= normal_below(x) + x * normal_density(x);
      }
    }
    d = linear_back(k.middle_normal, d, p + 8, gradients);
    const Rows dmiddle = sum(dy, norm_back(k.second, d, p + 6, gradients));
    d = linear_back(k.attended, drop(dmiddle, s, 1 + 2 * l), p + 4, gradients);
    d = linear_back(k.normal, attention_back(k, d), p + 2, gradients);
    return sum(dmiddle, norm_back(k.first, d, p, gradients));
  }

  TransformerShape shape_;
  std::size_t width_, heads_, layers_, samples_, sequence_;
  int step_ = 0;
  std::vector<Numbers> first_moment_;
  std::vector<Numbers> second_moment_;
};

}  // namespace

std::unique_ptr<Reference> make_transformer_reference(const TransformerShape& shape) {
  return std::make_unique<Transformer>(shape);
}

}  // namespace tidepool::test
