#include "tools/simgpu/driver/known_bodies.h"

#include <algorithm>

#include "allocator/support/content_hash_kernel.h"
#include "simgpu/kernel.h"

namespace simgpu {
namespace {

struct KnownBody {
  std::string_view name;
  const SimgpuKernelBody* (*body)();
};

// Who asks for a hash lets others go on with the memory meanwhile, and then throws it away.
const SimgpuKernelBody* content_hash_body() {
  static const SimgpuKernelBody body = [] {
    SimgpuKernelBody one = *kernel_body<tidepool::HashContent, const unsigned char*, unsigned long long,
                                        tidepool::HashSlot*, tidepool::HashControl*, unsigned long long>();
    one.features |= SIMGPU_BODY_LOOKS;
    return one;
  }();
  return &body;
}

constexpr KnownBody kKnown[] = {{"tidepool_content_hash", &content_hash_body}};

const KnownBody* find(std::string_view name) {
  const auto* found = std::find_if(std::begin(kKnown), std::end(kKnown),
                                   [&](const KnownBody& known) { return known.name == name; });
  return found == std::end(kKnown) ? nullptr : found;
}

}  // namespace

bool has_known_body(std::string_view name) {
  return find(name) != nullptr;
}

const SimgpuKernelBody* known_body_for(const Kernel& kernel) {
  const KnownBody* known = find(kernel.name);
  if (known == nullptr || !kernel.params_known) return nullptr;
  const SimgpuKernelBody* body = known->body();
  const bool same = std::equal(
      kernel.params.begin(), kernel.params.end(), body->params, body->params + body->param_count,
      [](const SimgpuParam& a, const SimgpuParam& b) { return a.offset == b.offset && a.size == b.size; });
  return same ? body : nullptr;
}

}  // namespace simgpu
