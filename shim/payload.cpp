#include "shim/payload.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "shim/managed.h"
#include "shim/real_driver.h"

namespace tidepool::shim {
namespace {

/// May the host read there? Memory that the driver knows nothing of is the program's own.
bool is_host_memory(CUdeviceptr at) noexcept {
  using Ask = HookType<Hook::cuPointerGetAttribute>::Function;
  const auto ask =
      reinterpret_cast<Ask>(active_driver().hooks[static_cast<std::size_t>(Hook::cuPointerGetAttribute)]);
  CUmemorytype type{};
  const CUresult asked = ask(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at);
  return asked == CUDA_ERROR_INVALID_VALUE || (asked == CUDA_SUCCESS && type == CU_MEMORYTYPE_HOST);
}

/// The live block that a word leads to, or what may be allocated there; kNoBlock: small allocations, which
/// stay.
struct Target {
  bool is_name = false;
  runtime::BlockId id = runtime::kNoBlock;
};
Target target_of(const runtime::Runtime& runtime, std::uint64_t word) noexcept {
  const runtime::Arena::Finder finder = runtime.arena().finder();
  runtime::BlockId id = finder.at(word);
  if (id == runtime::kNoBlock) id = finder.beside(word);
  if (id == runtime::kNoBlock) return {true, id};
  const runtime::Block& block = runtime.arena().block(id);
  if (block.slab.load(std::memory_order_acquire) != nullptr) return {};
  return {true, block.load().state() == runtime::BlockState::kFreed ? runtime::kNoBlock : id};
}

}  // namespace

BroughtNames::~BroughtNames() {
  for (const std::uint64_t name : names_) runtime::AddressTables::instance().unname(name);
}

CUresult BroughtNames::keep(const Payload& payload, const char* what, Fate fate) noexcept {
  if (payload.from == nullptr) return CUDA_SUCCESS;
  CUresult kept = CUDA_SUCCESS;
  for_each_managed([&](const ManagedDevice& device) {
    if (kept != CUDA_SUCCESS) return;
    const std::size_t first = words_.size();
    const runtime::Arena::Finder finder = device.runtime->arena().finder();
    for_each_row(payload, [&](std::uint64_t at, const std::byte* words, std::size_t many) {
      // Nearly always there is none.
      if (finder.covers_some(words, many)) [[unlikely]]
        add(finder, at, words, many);
    });
    if (words_.size() != first) kept = keep_from(first, *device.runtime, what, fate);
  });
  return kept;
}

void BroughtNames::add(const runtime::Arena::Finder& finder, std::uint64_t at, const std::byte* words,
                       std::size_t many) noexcept {
  for (std::size_t i = 0; i < many; ++i) {
    const std::uint64_t word = word_at(words, i);
    if (finder.covers(word)) words_.push_back({at + i * sizeof word, word});
  }
}

CUresult BroughtNames::keep(std::uint64_t at, std::uint64_t value, const char* what, Fate fate) noexcept {
  runtime::Runtime* const runtime = owner(value);
  if (runtime == nullptr) return CUDA_SUCCESS;
  words_.push_back({at, value});
  return keep_from(words_.size() - 1, *runtime, what, fate);
}

// Named first, then held: between the two nobody lets them go.
CUresult BroughtNames::keep_from(std::size_t first, runtime::Runtime& runtime, const char* what,
                                 Fate fate) noexcept {
  std::vector<runtime::BlockId> ids;
  std::size_t left = first;
  for (std::size_t i = first; i < words_.size(); ++i) {
    const runtime::AddressTables::Word word = words_[i];
    const Target target = target_of(runtime, word.value);
    if (target.id != runtime::kNoBlock && (ids.empty() || ids.back() != target.id)) {
      ids.push_back(target.id);
      names_.push_back(word.value);
      runtime::AddressTables::instance().name(word.value);
    }
    if (target.is_name) words_[left++] = word;
  }
  words_.resize(left);
  if (ids.empty()) return CUDA_SUCCESS;
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  // A copy of a few bytes that needs megabytes says what they are.
  const runtime::WorkName names(
      [](const void* call, std::span<char> buffer) {
        std::snprintf(buffer.data(), buffer.size(), "%s, for what the addresses in it name,",
                      static_cast<const char*>(call));
      },
      what);
  // What a graph copies when it is launched lies there then, whatever has come to lie there until then.
  const runtime::Status status =
      fate == Fate::kCaptured ? runtime.keep(ids, names) : runtime.hold_named(ids, names);
  return static_cast<CUresult>(status.code());
}

void BroughtNames::arrived() noexcept {
  if (!words_.empty()) runtime::AddressTables::instance().put(words_);
}

Payload payload_of(CUdeviceptr to, CUdeviceptr from, std::size_t size) noexcept {
  Payload payload;
  if (from == 0 || !any_managed() || owner(from) != nullptr) return payload;
  if (size < sizeof(std::uint64_t) || size > options().scan_copies.count()) return payload;
  if (!is_host_memory(from)) return payload;
  payload.from = reinterpret_cast<const std::byte*>(from);  // NOLINT(performance-no-int-to-ptr)
  payload.to = to;
  payload.width = size;
  return payload;
}

Payload payload_of(const CUDA_MEMCPY3D_BATCH_OP& operation) noexcept {
  if (operation.src.type != CU_MEMCPY_OPERAND_TYPE_POINTER ||
      operation.dst.type != CU_MEMCPY_OPERAND_TYPE_POINTER)
    return {};
  const CUextent3D& extent = operation.extent;
  Payload payload = payload_of(operation.dst.op.ptr.ptr, operation.src.op.ptr.ptr,
                               extent.width * extent.height * extent.depth);
  // Between two pointers an element is a byte.
  const auto spread = [&](const CUmemcpy3DOperand& operand, std::size_t& pitch, std::size_t& layer) {
    pitch = operand.op.ptr.rowLength != 0 ? operand.op.ptr.rowLength : extent.width;
    layer = pitch * (operand.op.ptr.layerHeight != 0 ? operand.op.ptr.layerHeight : extent.height);
  };
  payload.width = extent.width;
  payload.rows = extent.height;
  payload.layers = extent.depth;
  spread(operation.src, payload.from_pitch, payload.from_layer);
  spread(operation.dst, payload.to_pitch, payload.to_layer);
  return payload;
}

}  // namespace tidepool::shim
