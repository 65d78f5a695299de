#include "tests/simgpu_digest/device.h"

#include <sys/mman.h>

#include <algorithm>
#include <stdexcept>
#include <system_error>

namespace digest_test {
namespace {

/// Launch memory that is never protected.
class OpenMemory : public dg::LaunchMemory {
 public:
  using LaunchMemory::LaunchMemory;
  bool guarded(void (*work)(void*), void* argument) override {
    work(argument);
    return true;
  }
  bool refuses(const dg::StrayPointer& stray) override {
    strays.push_back(stray);
    return false;
  }

  std::vector<dg::StrayPointer> strays;
};

/// Below where the system puts mappings, and where the thread sanitizer lets them be.
constexpr std::uint64_t kLowestPlace = 0x7e90'0000'0000;
constexpr std::uint64_t kPlaces = 64;

}  // namespace

std::uint64_t Random::next() {
  std::uint64_t n = state_ += 0x9e3779b97f4a7c15U;
  n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9U;
  n = (n ^ (n >> 27)) * 0x94d049bb133111ebU;
  return n ^ (n >> 31);
}

Device::Device(std::size_t bytes, std::uint64_t garbage_seed, const std::string& roles) {
  const std::size_t words = bytes / 8 + 64;
  void* place = reinterpret_cast<void*>(kLowestPlace + (garbage_seed % kPlaces << 32));
  void* at = ::mmap(place, words * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  memory_ = {static_cast<std::uint64_t*>(at), Unmap{words * 8}};
  Random random(garbage_seed);
  std::generate_n(memory_.get(), words, [&] { return random.next(); });
  dg::ParsedRoles parsed = dg::parse_roles(roles, "roles");
  if (!parsed.error.empty()) throw std::runtime_error(parsed.error);
  roles_ = std::move(parsed.file);
}

void Device::Unmap::operator()(std::uint64_t* at) const {
  ::munmap(at, bytes);
}

std::uint64_t Device::address(std::size_t offset) const {
  const auto start = reinterpret_cast<std::uint64_t>(memory_.get());
  return (start + 511) / 512 * 512 + offset;
}

std::uint64_t Device::allocate(std::size_t offset, std::size_t bytes, std::uint32_t unit) {
  map.add(address(offset), bytes, unit, call());
  return address(offset);
}

void Device::free(std::uint64_t address) {
  map.remove(address, call());
}

void Device::copy_in(std::uint64_t to, const void* from, std::size_t n, std::uint64_t call) {
  std::memcpy(bytes(to), from, n);
  if (scan_payloads) {
    map.wrote_payload({to, to + n}, call);
  } else {
    map.wrote({to, to + n}, call);
  }
}

void Device::copy(std::uint64_t to, std::uint64_t from, std::size_t n, std::uint64_t call) {
  std::memmove(bytes(to), bytes(from), n);
  map.copied(to, {from, from + n}, call);
}

dg::Effect Device::launch(const std::string& kernel, std::array<std::uint32_t, 3> grid, const Params& params,
                          std::uint64_t call) {
  OpenMemory memory(map, call);
  const dg::KernelRoles bound = dg::bind(roles_, kernel, params.layout);
  dg::Effect effect = dg::run(bound, {grid, params.data}, stride, memory);
  strays = std::move(memory.strays);
  for (const dg::Touched& t : effect.touched) {
    if (writes(t.access)) map.wrote(t.span, call);
  }
  for (const dg::WrittenPointers& p : effect.pointers) map.wrote_pointers(p.address, p.words, call);
  return effect;
}

}  // namespace digest_test
