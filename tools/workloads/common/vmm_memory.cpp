#include <map>

#include "tools/workloads/common/check.h"
#include "tools/workloads/common/memory.h"

namespace workload {
namespace {

/// The driver's calls, as the runtime finds them: no program of this folder links libcuda.
struct Driver {
  decltype(&::cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&::cuMemAddressReserve) reserve = nullptr;
  decltype(&::cuMemAddressFree) unreserve = nullptr;
  decltype(&::cuMemCreate) create = nullptr;
  decltype(&::cuMemRelease) release = nullptr;
  decltype(&::cuMemMap) map = nullptr;
  decltype(&::cuMemUnmap) unmap = nullptr;
  decltype(&::cuMemSetAccess) set_access = nullptr;
};

template <class Function>
void find(const char* name, Function* out) {
  constexpr unsigned kVersion = 12000;
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status{};
  TP_CUDA(cudaGetDriverEntryPointByVersion(name, &found, kVersion, cudaEnableDefault, &status));
  if (status != cudaDriverEntryPointSuccess || found == nullptr) fail(name, "is not in this driver");
  *out = reinterpret_cast<Function>(found);
}

Driver find_driver() {
  Driver driver;
  find("cuMemGetAllocationGranularity", &driver.granularity);
  find("cuMemAddressReserve", &driver.reserve);
  find("cuMemAddressFree", &driver.unreserve);
  find("cuMemCreate", &driver.create);
  find("cuMemRelease", &driver.release);
  find("cuMemMap", &driver.map);
  find("cuMemUnmap", &driver.unmap);
  find("cuMemSetAccess", &driver.set_access);
  return driver;
}

class VmmMemory final : public Memory {
 public:
  explicit VmmMemory(cudaStream_t main) : main_(main), driver_(find_driver()) {
    int device = 0;
    TP_CUDA(cudaGetDevice(&device));
    properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties_.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties_.location.id = device;
    check(driver_.granularity(&piece_bytes_, &properties_, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
          "cuMemGetAllocationGranularity");
  }
  ~VmmMemory() override = default;

  void* allocate(std::size_t bytes) override {
    bytes = round_up(bytes, kAlignment);
    if (bytes > piece_bytes_ / 2) return reinterpret_cast<void*>(map(bytes)->first);
    for (auto& [base, region] : regions_) {
      if (region.shared && region.bytes - region.used >= bytes) return take(base, region, bytes);
    }
    const auto made = map(piece_bytes_);
    made->second.shared = true;
    made->second.used = 0;
    made->second.arrays = 0;
    return take(made->first, made->second, bytes);
  }

  void release(void* memory) override {
    const auto it = std::prev(regions_.upper_bound(reinterpret_cast<CUdeviceptr>(memory)));
    if (--it->second.arrays > 0) return;
    // cuMemUnmap does not wait for work that uses the memory.
    TP_CUDA(cudaStreamSynchronize(main_));
    check(driver_.unmap(it->first, it->second.bytes), "cuMemUnmap");
    check(driver_.release(it->second.handle), "cuMemRelease");
    check(driver_.unreserve(it->first, it->second.bytes), "cuMemAddressFree");
    regions_.erase(it);
  }

 private:
  static constexpr std::size_t kAlignment = 256;

  /// A mapped range of addresses. Space in a shared one is handed out once and comes back all together.
  struct Region {
    std::size_t bytes;
    std::size_t used;
    CUmemGenericAllocationHandle handle;
    int arrays;
    bool shared;
  };
  using Regions = std::map<CUdeviceptr, Region>;

  static std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

  static void* take(CUdeviceptr base, Region& region, std::size_t bytes) {
    const CUdeviceptr address = base + region.used;
    region.used += bytes;
    ++region.arrays;
    return reinterpret_cast<void*>(address);
  }

  /// Maps a range for one array.
  Regions::iterator map(std::size_t bytes) {
    Region region{round_up(bytes, piece_bytes_), 0, 0, 0, false};
    CUdeviceptr base = 0;
    check(driver_.reserve(&base, region.bytes, 0, 0, 0), "cuMemAddressReserve");
    check(driver_.create(&region.handle, region.bytes, &properties_, 0), "cuMemCreate");
    check(driver_.map(base, region.bytes, 0, region.handle, 0), "cuMemMap");
    const CUmemAccessDesc access{properties_.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    check(driver_.set_access(base, region.bytes, &access, 1), "cuMemSetAccess");
    region.used = region.bytes;
    region.arrays = 1;
    return regions_.emplace(base, region).first;
  }

  cudaStream_t main_;
  Driver driver_;
  CUmemAllocationProp properties_{};
  std::size_t piece_bytes_ = 0;
  Regions regions_;
};

}  // namespace

std::unique_ptr<Memory> make_vmm_memory(cudaStream_t main) {
  return std::make_unique<VmmMemory>(main);
}

}  // namespace workload
