#include "tests/simgpu_digest/device.h"

#include <stdexcept>

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

}  // namespace

std::uint64_t Random::next() {
  std::uint64_t n = state_ += 0x9e3779b97f4a7c15U;
  n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9U;
  n = (n ^ (n >> 27)) * 0x94d049bb133111ebU;
  return n ^ (n >> 31);
}

Device::Device(std::size_t bytes, std::uint64_t garbage_seed, const std::string& roles)
    : memory_(bytes / 8 + 64) {
  Random random(garbage_seed);
  for (std::uint64_t& word : memory_) word = random.next();
  dg::ParsedRoles parsed = dg::parse_roles(roles, "roles");
  if (!parsed.error.empty()) throw std::runtime_error(parsed.error);
  roles_ = std::move(parsed.file);
}

std::uint64_t Device::address(std::size_t offset) const {
  const auto start = reinterpret_cast<std::uint64_t>(memory_.data());
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
