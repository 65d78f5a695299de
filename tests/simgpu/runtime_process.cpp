#include "tests/simgpu/runtime_process.h"

#include <cstdlib>

#include "tools/simgpu/machine/machine_file.h"

extern "C" void** __cudaRegisterFatBinary(void* wrapper);
extern "C" void __cudaRegisterFatBinaryEnd(void** handle);
extern "C" void __cudaRegisterFunction(void** handle, const char* stub, char* device_function,
                                       const char* device_name, int thread_limit, void* tid, void* bid,
                                       void* block, void* grid, int* warp_size);
extern "C" int simgpuRegisterKernel(const void* host_stub, const SimgpuKernelBody* body);

namespace simgpu_test {

void expect_error(cudaError_t got, cudaError_t want, const char* call, const char* file, int line) {
  if (got == want) return;
  expectation_failed(
      file, line, std::string(call) + " gives " + cudaGetErrorName(want) + ", not " + cudaGetErrorName(got));
}

void register_kernel(const void* stub, const char* name, const SimgpuKernelBody* body) {
  static char image[] = "simgpu";
  void** handle = __cudaRegisterFatBinary(image);
  __cudaRegisterFunction(handle, static_cast<const char*>(stub), nullptr, name, -1, nullptr, nullptr, nullptr,
                         nullptr, nullptr);
  simgpuRegisterKernel(stub, body);
  __cudaRegisterFatBinaryEnd(handle);
}

std::uint64_t refusals(const std::string& name) {
  const auto machine = simgpu::MachineFile::open(std::getenv(simgpu::MachineFile::kVariable));
  EXPECT(machine != nullptr);
  std::uint64_t count = 0;
  for (const simgpu::ProcessSlot& process : (*machine)->processes) {
    const auto& list = process.report.unsupported;
    for (std::uint32_t i = 0; i < list.used.load(); ++i) {
      if (name == list.rows[i].name) count += list.rows[i].count.load();
    }
  }
  return count;
}

}  // namespace simgpu_test
