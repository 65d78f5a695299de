#include <array>
#include <catch2/catch.hpp>

#include "tests/simgpu_digest/device.h"

/// What broke a digest in the past, one by one: each case also shows that the trap is there without its
/// remedy.
using namespace digest_test;

namespace {

constexpr std::size_t kSpace = 1 << 20;
constexpr std::size_t kSize = 8192;

const std::string kRoles =
    "simgpu-roles 1\n"
    "kernel reads\n param 0 in\n param 1 out\n"
    "kernel writes\n param 0 out\n"
    "kernel adds\n param 0 inout\n"
    "kernel gathers\n table 0 u32:1@0 in\n param 2 out\n"
    "kernel cats\n param 0@0 words grid.y in\n param 1 out\n"
    "kernel undecoded_cats\n param 0 in\n param 1 out\n"
    "kernel packs\n packed\n param 0 in\n param 1 out\n"
    "kernel unpacked\n param 0 in\n param 1 out\n"
    "kernel tables\n addresses 0@0 from 1@0 step 2@0\n"
    "kernel scaled\n param 0 out\n value 1\n";

/// A device with three allocations of kSize at places that the layout decides.
struct Setup {
  explicit Setup(std::uint64_t layout, std::uint64_t garbage = 1) : d(kSpace, garbage, kRoles) {
    a = d.allocate(layout * 4096, kSize);
    b = d.allocate(layout * 8192 + 3 * kSize, kSize);
    c = d.allocate(layout * 1536 + 9 * kSize, kSize);
    const std::vector<unsigned char> data(kSize, 7);
    d.copy_in(a, data.data(), kSize);
  }
  Device d;
  std::uint64_t a, b, c;
};

struct CatInputs {
  std::array<std::uint64_t, 4> input;
};

}  // namespace

TEST_CASE("digest: a table of pointers counts by what it points to, not by its bytes") {
  const auto mix = [](std::uint64_t layout, bool scan) {
    Setup s(layout);
    s.d.scan_payloads = scan;
    const std::array<std::uint64_t, 2> table{s.a, s.c + 64};
    s.d.copy_in(s.b, table.data(), sizeof table);
    return s.d.launch("reads", {1, 1, 1}, Params(s.b, s.c)).mix;
  };
  CHECK(mix(1, true) == mix(2, true));
  CHECK(mix(1, false) != mix(2, false));
}

TEST_CASE("digest: memory of two seeds has no half of an address in common") {
  CHECK(Device(kSpace, 1).address(0) >> 32 != Device(kSpace, 2).address(0) >> 32);
}

TEST_CASE("digest: half of a pointer in memory counts as the pointer, not as a number") {
  // The pointer lies at b + 8; what is read starts with its upper half.
  const auto mix = [](std::uint64_t layout, std::size_t skipped, std::size_t target, bool scan = true) {
    Setup s(layout, layout);
    const std::vector<unsigned char> data(8, 7);
    s.d.copy_in(s.b, data.data(), data.size());
    s.d.scan_payloads = scan;
    const std::uint64_t pointer = s.a + target;
    s.d.copy_in(s.b + 8, &pointer, sizeof pointer);
    return s.d.launch("reads", {1, 1, 1}, Params(s.b + skipped, s.c)).mix;
  };
  CHECK(mix(1, 12, 0) == mix(2, 12, 0));
  CHECK(mix(1, 12, 0) != mix(1, 12, 64));
  CHECK(mix(1, 12, 0) != mix(1, 8, 0));
  CHECK(mix(1, 12, 0, false) != mix(2, 12, 0, false));
}

TEST_CASE("digest: a table that starts within a pointer starts behind it") {
  const auto effect = [](std::uint64_t layout) {
    Setup s(layout, layout);
    const std::array<std::uint64_t, 2> table{s.a, s.c};
    s.d.copy_in(s.b, table.data(), sizeof table);
    return s.d.launch("_Z6tablesPKPKf", {1, 1, 1}, Params(s.b + 4));
  };
  const dg::Effect one = effect(1);
  CHECK(one.mix == effect(2).mix);
  CHECK(one.touched.size() == 2);  // the table and what its second pointer names
}

TEST_CASE("digest: integers that look like addresses are integers unless they came as pointers") {
  Setup one(1);
  Setup two(2);
  // The number is an address in the first run only.
  const std::uint64_t number = one.a;
  const auto mix = [&](Setup& s, bool by_value) {
    s.d.scan_payloads = by_value;
    s.d.copy_in(s.b, &number, sizeof number);
    return s.d.launch("reads", {1, 1, 1}, Params(s.b, s.c)).mix;
  };
  CHECK(mix(one, false) == mix(two, false));
  CHECK(mix(one, true) != mix(two, true));
}

