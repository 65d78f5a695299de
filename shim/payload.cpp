#include "shim/payload.h"

#include <algorithm>
#include <vector>

#include "allocator/support/events.h"
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

/// Blocks of one device that are named and may still move.
class Named {
 public:
  explicit Named(runtime::Runtime& runtime) noexcept : runtime_(runtime), finder_(runtime.arena().finder()) {}

  [[nodiscard]] runtime::Arena::Finder finder() const noexcept { return finder_; }
  /// For a word that finder().covers().
  void add(std::uint64_t word) noexcept {
    runtime::BlockId id = finder_.at(word);
    if (id == runtime::kNoBlock) id = finder_.beside(word);
    if (id == runtime::kNoBlock || id == last_) return;
    last_ = id;
    const runtime::Block& block = runtime_.arena().block(id);
    if (block.kept.load(std::memory_order_acquire)) return;
    if (block.load().state() != runtime::BlockState::kFreed) ids_.push_back(id);
  }
  CUresult keep(const char* what) noexcept {
    if (ids_.empty()) return CUDA_SUCCESS;
    std::sort(ids_.begin(), ids_.end());
    ids_.erase(std::unique(ids_.begin(), ids_.end()), ids_.end());
    const auto kept = static_cast<CUresult>(runtime_.keep(ids_, what).code());
    if (kept != CUDA_SUCCESS) return kept;
    Bytes bytes;
    for (const runtime::BlockId id : ids_) bytes += runtime_.arena().block(id).span;
    emit<Ev::address_table>(static_cast<std::uint64_t>(ids_.size()), bytes);
    return kept;
  }

 private:
  runtime::Runtime& runtime_;
  const runtime::Arena::Finder finder_;
  runtime::BlockId last_ = runtime::kNoBlock;
  std::vector<runtime::BlockId> ids_;
};

/// Keeps what `visit(named)` finds on each device.
template <class Visit>
CUresult keep_found(const char* what, Visit&& visit) noexcept {
  CUresult kept = CUDA_SUCCESS;
  for_each_managed([&](const ManagedDevice& device) {
    if (kept != CUDA_SUCCESS) return;
    Named named(*device.runtime);
    visit(named);
    kept = named.keep(what);
  });
  return kept;
}

}  // namespace

CUresult keep_named_in(const Payload& payload, const char* what) noexcept {
  if (payload.from == nullptr) return CUDA_SUCCESS;
  return keep_found(what, [&](Named& named) {
    // A copy of its own stays in registers: add() cannot change it.
    const runtime::Arena::Finder finder = named.finder();
    for_each_word(payload, [&](std::uint64_t word) {
      if (finder.covers(word)) [[unlikely]]
        named.add(word);
    });
  });
}

CUresult keep_named_by(std::uint64_t value, const char* what) noexcept {
  return keep_found(what, [&](Named& named) {
    if (named.finder().covers(value)) named.add(value);
  });
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
