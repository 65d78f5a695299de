#include "allocator/support/events.h"

#include <iterator>
#include <string_view>

namespace tidepool {
namespace {

#define TP_SUBSYSTEM(...)
#define TP_FIELD(name, kind, note) \
  { #name, FieldKind::kind, note }
#define TP_EVENT(name, level, subsystem, help, ...) constexpr EventField kFieldsOf_##name[] = {__VA_ARGS__};
#include "allocator/support/events.def"
#undef TP_SUBSYSTEM
#undef TP_FIELD
#undef TP_EVENT

constexpr EventRow kRows[] = {
#define TP_SUBSYSTEM(...)
#define TP_EVENT(name, level, subsystem, help, ...) \
  {#name, EventLevel::level, Subsystem::subsystem, help, kFieldsOf_##name},
#include "allocator/support/events.def"
#undef TP_SUBSYSTEM
#undef TP_EVENT
};

consteval bool each_text_is_last() {
  for (const EventRow& row : kRows) {
    for (std::size_t i = 0; i + 1 < row.fields.size(); ++i) {
      if (row.fields[i].kind == FieldKind::kText) return false;
    }
  }
  return true;
}
static_assert(each_text_is_last(), "readers take values and text from different places");

constexpr std::uint64_t mixed(std::uint64_t hash, std::string_view text) {
  constexpr std::uint64_t kPrime = 0x100000001b3;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * kPrime;
  return (hash ^ 0xff) * kPrime;
}

consteval std::uint64_t hash_of_table() {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const EventRow& row : kRows) {
    hash = mixed(hash, row.name);
    for (const EventField& field : row.fields) {
      const char kind = static_cast<char>(field.kind);
      hash = mixed(mixed(hash, field.name), {&kind, 1});
      if (field.kind == FieldKind::kWord) hash = mixed(hash, field.note);
    }
  }
  return hash;
}

}  // namespace

std::span<const EventRow> event_rows() noexcept {
  return kRows;
}

std::uint64_t event_table_hash() noexcept {
  constexpr std::uint64_t kHash = hash_of_table();
  return kHash;
}

}  // namespace tidepool