TEST_CASE("digest: pointers in parameters count as extent and offset, also into the middle") {
  const auto mix = [](std::uint64_t layout, std::uint64_t offset) {
    Setup s(layout);
    return s.d.launch("reads", {1, 1, 1}, Params(s.a + offset, s.c)).mix;
  };
  CHECK(mix(1, 520) == mix(2, 520));
  CHECK(mix(1, 520) != mix(1, 528));
}

TEST_CASE("digest: stale words in unused slots are left out by the count") {
  const auto mix = [](const char* kernel, bool stale) {
    Setup s(1);
    const CatInputs inputs{{s.a, s.a + 512, stale ? s.b : 0, 0}};
    return s.d.launch(kernel, {4, 2, 1}, Params(inputs, s.c)).mix;
  };
  CHECK(mix("cats", true) == mix("cats", false));
  CHECK(mix("undecoded_cats", true) != mix("undecoded_cats", false));
}

TEST_CASE("digest: pointers at multiples of four are found where a rule says so") {
  struct Packed {
    std::uint32_t n;
    std::uint32_t pointer[2];
    std::uint32_t pad;
  };
  const auto effect = [](const char* kernel) {
    Setup s(1);
    Packed packed{1, {}, 0};
    std::memcpy(packed.pointer, &s.a, sizeof s.a);
    return s.d.launch(kernel, {1, 1, 1}, Params(packed, s.c));
  };
  CHECK(effect("packs").touched.size() == 2);
  CHECK(effect("unpacked").touched.size() == 1);
}

TEST_CASE("digest: two readers may run in either order") {
  const auto mixes = [](const char* reader, bool swapped) {
    Setup s(1);
    const auto first = [&] { return s.d.launch(reader, {1, 1, 1}, Params(s.a, s.b)).mix; };
    const auto second = [&] { return s.d.launch(reader, {2, 1, 1}, Params(s.a, s.c)).mix; };
    if (!swapped) {
      const dg::Mix one = first();
      return std::make_pair(one, second());
    }
    const dg::Mix two = second();
    return std::make_pair(first(), two);
  };
  CHECK(mixes("reads", false) == mixes("reads", true));
  // Without a role both are thought to write what they read.
  CHECK(mixes("nobody_knows_it", false) != mixes("nobody_knows_it", true));
}

TEST_CASE("digest: the same launch gives the same output, unless it reads that") {
  Setup s(1);
  CHECK(s.d.launch("reads", {1, 1, 1}, Params(s.a, s.c)).mix ==
        s.d.launch("reads", {1, 1, 1}, Params(s.a, s.c)).mix);
  CHECK(s.d.launch("adds", {1, 1, 1}, Params(s.a)).mix != s.d.launch("adds", {1, 1, 1}, Params(s.a)).mix);
}

TEST_CASE("digest: memory that was never written does not count") {
  const auto mix = [](std::uint64_t garbage, bool written) {
    Setup s(1, garbage);
    if (written) s.d.map.wrote({s.b, s.b + kSize}, s.d.call());
    return s.d.launch("adds", {1, 1, 1}, Params(s.b)).mix;
  };
  CHECK(mix(1, false) == mix(2, false));
  CHECK(mix(1, true) != mix(2, true));
}

TEST_CASE("digest: of memory that is written in part, that part counts") {
  const auto mix = [](std::uint64_t garbage, unsigned char value) {
    Setup s(1, garbage);
    const std::array<unsigned char, 100> data{value};
    s.d.copy_in(s.b + 1000, data.data(), data.size());
    return s.d.launch("reads", {1, 1, 1}, Params(s.b, s.c)).mix;
  };
  CHECK(mix(1, 3) == mix(2, 3));
  CHECK(mix(1, 3) != mix(1, 4));
}

TEST_CASE("digest: an extent that is named twice does not cancel") {
  const auto mix = [](unsigned char value) {
    Setup s(1);
    const std::vector<unsigned char> data(kSize, value);
    s.d.copy_in(s.a, data.data(), kSize);
    return s.d.launch("cats", {1, 2, 1}, Params(CatInputs{{s.a, s.a, 0, 0}}, s.c)).mix;
  };
  CHECK(mix(1) != mix(2));
}

