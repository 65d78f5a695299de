#include "tools/simgpu/driver/library.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include "tools/simgpu/driver/known_bodies.h"
#include "tools/simgpu/driver/report.h"
#include "tools/simgpu/fatbin/memory.h"

namespace simgpu {
namespace {

using fatbin::Capability;
using fatbin::Problem;

/// The newest PTX that the driver of CUDA 13.0 compiles.
constexpr int kPtxMajor = 9;
constexpr int kPtxMinor = 0;

Capability capability_of(const Gpu& gpu) {
  return {gpu.config.compute_major, gpu.config.compute_minor};
}

std::string text_of(Capability capability) {
  return std::to_string(capability.major) + "." + std::to_string(capability.minor);
}

CUresult result_of(Problem problem, bool from_ptx) {
  if (problem == Problem::kNone) return CUDA_SUCCESS;
  if (problem == Problem::kNothingFits) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  return from_ptx ? CUDA_ERROR_INVALID_PTX : CUDA_ERROR_INVALID_IMAGE;
}

void report_unreadable(Problem problem) {
  report_error(std::string("an image of device code cannot be read: ") + describe(problem) +
               "; none of its kernels can be used; build the program or library that it came from again");
}

void report_new_ptx(const fatbin::Entry& entry) {
  report_error("an image has PTX " + std::to_string(entry.ptx_major) + "." + std::to_string(entry.ptx_minor) +
               ", and the device compiles PTX up to " + std::to_string(kPtxMajor) + "." +
               std::to_string(kPtxMinor) +
               "; none of its kernels can be used; compile it for the device itself, or with an older nvcc");
}

bool too_new(const fatbin::Entry& entry) {
  return entry.kind == fatbin::Kind::kPtx &&
         (entry.ptx_major > kPtxMajor || (entry.ptx_major == kPtxMajor && entry.ptx_minor > kPtxMinor));
}

/// "simgpu" in place of an image.
bool is_empty_image(const ImageSource& source) {
  constexpr char kText[] = "simgpu";
  return source.bytes.empty() && fatbin::readable(source.pointer, sizeof kText) &&
         std::memcmp(source.pointer, kText, sizeof kText) == 0;
}

CUresult choose_for(const ImageSource& source, Capability capability, Library& library) {
  auto image = std::make_unique<DeviceImage>();
  image->capability = capability;
  const Problem problem =
      source.bytes.empty()
          ? fatbin::ChosenImage::choose(source.pointer, capability, source.preserved, &image->chosen)
          : fatbin::ChosenImage::choose(source.bytes, capability, source.preserved, &image->chosen);
  if (problem != Problem::kNone && problem != Problem::kNothingFits) {
    report_unreadable(problem);
    return result_of(problem, false);
  }
  image->result = result_of(problem, false);
  if (problem == Problem::kNone && too_new(image->chosen.best())) {
    report_new_ptx(image->chosen.best());
    image->result = CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
  }
  library.images.push_back(std::move(image));
  return CUDA_SUCCESS;
}

void add_kernel(Driver& d, Library& library, const fatbin::KernelFacts& facts) {
  std::unique_ptr<Kernel>& kernel = library.kernels[facts.name];
  if (kernel != nullptr) return;
  kernel = std::make_unique<Kernel>();
  kernel->name = facts.name;
  kernel->library = &library;
  kernel->params_known = facts.params_known;
  kernel->loaded = eager_loading();
  for (const fatbin::Param& param : facts.params) kernel->params.push_back({param.offset, param.size});
  kernel->body = known_body_for(*kernel);
  d.kernels.emplace(kernel->kernel(), kernel.get());
  d.kernels.emplace(kernel->function(), kernel.get());
}

void read_image(Driver& d, Library& library, DeviceImage& image) {
  if (image.result != CUDA_SUCCESS) return;
  const Problem problem = image.chosen.read(&image.facts);
  if (problem != Problem::kNone) {
    report_unreadable(problem);
    image.result = result_of(problem, image.chosen.best().kind == fatbin::Kind::kPtx);
    return;
  }
  for (const fatbin::KernelFacts& facts : image.facts.kernels) {
    image.kernels.emplace(facts.name, &facts);
    add_kernel(d, library, facts);
  }
}

}  // namespace

bool eager_loading() {
  static const bool eager = [] {
    const char* mode = std::getenv("CUDA_MODULE_LOADING");
    return mode != nullptr && std::strcmp(mode, "EAGER") == 0;
  }();
  return eager;
}

void report_nothing_fits(Capability capability) {
  const std::string number = std::to_string(capability.major * 10 + capability.minor);
  report_error("an image has no code for a device of compute capability " + text_of(capability) +
               "; none of its kernels can be used there; compile it with -gencode arch=compute_" + number +
               ",code=sm_" + number + ", or choose another --device");
}

CUresult load_library(Driver& d, const ImageSource& source, Context* owner, Library** out) {
  auto library = std::make_shared<Library>();
  library->owner = owner;
  if (!is_empty_image(source)) {
    for (const auto& gpu : d.gpus) {
      if ((owner != nullptr && owner->gpu != gpu.get()) || image_for(*library, *gpu) != nullptr) continue;
      const CUresult chosen = choose_for(source, capability_of(*gpu), *library);
      if (chosen != CUDA_SUCCESS) return chosen;
    }
    CUresult usable = CUDA_ERROR_NO_BINARY_FOR_GPU;
    for (const auto& image : library->images) {
      if (image->result == CUDA_ERROR_NO_BINARY_FOR_GPU) continue;
      if (usable != CUDA_SUCCESS) usable = image->result;
    }
    if (usable == CUDA_ERROR_NO_BINARY_FOR_GPU) report_nothing_fits(library->images.front()->capability);
    if (usable != CUDA_SUCCESS) return usable;
  }
  if (owner != nullptr || eager_loading()) {
    CUresult result = read_library(d, *library);
    if (result == CUDA_SUCCESS && owner != nullptr) result = load_into(d, *owner, *library);
    if (result != CUDA_SUCCESS) {
      unload_library(d, *library);
      return result;
    }
  }
  *out = library.get();
  d.libraries.emplace(reinterpret_cast<CUlibrary>(library.get()), std::move(library));
  return CUDA_SUCCESS;
}

CUresult read_library(Driver& d, Library& library) {
  if (!library.read) {
    library.read = true;
    for (const auto& image : library.images) read_image(d, library, *image);
  }
  if (library.images.empty()) return CUDA_SUCCESS;
  CUresult result = CUDA_ERROR_NO_BINARY_FOR_GPU;
  for (const auto& image : library.images) {
    if (image->result == CUDA_SUCCESS) return CUDA_SUCCESS;
    if (image->result != CUDA_ERROR_NO_BINARY_FOR_GPU) result = image->result;
  }
  return result;
}

void unload_library(Driver& d, Library& library) {
  for (auto& [name, kernel] : library.kernels) {
    d.kernels.erase(kernel->kernel());
    d.kernels.erase(kernel->function());
  }
  for (const auto& data : library.data) {
    // A context that ended has taken its memory along.
    const bool alive = data->context->alive && data->context->id == data->context_id;
    if (alive && data->block != 0) d.heap.free(data->block);
  }
  for (const auto& [name, variable] : library.managed) {
    d.host.free(reinterpret_cast<void*>(variable.address));
  }
  d.libraries.erase(reinterpret_cast<CUlibrary>(&library));
}

const DeviceImage* image_for(const Library& library, const Gpu& gpu) {
  const Capability wanted = capability_of(gpu);
  for (const auto& image : library.images) {
    if (image->capability.major == wanted.major && image->capability.minor == wanted.minor)
      return image.get();
  }
  return nullptr;
}

const fatbin::KernelFacts* facts_of(const Kernel& kernel, const Gpu& gpu) {
  const DeviceImage* image = image_for(*kernel.library, gpu);
  if (image == nullptr) return nullptr;
  const auto found = image->kernels.find(kernel.name);
  return found == image->kernels.end() ? nullptr : found->second;
}

}  // namespace simgpu
