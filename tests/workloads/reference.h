#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

/// What the workloads should compute, in double precision and plain loops, written from the definitions in
/// the comments of their *_model.h files. It shares no code with them; derivatives are derived here anew, and
/// held to differences of the loss.
namespace tidepool::test {

using Numbers = std::vector<double>;

/// Number i of a stream, uniform in [-1, 1): the data set's and the initial weights' random numbers.
double draw(std::uint64_t seed, std::uint64_t stream, std::uint64_t i);

/// `count` numbers sqrt(6 / inputs) * draw(seed, 1 + parameter, i), as the nearest floats.
Numbers drawn_weights(std::uint64_t seed, std::size_t parameter, std::size_t inputs, std::size_t count);

/// Cross entropy of softmax(logits) for one sample; adds (softmax - one-hot) * share to `gradient`.
double cross_entropy(const double* logits, std::size_t classes, std::size_t label, double share,
                     double* gradient);

/// A model with its parameters in the order in which the workload saves them.
class Reference {
 public:
  virtual ~Reference() = default;

  /// The loss of batch `batch` with the parameters as they are; adds its derivatives to `gradients`, which
  /// has the form of `parameters`, unless it is null. `step` chooses what dropout drops. Changes nothing.
  virtual double loss(int batch, int step, std::vector<Numbers>* gradients) = 0;

  /// One step of training on the batch of this step; returns the loss before it.
  virtual double train(int step) = 0;

  /// True where the derivative of the loss is zero whatever the data: there Adam follows rounding errors.
  [[nodiscard]] virtual bool is_idle(std::size_t /*parameter*/, std::size_t /*i*/) const { return false; }

  std::vector<Numbers> parameters;

 protected:
  [[nodiscard]] std::vector<Numbers> zero_gradients() const;
};

struct CnnShape {
  int width, layers, batch, image;
  std::uint64_t seed;
};
std::unique_ptr<Reference> make_cnn_reference(const CnnShape& shape);

struct TransformerShape {
  int width, heads, layers, batch, sequence;
  std::uint64_t seed;
};
std::unique_ptr<Reference> make_transformer_reference(const TransformerShape& shape);

struct LstmShape {
  int width, layers, batch, sequence;
  std::uint64_t seed;
};
std::unique_ptr<Reference> make_lstm_reference(const LstmShape& shape);

}  // namespace tidepool::test
