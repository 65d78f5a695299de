#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/simgpu_digest/device.h"

/// Roles without a role file, and launches that are as bad as can be.
using namespace digest_test;

namespace {

dg::Effect effect_of(const std::string& kernel, const Params& params, Device& d) {
  return d.launch(kernel, {1, 1, 1}, params);
}

}  // namespace

TEST_CASE("roles: const in the types makes a reader, everything else may write") {
  Device d(1 << 20, 1);
  const std::uint64_t a = d.allocate(0, 4096);
  const std::uint64_t b = d.allocate(8192, 4096);
  const dg::Effect effect = effect_of("_Z5scalePKfPfi", Params(a, b, 3), d);
  CHECK(effect.knowledge == dg::Knowledge::kInferred);
  REQUIRE(effect.touched.size() == 2);
  CHECK(effect.touched[0].access == dg::Access::kIn);
  CHECK(effect.touched[1].access == dg::Access::kInOut);
  CHECK_FALSE(effect.touched[0].exact);
}

TEST_CASE("roles: numbers are no pointers even where they equal an address") {
  Device d(1 << 20, 1);
  const std::uint64_t a = d.allocate(0, 4096);
  const dg::Effect effect = effect_of("_Z1fmPf", Params(a, std::uint64_t{0}), d);
  CHECK(effect.touched.empty());
}

TEST_CASE("roles: nothing known is read and written, and said") {
  Device d(1 << 20, 1);
  const std::uint64_t a = d.allocate(0, 4096);
  const dg::Effect effect = effect_of("triton_add", Params(a, 5), d);
  CHECK(effect.knowledge == dg::Knowledge::kUnknown);
  CHECK(effect.touched.at(0).access == dg::Access::kInOut);
}

TEST_CASE("roles: a class that holds no live pointer leaves the rest known") {
  Device d(1 << 20, 1);
  const std::uint64_t a = d.allocate(0, 4096);
  struct Sizes {
    std::uint64_t n[4];
  };
  // f(Sizes, float const*)
  CHECK(effect_of("_Z1f5SizesPKf", Params(Sizes{}, a), d).knowledge == dg::Knowledge::kInferred);
  CHECK(effect_of("_Z1f5SizesPKf", Params(Sizes{{1, a, 0, 0}}, a), d).knowledge == dg::Knowledge::kUnknown);
}

TEST_CASE("roles: an array of pointers is followed where its words are known to be pointers") {
  Device d(1 << 20, 1);
  const std::uint64_t a = d.allocate(0, 4096);
  const std::uint64_t table = d.allocate(8192, 4096);
  const std::uint64_t words[] = {a, a + 1024};
  d.copy_in(table, words, sizeof words);
  const dg::Effect effect = effect_of("_Z1fPKPKf", Params(table), d);
  REQUIRE(effect.touched.size() == 3);
  CHECK(effect.touched[0].span == dg::Span{table, table + 16});
  CHECK((effect.touched[0].exact && effect.touched[0].table));
  CHECK(effect.touched[1].span == dg::Span{a, a + 1024});
  CHECK(effect.touched[2].span == dg::Span{a + 1024, a + 4096});
}

TEST_CASE("roles: pointers of one launch into one allocation share it at their places") {
  Device d(1 << 20, 1, "simgpu-roles 1\nkernel k\nparam 0 in\nparam 1 out\n");
  const std::uint64_t a = d.allocate(0, 4096);
  const dg::Effect effect = effect_of("k", Params(a, a + 2048), d);
  REQUIRE(effect.touched.size() == 2);
  CHECK(effect.touched[0].span == dg::Span{a, a + 2048});
  CHECK(effect.touched[0].access == dg::Access::kIn);
  CHECK(effect.touched[1].span == dg::Span{a + 2048, a + 4096});
  CHECK(effect.touched[1].access == dg::Access::kOut);
}

TEST_CASE("roles: counts and places beyond the parameters find nothing") {
  for (const char* line :
       {"param 7 in", "param 0@4096 words all in", "param 0@8 words 1000 in", "param 0 words max8:9@4 in",
        "param 0 words max16:1@3 in", "param 0 words u64:0@30000 in", "table 0@12 4 in", "value 0@4 4000",
        "value 9", "addresses 8 from 9 step 10", "when size 77 8"}) {
    INFO(line);
    Device d(1 << 20, 1, std::string("simgpu-roles 1\nkernel k\n") + line + "\n");
    const std::uint64_t a = d.allocate(0, 4096);
    CHECK_FALSE(effect_of("k", Params(a, 2, a), d).faulted);
  }
}

