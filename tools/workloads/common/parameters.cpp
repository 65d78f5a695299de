#include "tools/workloads/common/parameters.h"

#include <utility>

#include "tools/workloads/common/check.h"

namespace workload {

std::size_t ParameterSet::add(std::size_t count, const float* initial, int states) {
  Parameter made;
  made.value = Floats(memory_, count);
  if (initial != nullptr) {
    TP_CUDA(cudaMemcpyAsync(made.value.get(), initial, made.value.bytes(), cudaMemcpyHostToDevice,
                            lanes_.main()));
    lanes_.wait();
  } else {
    TP_CUDA(cudaMemsetAsync(made.value.get(), 0, made.value.bytes(), lanes_.main()));
  }
  for (int i = 0; i < states; ++i) {
    made.state.emplace_back(memory_, count);
    TP_CUDA(cudaMemsetAsync(made.state.back().get(), 0, made.value.bytes(), lanes_.main()));
  }
  all_.push_back(std::move(made));
  return all_.size() - 1;
}

std::size_t ParameterSet::add(const std::vector<float>& initial) {
  return add(initial.size(), initial.data(), states_);
}

std::size_t ParameterSet::add_zeros(std::size_t count) {
  return add(count, nullptr, states_);
}

std::size_t ParameterSet::add_average(const std::vector<float>& initial) {
  return add(initial.size(), initial.data(), 0);
}

float* ParameterSet::make_gradient(std::size_t i) {
  all_[i].gradient = Floats(memory_, all_[i].value.count());
  return all_[i].gradient.get();
}

std::vector<Parameter*> ParameterSet::with_gradient() {
  std::vector<Parameter*> found;
  for (Parameter& parameter : all_) {
    if (parameter.gradient.get() != nullptr) found.push_back(&parameter);
  }
  return found;
}

std::vector<float> ParameterSet::read() const {
  std::size_t count = 0;
  for (const Parameter& parameter : all_) count += parameter.value.count();
  std::vector<float> values(count);
  std::size_t at = 0;
  for (const Parameter& parameter : all_) {
    TP_CUDA(cudaMemcpyAsync(values.data() + at, parameter.value.get(), parameter.value.bytes(),
                            cudaMemcpyDeviceToHost, lanes_.main()));
    at += parameter.value.count();
  }
  lanes_.wait();
  return values;
}

std::uint64_t digest_of(const void* bytes, std::size_t count, std::uint64_t hash) {
  const auto* const each = static_cast<const unsigned char*>(bytes);
  for (std::size_t i = 0; i < count; ++i) hash = (hash ^ each[i]) * 0x100000001b3ULL;
  return hash;
}

}  // namespace workload
