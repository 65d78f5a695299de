#include <algorithm>
#include <cmath>

#include "tests/workloads/reference.h"

namespace tidepool::test {
namespace {

constexpr std::size_t kClasses = 16;
constexpr std::size_t kBatches = 4;

/// What one layer computed at one position of one sample.
struct Moment {
  Numbers x, i, f, g, o, cell, output;
};

class Lstm final : public Reference {
 public:
  explicit Lstm(const LstmShape& shape)
      : shape_(shape),
        width_(static_cast<std::size_t>(shape.width)),
        samples_(static_cast<std::size_t>(shape.batch)),
        sequence_(static_cast<std::size_t>(shape.sequence)),
        layers_(static_cast<std::size_t>(shape.layers)) {
    for (std::size_t l = 0; l < layers_; ++l) {
      for (int k = 0; k < 2; ++k) {
        parameters.push_back(drawn_weights(shape.seed, parameters.size(), 4 * width_, 4 * width_ * width_));
      }
      parameters.emplace_back(4 * width_, 0.0);
      for (std::size_t j = 0; j < width_; ++j) parameters.back()[width_ + j] = 1.0;
    }
    parameters.push_back(drawn_weights(shape.seed, parameters.size(), width_, width_ * kClasses));
    parameters.emplace_back(kClasses, 0.0);
    speed_ = zero_gradients();
  }

  double loss(int batch, int, std::vector<Numbers>* gradients) override {
    double total = 0.0;
    for (std::size_t s = 0; s < samples_; ++s) total += sample(static_cast<std::size_t>(batch), s, gradients);
    return total / static_cast<double>(samples_ * sequence_);
  }

  double train(int step) override {
    std::vector<Numbers> gradients = zero_gradients();
    const double before = loss(step % static_cast<int>(kBatches), step, &gradients);
    double squares = 0.0;
    for (const Numbers& gradient : gradients) {
      for (const double g : gradient) squares += g * g;
    }
    const double factor = std::min(1.0, 1.0 / std::sqrt(squares));
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      for (std::size_t i = 0; i < parameters[p].size(); ++i) {
        speed_[p][i] = 0.9 * speed_[p][i] + factor * gradients[p][i];
        parameters[p][i] -= 0.1 * speed_[p][i];
      }
    }
    return before;
  }

 private:
  [[nodiscard]] std::size_t class_at(std::size_t batch, std::size_t s, std::size_t t) const {
    return static_cast<std::size_t>((draw(shape_.seed, 3000 + batch, s * sequence_ + t) + 1.0) * kClasses /
                                    2);
  }
  [[nodiscard]] Numbers input(std::size_t batch, std::size_t s, std::size_t t) const {
    Numbers x(width_);
    for (std::size_t f = 0; f < width_; ++f) {
      x[f] = 0.75 * draw(shape_.seed, 1000, class_at(batch, s, t) * width_ + f) +
             0.25 * draw(shape_.seed, 2000 + batch, (s * sequence_ + t) * width_ + f);
    }
    return x;
  }

  static double logistic(double x) { return 1.0 / (1.0 + std::exp(-x)); }

  [[nodiscard]] Moment advance(std::size_t layer, const Numbers& x, const Numbers& output_before,
                               const Numbers& cell_before) const {
    const Numbers& from_input = parameters[3 * layer];
    const Numbers& from_output = parameters[3 * layer + 1];
    Numbers z = parameters[3 * layer + 2];
    for (std::size_t k = 0; k < width_; ++k) {
      for (std::size_t j = 0; j < z.size(); ++j) {
        z[j] += x[k] * from_input[k * z.size() + j] + output_before[k] * from_output[k * z.size() + j];
      }
    }
    Moment m{x,
             Numbers(width_),
             Numbers(width_),
             Numbers(width_),
             Numbers(width_),
             Numbers(width_),
             Numbers(width_)};
    for (std::size_t j = 0; j < width_; ++j) {
      m.i[j] = logistic(z[j]);
      m.f[j] = logistic(z[width_ + j]);
      m.g[j] = std::tanh(z[2 * width_ + j]);
      m.o[j] = logistic(z[3 * width_ + j]);
      m.cell[j] = m.f[j] * cell_before[j] + m.i[j] * m.g[j];
      m.output[j] = m.o[j] * std::tanh(m.cell[j]);
    }
    return m;
  }

