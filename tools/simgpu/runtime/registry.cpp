#include "tools/simgpu/runtime/registry.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tools/simgpu/runtime/runtime.h"

namespace simgpu::runtime {
namespace {

struct ManagedVariable {
  void** host_pointer = nullptr;
  std::string name;
};

struct FatBinary {
  const void* image = nullptr;
  CUlibrary library = nullptr;
  std::vector<ManagedVariable> managed;
  std::atomic<bool> managed_ready = false;
  std::vector<const void*> stubs;
  std::vector<const void*> variables;
};

struct Function {
  FatBinary* binary = nullptr;
  std::string name;
  CUkernel kernel = nullptr;
};

struct Variable {
  FatBinary* binary = nullptr;
  std::string name;
};

struct Registry {
  std::mutex mutex;
  std::unordered_map<const void*, std::unique_ptr<FatBinary>> binaries;  ///< by handle
  std::unordered_map<const void*, Function> functions;                   ///< by host stub
  std::unordered_map<const void*, Variable> variables;              ///< by host variable; managed by address
  std::unordered_map<const void*, const SimgpuKernelBody*> bodies;  ///< by host stub
  std::unordered_map<const void*, const void*> stubs;               ///< host stubs by kernel
  std::unordered_set<const void*> kernels;                          ///< handles that the program has
};

/// Leaked: start-up code of any library may come before, and exit handlers after, everything static.
Registry& registry() {
  static auto* made = new Registry;
  return *made;
}

const SimgpuKernelBody* body_of(const Registry& r, const void* stub) {
  const auto it = r.bodies.find(stub);
  return it == r.bodies.end() ? nullptr : it->second;
}

/// Managed variables exist once the library is loaded into a context.
CUresult point_to_managed(Registry& r, const DriverTable& d, FatBinary& binary) {
  if (binary.managed_ready) return CUDA_SUCCESS;
  if (!binary.managed.empty()) {
    CUmodule module = nullptr;
    const CUresult loaded = d.cuLibraryGetModule(&module, binary.library);
    if (loaded != CUDA_SUCCESS) return loaded;
  }
  for (const ManagedVariable& variable : binary.managed) {
    CUdeviceptr address = 0;
    const CUresult found = d.cuLibraryGetManaged(&address, nullptr, binary.library, variable.name.c_str());
    if (found != CUDA_SUCCESS) return found;
    *variable.host_pointer = reinterpret_cast<void*>(address);
    binary.variables.push_back(*variable.host_pointer);
    r.variables[*variable.host_pointer] = Variable{&binary, variable.name};
  }
  binary.managed_ready = true;
  return CUDA_SUCCESS;
}

CUresult load(Registry& r, const DriverTable& d, FatBinary& binary) {
  if (binary.library == nullptr) {
    // Fat binaries are parts of programs and libraries, and are unregistered before these go.
    CUlibraryOption option = CU_LIBRARY_BINARY_IS_PRESERVED;
    void* value = nullptr;
    const CUresult loaded =
        d.cuLibraryLoadData(&binary.library, binary.image, nullptr, nullptr, 0, &option, &value, 1);
    if (loaded != CUDA_SUCCESS) return loaded;
  }
  return point_to_managed(r, d, binary);
}

/// Loads the function's library if needed and asks for its kernel.
CUresult resolve(Registry& r, const DriverTable& d, const void* stub, Function& function) {
  FatBinary& binary = *function.binary;
  const CUresult loaded = load(r, d, binary);
  if (loaded != CUDA_SUCCESS) return loaded;
  if (d.set_body != nullptr) {
    const int set = d.set_body(binary.library, function.name.c_str(), body_of(r, stub));
    if (set != CUDA_SUCCESS) return static_cast<CUresult>(set);
  }
  const CUresult found = d.cuLibraryGetKernel(&function.kernel, binary.library, function.name.c_str());
  if (found == CUDA_SUCCESS) r.stubs[function.kernel] = stub;
  return found;
}

}  // namespace

void** add_fat_binary(const void* wrapper) {
  Registry& r = registry();
  auto binary = std::make_unique<FatBinary>();
  binary->image = wrapper;
  void** handle = reinterpret_cast<void**>(binary.get());
  const std::scoped_lock lock(r.mutex);
  r.binaries.emplace(handle, std::move(binary));
  return handle;
}

void add_function(void** handle, const void* host_stub, const char* device_name) {
  Registry& r = registry();
  const std::scoped_lock lock(r.mutex);
  const auto it = r.binaries.find(handle);
  if (it == r.binaries.end()) return;
  it->second->stubs.push_back(host_stub);
  r.functions[host_stub] = Function{it->second.get(), device_name, nullptr};
}

void add_variable(void** handle, const void* host_variable, const char* device_name) {
  Registry& r = registry();
  const std::scoped_lock lock(r.mutex);
  const auto it = r.binaries.find(handle);
  if (it == r.binaries.end()) return;
  it->second->variables.push_back(host_variable);
  r.variables[host_variable] = Variable{it->second.get(), device_name};
}

void add_managed_variable(void** handle, void** host_pointer, const char* device_name) {
  Registry& r = registry();
  const std::scoped_lock lock(r.mutex);
  const auto it = r.binaries.find(handle);
  if (it != r.binaries.end()) it->second->managed.push_back({host_pointer, device_name});
}

void add_kernel(CUkernel kernel) {
  Registry& r = registry();
  const std::scoped_lock lock(r.mutex);
  r.kernels.insert(kernel);
}

void add_body(const void* host_stub, const SimgpuKernelBody* body) {
  Registry& r = registry();
  const std::scoped_lock lock(r.mutex);
  r.bodies[host_stub] = body;
  const auto it = r.functions.find(host_stub);
  if (it == r.functions.end() || it->second.kernel == nullptr) return;
  // Launched before its body was known: tell the driver now.
  cudaError_t why = cudaSuccess;
  const DriverTable* d = driver(false, &why);
  if (d != nullptr && d->set_body != nullptr)
    d->set_body(it->second.binary->library, it->second.name.c_str(), body);
}

namespace {

/// Takes the binary and all that belongs to it out of the registry.
std::unique_ptr<FatBinary> take_out(void** handle) {
  Registry& r = registry();
  const std::scoped_lock lock(r.mutex);
  const auto it = r.binaries.find(handle);
  if (it == r.binaries.end()) return nullptr;
  std::unique_ptr<FatBinary> taken = std::move(it->second);
  const FatBinary& binary = *taken;
  for (const void* stub : binary.stubs) {
    const auto function = r.functions.find(stub);
    if (function == r.functions.end() || function->second.binary != &binary) continue;
    r.stubs.erase(function->second.kernel);
    r.functions.erase(function);
    r.bodies.erase(stub);
  }
  for (const void* variable : binary.variables) r.variables.erase(variable);
  r.binaries.erase(it);
  return taken;
}

}  // namespace

void forget_fat_binary(void** handle) {
  const std::unique_ptr<FatBinary> binary = take_out(handle);
  if (binary == nullptr || binary->library == nullptr || exiting()) return;
  cudaError_t why = cudaSuccess;
  // Not with the registry locked: unloading waits for host functions, and these for threads that launch.
  if (const DriverTable* d = driver(false, &why)) d->cuLibraryUnload(binary->library);
}

CUresult find_kernel(const DriverTable& d, const void* stub_or_kernel, CUkernel* out) {
  Registry& r = registry();
  const std::scoped_lock lock(r.mutex);
  const auto it = r.functions.find(stub_or_kernel);
  if (it == r.functions.end()) {
    if (r.kernels.count(stub_or_kernel) == 0 && r.stubs.count(stub_or_kernel) == 0)
      return CUDA_ERROR_INVALID_HANDLE;
    *out = static_cast<CUkernel>(const_cast<void*>(stub_or_kernel));
    return CUDA_SUCCESS;
  }
  if (it->second.kernel == nullptr) {
    const CUresult resolved = resolve(r, d, stub_or_kernel, it->second);
    if (resolved != CUDA_SUCCESS) return resolved;
  }
  *out = it->second.kernel;
  return CUDA_SUCCESS;
}

CUresult make_managed_variables(const DriverTable& d, void** handle) {
  Registry& r = registry();
  const std::scoped_lock lock(r.mutex);
  const auto it = r.binaries.find(handle);
  return it == r.binaries.end() ? CUDA_ERROR_INVALID_HANDLE : load(r, d, *it->second);
}

bool has_managed_variables_ready(void** handle) {
  return handle != nullptr && reinterpret_cast<const FatBinary*>(handle)->managed_ready;
}

CUresult find_variable(const DriverTable& d, const void* host_variable, CUdeviceptr* out,
                       std::size_t* bytes) {
  Registry& r = registry();
  const std::scoped_lock lock(r.mutex);
  const auto it = r.variables.find(host_variable);
  if (it == r.variables.end()) return CUDA_ERROR_INVALID_HANDLE;
  FatBinary& binary = *it->second.binary;
  const CUresult loaded = load(r, d, binary);
  if (loaded != CUDA_SUCCESS) return loaded;
  return d.cuLibraryGetGlobal(out, bytes, binary.library, it->second.name.c_str());
}

const void* host_stub_of(const void* kernel) {
  Registry& r = registry();
  const std::scoped_lock lock(r.mutex);
  const auto it = r.stubs.find(kernel);
  return it == r.stubs.end() ? kernel : it->second;
}

}  // namespace simgpu::runtime
