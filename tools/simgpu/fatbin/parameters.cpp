#include "tools/simgpu/fatbin/parameters.h"

#include <algorithm>

namespace simgpu::fatbin {
namespace {

struct RawParam {
  std::uint32_t index;
  std::uint16_t number;
  std::uint16_t offset;
  std::uint32_t word;  ///< the size, and flags of the compiler
};
static_assert(sizeof(RawParam) == 12);

struct RawBank {
  std::uint32_t symbol;
  std::uint16_t offset;
  std::uint16_t size;
};
static_assert(sizeof(RawBank) == 8);

/// The size starts at this bit of kParamInfo; in kLargeParamInfo it is the low half, with flags above
/// (sm_100).
constexpr unsigned kSizeShift = 18;
constexpr std::uint32_t kLargeSizeMask = 0xffff;

}  // namespace

void ParamCollector::take(const Attribute& attribute) {
  switch (attribute.kind) {
    case kParamInfo:
    case kLargeParamInfo:
      take_param(attribute);
      break;
    case kParamBank: {
      RawBank bank{};
      sound_ = sound_ && attribute.data.read(0, &bank);
      bank_bytes_ = std::max<std::uint32_t>(bank_bytes_, bank.size);
      break;
    }
    case kParamBankSize:
      bank_bytes_ = std::max<std::uint32_t>(bank_bytes_, attribute.immediate);
      break;
    default:
      break;
  }
}

void ParamCollector::take_param(const Attribute& attribute) {
  RawParam raw{};
  if (!attribute.data.read(0, &raw)) {
    sound_ = false;
    return;
  }
  const std::uint32_t size =
      attribute.kind == kParamInfo ? raw.word >> kSizeShift : raw.word & kLargeSizeMask;
  params_.push_back({raw.number, {raw.offset, size}});
}

bool ParamCollector::finish(std::vector<Param>* out) {
  out->clear();
  if (!sound_) return false;
  std::sort(params_.begin(), params_.end(),
            [](const Numbered& a, const Numbered& b) { return a.number < b.number; });
  std::uint32_t end = 0;
  for (std::size_t i = 0; i < params_.size(); ++i) {
    if (params_[i].number != i || params_[i].param.offset < end) return false;
    end = params_[i].param.offset + params_[i].param.size;
  }
  if (end != bank_bytes_) return false;
  out->reserve(params_.size());
  for (const Numbered& numbered : params_) out->push_back(numbered.param);
  return true;
}

}  // namespace simgpu::fatbin
