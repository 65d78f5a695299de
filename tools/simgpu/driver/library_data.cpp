#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "tools/simgpu/driver/library.h"
#include "tools/simgpu/driver/readable_name.h"
#include "tools/simgpu/driver/report.h"

/// The variables of libraries in the memory of devices.
namespace simgpu {
namespace {

/// Variables do not start where their block does, so that no address of one can be given to cuMemFree.
constexpr std::uint64_t kFirstVariable = 512;
/// Of every segment at least, as of plain allocations.
constexpr std::uint64_t kSegmentAlignment = 512;
/// The most that a segment may ask for: how much further the end can be in a block that starts elsewhere.
constexpr std::uint64_t kLargestAlignment = 4096;

constexpr std::uint64_t aligned_to(std::uint64_t n, std::uint64_t unit) {
  return (n + unit - 1) / unit * unit;
}

/// Where each segment lies, with the block at `start`; *end is behind the last. False if all together are
/// larger than the device.
bool place_segments(const fatbin::ModuleFacts& facts, std::uint64_t start, std::uint64_t capacity,
                    std::vector<std::uint64_t>* addresses, std::uint64_t* end) {
  addresses->clear();
  *end = start + kFirstVariable;
  for (const fatbin::Segment& segment : facts.segments) {
    const std::uint64_t address = aligned_to(*end, std::max(segment.align, kSegmentAlignment));
    if (address - start > capacity || segment.size > capacity - (address - start)) return false;
    addresses->push_back(address);
    *end = address + segment.size;
  }
  return true;
}

/// False if the host has no memory for them.
bool write_initial_values(AddressSpace& space, const fatbin::ModuleFacts& facts, const LibraryData& data,
                          std::uint64_t end) {
  // The memory is new: nothing on the device can be using it, so this needs no place in any queue.
  const TouchResult touch = space.touch(data.block, end - data.block);
  if (touch != TouchResult::kReady) {
    if (refused(touch)) report_error(refusal(touch, "a module's variables have none, and it was not loaded"));
    return false;
  }
  std::memset(reinterpret_cast<void*>(data.block), 0, end - data.block);
  for (std::size_t i = 0; i < facts.segments.size(); ++i) {
    const std::vector<std::byte>& initial = facts.segments[i].initial;
    if (!initial.empty())
      std::memcpy(reinterpret_cast<void*>(data.segments[i]), initial.data(), initial.size());
  }
  for (const fatbin::Relocation& r : facts.relocations) {
    auto* word = reinterpret_cast<std::byte*>(data.segments[r.segment] + r.offset);
    std::uint64_t value = 0;
    std::memcpy(&value, word, sizeof value);
    value += data.segments[r.target_segment] + r.target_offset;
    std::memcpy(word, &value, sizeof value);
  }
  return true;
}

const LibraryData* data_in(const Library& library, const Context& context) {
  for (const auto& data : library.data) {
    if (data->context == &context && data->context_id == context.id) return data.get();
  }
  return nullptr;
}

/// Gives managed memory to the managed variables that have none yet. Those of an earlier context are kept,
/// with what is in them: "allocated only once, and not per GPU".
CUresult make_managed_variables(Driver& d, Context& context, const DeviceImage& image,
                                const LibraryData& data, Library& library) {
  for (const fatbin::VariableFacts& variable : image.facts.variables) {
    if (!variable.managed || variable.size == 0 || library.managed.count(variable.name) != 0) continue;
    void* memory = nullptr;
    const CUresult result = d.host.allocate(variable.size, CU_MEMHOSTALLOC_PORTABLE, &context, &memory);
    if (result != CUDA_SUCCESS) return result;
    const auto address = reinterpret_cast<std::uint64_t>(memory);
    PinnedRange* range = d.host.range_at(address);
    range->managed = range->variable = true;
    library.managed.emplace(variable.name, ManagedVariable{address, variable.size});
    // Behind its segment's initial values a variable is zero, as new memory is.
    const std::uint64_t initial = image.facts.segments[variable.segment].initial.size();
    if (initial <= variable.offset) continue;
    std::memcpy(memory, reinterpret_cast<const void*>(data.segments[variable.segment] + variable.offset),
                std::min(variable.size, initial - variable.offset));
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult load_into(Driver& d, Context& context, Library& library) {
  if (library.images.empty() || data_in(library, context) != nullptr) return CUDA_SUCCESS;
  if (const CUresult read = read_library(d, library); read != CUDA_SUCCESS) return read;
  const DeviceImage* image = image_for(library, *context.gpu);
  if (image == nullptr) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  if (image->result == CUDA_ERROR_NO_BINARY_FOR_GPU && !std::exchange(image->is_told, true))
    report_nothing_fits(image->capability);
  if (image->result != CUDA_SUCCESS) return image->result;
  auto data = std::make_unique<LibraryData>();
  data->context = &context;
  data->context_id = context.id;
  if (!image->facts.segments.empty()) {
    const std::uint64_t capacity = context.gpu->physical.capacity();
    std::uint64_t end = 0;
    if (!place_segments(image->facts, 0, capacity, &data->segments, &end)) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult allocated = d.heap.allocate(end + kLargestAlignment, &context, &data->block);
    if (allocated != CUDA_SUCCESS) return allocated;
    static_cast<void>(
        place_segments(image->facts, data->block, capacity + kLargestAlignment, &data->segments, &end));
    const bool written = write_initial_values(d.space, image->facts, *data, end);
    const CUresult made =
        written ? make_managed_variables(d, context, *image, *data, library) : CUDA_ERROR_OUT_OF_MEMORY;
    if (made != CUDA_SUCCESS) {
      static_cast<void>(d.heap.free(data->block));
      return made;
    }
  }
  library.data.push_back(std::move(data));
  return CUDA_SUCCESS;
}

CUresult find_variable(Driver& d, Context& context, Library& library, const char* name,
                       std::uint64_t* address, std::uint64_t* size) {
  if (const CUresult loaded = load_into(d, context, library); loaded != CUDA_SUCCESS) return loaded;
  const DeviceImage* image = image_for(library, *context.gpu);
  if (image == nullptr) return CUDA_ERROR_NOT_FOUND;
  const auto& variables = image->facts.variables;
  const auto found = std::find_if(variables.begin(), variables.end(),
                                  [&](const fatbin::VariableFacts& v) { return v.name == name; });
  if (found == variables.end()) return CUDA_ERROR_NOT_FOUND;
  if (!found->initial_known) {
    report_error(
        "variable '" + readable_name(found->name) +
        "' has an initial value in PTX that simgpu does not understand; it cannot be used; compile it "
        "for the device itself (-gencode arch=…,code=sm_…)");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (const auto managed = library.managed.find(found->name); managed != library.managed.end()) {
    *address = managed->second.address;
    *size = managed->second.size;
    return CUDA_SUCCESS;
  }
  *address = data_in(library, context)->segments[found->segment] + found->offset;
  *size = found->size;
  return CUDA_SUCCESS;
}

}  // namespace simgpu