TEST_CASE("digest: tensors that share a segment are apart in units of 512 bytes") {
  const auto mixes = [](std::uint32_t unit, bool swapped) {
    Device d(kSpace, 1, kRoles);
    const std::uint64_t segment = d.allocate(0, 4 * kSize, unit);
    const std::vector<unsigned char> data(4 * kSize, 9);
    d.copy_in(segment, data.data(), data.size());
    // Two streams, each with a tensor of its own.
    std::array<dg::Mix, 2> mix;
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned which = swapped ? 1 - i : i;
      mix[which] = d.launch("adds", {1, 1, 1}, Params(segment + which * kSize)).mix;
    }
    return mix;
  };
  CHECK(mixes(512, false) == mixes(512, true));
  CHECK(mixes(0, false) != mixes(0, true));
}

TEST_CASE("digest: scalars count only where the role file says that they matter") {
  Setup s(1);
  CHECK(s.d.launch("writes", {1, 1, 1}, Params(s.b, 1)).mix ==
        s.d.launch("writes", {1, 1, 1}, Params(s.b, 2)).mix);
  CHECK(s.d.launch("scaled", {1, 1, 1}, Params(s.b, 1)).mix !=
        s.d.launch("scaled", {1, 1, 1}, Params(s.b, 2)).mix);
}

TEST_CASE("digest: words that point into dead memory are no pointers") {
  Setup s(1);
  const dg::Mix without = s.d.launch("reads", {1, 1, 1}, Params(std::uint64_t{0}, s.c)).mix;
  s.d.free(s.a);
  CHECK(s.d.launch("reads", {1, 1, 1}, Params(s.a, s.c)).mix == without);
}

TEST_CASE("digest: a launch sees the memory that was alive when it was called") {
  Setup s(1);
  const std::uint64_t call = s.d.call();
  const Params params(s.a, s.c);
  Setup other(1);
  s.d.free(s.a);
  CHECK(s.d.launch("reads", {1, 1, 1}, params, call).mix ==
        other.d.launch("reads", {1, 1, 1}, Params(other.a, other.c)).mix);
  s.d.map.forget(call);
  CHECK(s.d.launch("reads", {1, 1, 1}, params, call).touched.size() == 2);
  s.d.map.forget(s.d.call());
  CHECK(s.d.launch("reads", {1, 1, 1}, params, call).touched.size() == 1);
}

TEST_CASE("digest: a kernel that writes addresses leaves pointers that a table kernel follows") {
  const auto mix = [](std::uint64_t layout, unsigned char value) {
    Setup s(layout);
    const std::vector<unsigned char> data(kSize, value);
    s.d.copy_in(s.a, data.data(), kSize);
    s.d.launch("tables", {1, 1, 1}, Params(s.b, s.a, std::uint64_t{1024}));
    const dg::Effect effect = s.d.launch("gathers", {1, 1, 1}, Params(s.b, std::uint32_t{4}, s.c));
    CHECK(effect.touched.size() == 6);  // the table, four pieces of a, the output
    return effect.mix;
  };
  CHECK(mix(1, 5) == mix(2, 5));
  CHECK(mix(1, 5) != mix(1, 6));
}

TEST_CASE("digest: pointers move along with a copy inside the device, and go when they are overwritten") {
  const auto mix = [](std::uint64_t layout) {
    Setup s(layout);
    const std::array<std::uint64_t, 2> table{s.a, s.a + 8};
    s.d.copy_in(s.b, table.data(), sizeof table);
    s.d.copy(s.c + 512, s.b, 4096);
    CHECK(s.d.map.pointers_known() == 4);
    const dg::Mix result = s.d.launch("reads", {1, 1, 1}, Params(s.c, s.b)).mix;
    CHECK(s.d.map.pointers_known() == 2);
    return result;
  };
  CHECK(mix(1) == mix(2));
}

TEST_CASE("digest: a pointer in memory that outlived its memory does not mean what took its place") {
  const auto mix = [](bool reused) {
    Setup s(1);
    s.d.copy_in(s.b, &s.a, sizeof s.a);
    s.d.free(s.a);
    if (reused) s.d.allocate(4096, kSize);
    return std::make_pair(s.d.launch("reads", {1, 1, 1}, Params(s.b, s.c)).mix,
                          s.d.launch("gathers", {1, 1, 1}, Params(s.b, std::uint32_t{1}, s.c)).mix);
  };
  CHECK(mix(false) == mix(true));
}

TEST_CASE("digest: a damaged pointer in memory counts as damaged") {
  const auto mix = [](std::uint64_t damage) {
    Setup s(1);
    s.d.copy_in(s.b, &s.a, sizeof s.a);
    *s.d.bytes(s.b + 1) ^= static_cast<unsigned char>(damage);
    return s.d.launch("reads", {1, 1, 1}, Params(s.b, s.c)).mix;
  };
  CHECK(mix(0) == mix(0));
  CHECK(mix(0) != mix(1));
}