  double sample(std::size_t batch, std::size_t s, std::vector<Numbers>* gradients) const {
    const Numbers nothing(width_, 0.0);
    std::vector<std::vector<Moment>> past(layers_);
    double total = 0.0;
    std::vector<Numbers> doutputs(sequence_, nothing);
    for (std::size_t t = 0; t < sequence_; ++t) {
      Numbers x = input(batch, s, t);
      for (std::size_t l = 0; l < layers_; ++l) {
        past[l].push_back(
            advance(l, x, t == 0 ? nothing : past[l][t - 1].output, t == 0 ? nothing : past[l][t - 1].cell));
        x = past[l][t].output;
      }
      total += head(x, class_at(batch, s, t == 0 ? 0 : t - 1), doutputs[t], gradients);
    }
    if (gradients != nullptr) {
      for (std::size_t l = layers_; l-- > 0;) doutputs = back_through(l, past[l], doutputs, *gradients);
    }
    return total;
  }

  double head(const Numbers& output, std::size_t label, Numbers& doutput,
              std::vector<Numbers>* gradients) const {
    const std::size_t first = 3 * layers_;
    Numbers logits = parameters[first + 1];
    for (std::size_t j = 0; j < width_; ++j) {
      for (std::size_t k = 0; k < kClasses; ++k) logits[k] += output[j] * parameters[first][j * kClasses + k];
    }
    Numbers dlogits(kClasses, 0.0);
    const double share = 1.0 / static_cast<double>(samples_ * sequence_);
    const double loss = cross_entropy(logits.data(), kClasses, label, share, dlogits.data());
    if (gradients == nullptr) return loss;
    for (std::size_t k = 0; k < kClasses; ++k) {
      (*gradients)[first + 1][k] += dlogits[k];
      for (std::size_t j = 0; j < width_; ++j) {
        (*gradients)[first][j * kClasses + k] += output[j] * dlogits[k];
        doutput[j] += parameters[first][j * kClasses + k] * dlogits[k];
      }
    }
    return loss;
  }

  /// From the gradients of a layer's outputs at every position to those of its inputs.
  std::vector<Numbers> back_through(std::size_t layer, const std::vector<Moment>& past,
                                    const std::vector<Numbers>& doutputs,
                                    std::vector<Numbers>& gradients) const {
    const Numbers nothing(width_, 0.0);
    const Numbers& from_input = parameters[3 * layer];
    const Numbers& from_output = parameters[3 * layer + 1];
    std::vector<Numbers> dx(sequence_, nothing);
    Numbers dcell = nothing;
    Numbers dlater = nothing;
    for (std::size_t t = sequence_; t-- > 0;) {
      const Moment& m = past[t];
      const Numbers& cell_before = t == 0 ? nothing : past[t - 1].cell;
      const Numbers& output_before = t == 0 ? nothing : past[t - 1].output;
      Numbers dz(4 * width_);
      for (std::size_t j = 0; j < width_; ++j) {
        const double bent = std::tanh(m.cell[j]);
        const double dh = doutputs[t][j] + dlater[j];
        dcell[j] += dh * m.o[j] * (1.0 - bent * bent);
        dz[j] = dcell[j] * m.g[j] * m.i[j] * (1.0 - m.i[j]);
        dz[width_ + j] = dcell[j] * cell_before[j] * m.f[j] * (1.0 - m.f[j]);
        dz[2 * width_ + j] = dcell[j] * m.i[j] * (1.0 - m.g[j] * m.g[j]);
        dz[3 * width_ + j] = dh * bent * m.o[j] * (1.0 - m.o[j]);
        dcell[j] *= m.f[j];
      }
      dlater = nothing;
      for (std::size_t j = 0; j < dz.size(); ++j) {
        gradients[3 * layer + 2][j] += dz[j];
        for (std::size_t k = 0; k < width_; ++k) {
          gradients[3 * layer][k * dz.size() + j] += m.x[k] * dz[j];
          gradients[3 * layer + 1][k * dz.size() + j] += output_before[k] * dz[j];
          dx[t][k] += from_input[k * dz.size() + j] * dz[j];
          dlater[k] += from_output[k * dz.size() + j] * dz[j];
        }
      }
    }
    return dx;
  }

  LstmShape shape_;
  std::size_t width_, samples_, sequence_, layers_;
  std::vector<Numbers> speed_;
};

}  // namespace

std::unique_ptr<Reference> make_lstm_reference(const LstmShape& shape) {
  return std::make_unique<Lstm>(shape);
}

}  // namespace tidepool::test
