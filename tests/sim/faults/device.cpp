#include "tests/sim/faults/device.h"

#include "simgpu/kernel.h"

namespace tidepool::faults {
namespace {

struct Mark {
  template <class C>
  static void run(C& c, unsigned* out, unsigned value) {
    c.writes(out, sizeof(unsigned) * c.block_threads());
    c.phase([&](unsigned tid) { out[tid] = value + tid; });
  }
};

}  // namespace

const char* const kImage = R"(.version 7.0
.target sm_75
.address_size 64
.visible .entry mark(.param .u64 mark_param_0, .param .u32 mark_param_1)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [mark_param_0];
  ld.param.u32 %r1, [mark_param_1];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r2, %tid.x;
  add.u32 %r3, %r1, %r2;
  mul.wide.u32 %rd3, %r2, 4;
  add.s64 %rd4, %rd2, %rd3;
  st.global.u32 [%rd4], %r3;
  ret;
}
)";

void give_body(void* loaded) {
  void* const found = ::dlsym(RTLD_DEFAULT, "simgpuLibrarySetBody");
  if (found == nullptr) return;
  EXPECT(reinterpret_cast<SimgpuLibrarySetBodyFn>(found)(
             loaded, "mark", simgpu::kernel_body<Mark, unsigned*, unsigned>()) == 0);
}

Pinned::Pinned() {
  void* memory = nullptr;
  CALL(cuMemHostAlloc)(&memory, kWords * sizeof(unsigned), 0u);
  words = static_cast<unsigned*>(memory);
}

Pinned::~Pinned() {
  CALL(cuMemFreeHost)(static_cast<void*>(words));
}

Device::Device() {
  CALL(cuDevicePrimaryCtxRetain)(&context, 0);
  CALL(cuCtxSetCurrent)(context);
  CALL(cuStreamCreate)(&stream, unsigned{CU_STREAM_NON_BLOCKING});
  CALL(cuModuleLoadData)(&module_, static_cast<const void*>(kImage));
  give_body(module_);
  CALL(cuModuleGetFunction)(&mark, module_, "mark");
  CALL(cuMemAlloc_v2)(&small_, std::size_t{4096});
  write(small_, 7);
  for (unsigned i = 0; i < kBlocks; ++i) {
    CALL(cuMemAlloc_v2)(&blocks_[i], kSize);
    values_[i] = 1000 * i;
    write(blocks_[i], values_[i]);
    write(blocks_[i] + kSize / 2, values_[i] + 1);
  }
}

Device::~Device() {
  for (unsigned i = 0; i < kBlocks; ++i) {
    expect(blocks_[i], values_[i]);
    expect(blocks_[i] + kSize / 2, values_[i] + 1);
    CALL(cuMemFree_v2)(blocks_[i]);
  }
  expect(small_, 7);
  CALL(cuMemFree_v2)(small_);
  CALL(cuModuleUnload)(module_);
  CALL(cuStreamDestroy_v2)(stream);
  CALL(cuDevicePrimaryCtxRelease_v2)(0);
}

void Device::write(CUdeviceptr at, unsigned value) const {
  void* params[] = {&at, &value};
  CALL(cuLaunchKernel)
  (mark, 1u, 1u, 1u, kWords, 1u, 1u, 0u, stream, static_cast<void**>(params), static_cast<void**>(nullptr));
}

void Device::wait() const {
  CALL(cuStreamSynchronize)(stream);
}

void Device::expect(CUdeviceptr at, unsigned value) const {
  std::vector<unsigned> read(kWords);
  wait();
  CALL(cuMemcpyDtoH_v2)(static_cast<void*>(read.data()), at, kWords * sizeof(unsigned));
  for (unsigned i = 0; i < kWords; ++i) EXPECT(read[i] == value + i);
}

void Device::turn(unsigned round) {
  const unsigned now = round % kWritten;
  const unsigned then = (3 * round + 5) % kBlocks;
  expect(blocks_[then], values_[then]);
  expect(blocks_[then] + kSize / 2, values_[then] + 1);
  values_[now] = 1000 * now + 7 * round;
  write(blocks_[now], values_[now]);
  write(blocks_[now] + kSize / 2, values_[now] + 1);
}

}  // namespace tidepool::faults
