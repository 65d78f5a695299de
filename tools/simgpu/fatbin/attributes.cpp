#include "tools/simgpu/fatbin/attributes.h"

namespace simgpu::fatbin {
namespace {

constexpr std::uint8_t kFormNone = 1;
constexpr std::uint8_t kFormByte = 2;
constexpr std::uint8_t kFormHalf = 3;
constexpr std::uint8_t kFormSized = 4;

}  // namespace

bool AttributeReader::next(Attribute* out) {
  if (!sound_ || offset_ == section_.size()) return false;
  struct {
    std::uint8_t form;
    std::uint8_t kind;
    std::uint16_t value;
  } head{};
  sound_ = section_.read(offset_, &head) && head.form >= kFormNone && head.form <= kFormSized;
  if (!sound_) return false;
  offset_ += sizeof head;
  *out = Attribute{head.kind, head.value, {}};
  if (head.form == kFormByte) out->immediate = head.value & 0xff;
  if (head.form == kFormSized) {
    sound_ = section_.slice(offset_, head.value, &out->data);
    offset_ += head.value;
  }
  return sound_;
}

}  // namespace simgpu::fatbin