TEST_CASE("roles: the count of a table is held to its memory") {
  Device d(1 << 20, 1, "simgpu-roles 1\nkernel k\ntable 0 u32:1@0 in\n");
  const std::uint64_t a = d.allocate(0, 64);
  d.map.wrote({a, a + 64}, d.call());
  const dg::Effect effect = effect_of("k", Params(a, std::uint32_t{0xffffffff}), d);
  CHECK(effect.touched.at(0).span == dg::Span{a, a + 64});
}

namespace {

/// "0 maybe in, 2@8 structure out": the stray pointers of a launch that names freed memory everywhere.
std::string strays_of(const std::string& rules, const std::string& kernel, const Params& params) {
  Device d(1 << 20, 1, "simgpu-roles 1\n" + rules);
  effect_of(kernel, params, d);
  std::string text;
  for (const dg::StrayPointer& stray : d.strays) {
    const char* const sure[] = {" maybe ", " structure ", " pointer "};
    const char* const access[] = {"none", "in", "out", "inout"};
    text += (text.empty() ? "" : ", ") + std::to_string(stray.param);
    if (stray.offset != 0) text += "@" + std::to_string(stray.offset);
    text += sure[static_cast<int>(stray.sure)] + std::string(access[static_cast<int>(stray.access)]);
  }
  return text;
}

struct Three {
  std::uint64_t word[3];
};

}  // namespace

TEST_CASE("roles: a pointer to no live memory is told with how sure it is that it is one") {
  const std::uint64_t gone = 4096;
  const Params two(gone, gone);
  // f(float const*, float*) and f(unsigned long, S); without types; and with roles that the file gives.
  CHECK(strays_of("", "_Z1fPKfPf", two) == "0 maybe in, 1 maybe inout");
  CHECK(strays_of("", "_Z1fm1S", two) == "1 maybe inout");
  CHECK(strays_of("", "f", two) == "0 maybe inout, 1 maybe inout");
  CHECK(strays_of("kernel *\nparam 0 in\nparam 1 out\n", "_Z1fPKfPf", two) == "0 pointer in, 1 pointer out");
  CHECK(strays_of("kernel *\nparam 0@0 in\n", "f", two) == "0 pointer in, 1 maybe inout");
  CHECK(strays_of("kernel *\nparam 0 in\nparam 1 in\n", "_Z1fm1S", two) == "0 maybe in, 1 maybe in");
  CHECK(strays_of("kernel *\nparam 0 none\n", "_Z1fPfPf", two) == "1 maybe inout");
  CHECK(strays_of("kernel *\nmutable out\n", "_Z1fPKfPf", two) == "0 maybe in, 1 pointer out");
  CHECK(strays_of("kernel *\nother in\n", "_Z1fPKfm", two) == "0 pointer in, 1 maybe in");
  CHECK(strays_of("kernel *\nother in\n", "f", two) == "0 maybe in, 1 maybe in");
  CHECK(strays_of("kernel *\ntable 0 2 in\naddresses 1 from 0 step 0\n", "f", two) ==
        "0 pointer in, 1 pointer out");
  CHECK(strays_of("", "_Z1fPKPfPPf", two) == "0 maybe in, 1 maybe in");
  CHECK(strays_of("", "f", Params(std::uint64_t{0}, gone)) == "1 maybe inout");
}

TEST_CASE("roles: in a structure only places that the role file names must hold pointers") {
  const Params params(Three{{4096, 4096, 4096}});
  CHECK(strays_of("", "f", params).empty());
  CHECK(strays_of("", "_Z1f1S", params).empty());
  CHECK(strays_of("kernel f\nparam 0 in\n", "f", params).empty());
  CHECK(strays_of("kernel f\nother in\n", "f", params).empty());
  CHECK(strays_of("kernel f\nparam 0@0 words all in\n", "f", params).empty());
  CHECK(strays_of("kernel f\nparam 0@8 words 2 out\n", "f", params) ==
        "0@8 structure out, 0@16 structure out");
  CHECK(strays_of("kernel f\nparam 0@-8 in\n", "f", params) == "0@16 structure in");
}
