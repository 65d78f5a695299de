#include "tools/simgpu/driver/plain_heap.h"

#include <iterator>
#include <vector>

#include "tools/simgpu/driver/gpu.h"
#include "tools/simgpu/driver/program_memory.h"
#include "tools/simgpu/driver/round_up.h"

namespace simgpu {
namespace {

constexpr std::uint64_t kLargestShared = std::uint64_t{1} << 20;

}  // namespace

CUresult PlainHeap::map_segment(Physical* physical, std::uint64_t* base) {
  const std::uint64_t bytes = physical->size;
  CUresult result = space_.reserve(bytes, 0, 0, true, base);
  if (result != CUDA_SUCCESS) return result;
  result = space_.map(*base, physical, true);
  if (result == CUDA_SUCCESS) {
    result = space_.set_access(*base, bytes, physical->memory->ordinal(), CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
                               true);
  }
  if (result != CUDA_SUCCESS) drop_segment(*base, bytes);
  return result;
}

CUresult PlainHeap::new_segment(Gpu& gpu, std::uint64_t bytes, std::uint64_t* base) {
  Physical* physical = nullptr;
  CUresult result = gpu.physical.create(bytes, true, &physical);
  if (result != CUDA_SUCCESS) return result;
  result = map_segment(physical, base);
  gpu.physical.drop_handle(physical);
  return result;
}

void PlainHeap::drop_segment(std::uint64_t base, std::uint64_t bytes) {
  space_.unmap(base, bytes, true);
  space_.free_reservation(base, bytes, true);
}

CUresult PlainHeap::from_slab(Gpu& gpu, std::uint64_t rounded, std::uint64_t* base, std::uint64_t* segment) {
  for (auto& [start, slab] : slabs_) {
    if (slab.gpu != &gpu) continue;
    if (const auto gap = slab.used.first_gap(start, rounded, start + kFrameBytes)) {
      slab.used.add(*gap, *gap + rounded);
      *base = *gap;
      *segment = start;
      return CUDA_SUCCESS;
    }
  }
  const CUresult result = new_segment(gpu, kFrameBytes, segment);
  if (result != CUDA_SUCCESS) return result;
  *base = *segment;
  Slab& slab = slabs_[*segment];
  slab.gpu = &gpu;
  slab.used.add(*base, *base + rounded);
  return CUDA_SUCCESS;
}

CUresult PlainHeap::allocate(std::uint64_t size, Context* owner, std::uint64_t* out) {
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  Gpu& gpu = *owner->gpu;
  if (size > gpu.physical.capacity()) return CUDA_ERROR_OUT_OF_MEMORY;
  PlainBlock block;
  block.size = size;
  block.owner = owner;
  CUresult result = CUDA_SUCCESS;
  if (size > kLargestShared) {
    block.rounded = round_up(size, kFrameBytes);
    result = new_segment(gpu, block.rounded, &block.base);
    block.segment = block.base;
  } else {
    block.rounded = round_up(size, kAllocationAlignment);
    result = from_slab(gpu, block.rounded, &block.base, &block.segment);
    if (result == CUDA_SUCCESS) space_.poison(block.base, block.rounded);
  }
  if (result != CUDA_SUCCESS) return result;
  block.id = next_id_++;
  blocks_.emplace(block.base, block);
  program_.allocated(block.base, size);
  *out = block.base;
  return CUDA_SUCCESS;
}

CUresult PlainHeap::import(Physical* physical, std::uint64_t offset, std::uint64_t size, Context* owner,
                           std::uint64_t* out) {
  PlainBlock block;
  block.size = size;
  block.rounded = physical->size;
  block.owner = owner;
  block.imported = true;
  const CUresult result = map_segment(physical, &block.segment);
  physical->memory->drop_handle(physical);
  if (result != CUDA_SUCCESS) return result;
  block.base = block.segment + offset;
  block.id = next_id_++;
  blocks_.emplace(block.base, block);
  program_.imported(block.base, size);
  *out = block.base;
  return CUDA_SUCCESS;
}

CUresult PlainHeap::free(std::uint64_t base) {
  const auto it = blocks_.find(base);
  if (it == blocks_.end()) return CUDA_ERROR_INVALID_VALUE;
  const PlainBlock block = it->second;
  retire(base);
  if (block.imported || block.rounded > kLargestShared) {
    drop_segment(block.segment, block.rounded);
    return CUDA_SUCCESS;
  }
  const auto slab = slabs_.find(block.segment);
  slab->second.used.remove(block.base, block.base + block.rounded);
  if (slab->second.used.total() == 0) {
    slabs_.erase(slab);
    drop_segment(block.segment, kFrameBytes);
  }
  return CUDA_SUCCESS;
}

void PlainHeap::adopt(PlainBlock block) {
  block.id = next_id_++;
  program_.allocated(block.base, block.size);
  blocks_.emplace(block.base, block);
}

void PlainHeap::set_freeing(std::uint64_t base) {
  blocks_.at(base).freeing = true;
  program_.freed(base, 1);
}

void PlainHeap::retire(std::uint64_t base) {
  const auto it = blocks_.find(base);
  freed_.add({base, it->second.size}, it->second.rounded);
  blocks_.erase(it);
  program_.freed(base, 1);
}

std::vector<PlainBlock> PlainHeap::blocks_of(const Context* owner) const {
  std::vector<PlainBlock> found;
  for (const auto& [base, block] : blocks_) {
    if (block.owner == owner) found.push_back(block);
  }
  return found;
}

const PlainBlock* PlainHeap::block_at(std::uint64_t address) const {
  const auto it = blocks_.upper_bound(address);
  if (it == blocks_.begin()) return nullptr;
  const PlainBlock& block = std::prev(it)->second;
  return address < block.base + block.size ? &block : nullptr;
}

}  // namespace simgpu
