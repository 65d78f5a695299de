#include "tools/simgpu/fatbin/ptx.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <string>

#include "tests/simgpu_fatbin/sample_files.h"

/// PTX as programs and other compilers write it: PTX ISA, "Kernel Function Directives", "Parameter State
/// Space", "Initializers". What nvcc writes is in images_test.cpp.
namespace simgpu::fatbin::test {
namespace {

using Layout = std::vector<Param>;

constexpr const char* kHead =
    ".version 8.5\n.target sm_80, texmode_independent // a device\n.address_size 64\n";

ModuleFacts read(const std::string& text) {
  ModuleFacts facts;
  REQUIRE(read_ptx(kHead + text, &facts) == Problem::kNone);
  return facts;
}

Layout layout(const std::string& params) {
  const ModuleFacts facts = read(".visible .entry k(" + params + ") { ret; }");
  REQUIRE(facts.kernels.size() == 1);
  REQUIRE(facts.kernels[0].params_known);
  return facts.kernels[0].params;
}

bool known(const std::string& params) {
  return read(".entry k(" + params + ") { ret; }").kernels.at(0).params_known;
}

std::vector<unsigned> bytes_of(const std::string& declaration) {
  const ModuleFacts facts = read(declaration);
  std::vector<unsigned> numbers;
  CHECK(facts.variables.at(0).initial_known);
  for (const std::byte b : initial_of(facts, facts.variables[0]))
    numbers.push_back(std::to_integer<unsigned>(b));
  return numbers;
}

}  // namespace

TEST_CASE("ptx: parameters stand at their natural alignment, or the one they ask for") {
  CHECK(layout("").empty());
  CHECK(layout(".param .u8 a, .param .f64 b, .param .b16 c") == Layout{{0, 1}, {8, 8}, {16, 2}});
  CHECK(layout(".param .u8 a, .param .align 16 .b8 b[20], .param .u32 c") ==
        Layout{{0, 1}, {16, 20}, {36, 4}});
  CHECK(layout(".param .u32 n, .param .u64 .ptr .global .align 64 p") == Layout{{0, 4}, {8, 8}});
  CHECK(layout(".param .u64 .ptr p, .param .v4 .f32 v") == Layout{{0, 8}, {16, 16}});
  CHECK(layout(".param .texref t, .param .b8 s[3]") == Layout{{0, 8}, {8, 3}});
  CHECK(layout(".param .align 4 .b8 m[2][3]") == Layout{{0, 6}});
}

TEST_CASE("ptx: parameters that are not understood are unknown, and their kernel is still found") {
  CHECK_FALSE(known(".param .quux a"));
  CHECK_FALSE(known(".param .u32"));
  CHECK_FALSE(known(".param .align 3 .u32 a"));
  CHECK_FALSE(known(".param .b8 a[]"));
  CHECK_FALSE(known(".param .b8 a[40000]"));
  CHECK_FALSE(known(".param .b8 a[99999999999999999999999]"));
  CHECK_FALSE(known(".param .u32 a .param .u32 b"));
  CHECK(known(".param .b8 a[32764]"));
}

TEST_CASE("ptx: kernels are found between functions, comments and debug sections") {
  const ModuleFacts facts = read(
      "// .entry not_this()\n/* .entry nor_this() */\n"
      ".func (.param .u32 r) helper(.param .u32 a) { .reg .u32 x; { ret; } }\n"
      ".extern .func declared(.param .u32 a);\n"
      ".file 1 \"a } .entry quoted() {\"\n"
      ".weak .entry first(.param .u32 a) .maxntid 64, 2, 1 .minnctapersm 2 { ret; }\n"
      ".section .debug_str { .b8 46, 101 }\n"
      ".visible .entry second() .reqntid 32 .pragma \"nounroll\"; \n"
      ".visible .entry second() .reqntid 32 { bra L; L: ret; }\n");
  REQUIRE(facts.kernels.size() == 2);
  CHECK(facts.arch == Arch{80, 0});
  CHECK(facts.ptx_major == 8);
  CHECK(facts.ptx_minor == 5);
  CHECK(facts.kernels[0].name == "first");
  CHECK(facts.kernels[0].max_threads == 128);
  CHECK(facts.kernels[1].name == "second");
  CHECK(facts.kernels[1].max_threads == 32);
}

TEST_CASE("ptx: static shared memory is what a kernel declares and what it names") {
  const ModuleFacts facts = read(
      ".shared .align 16 .b8 common_tile[100];\n.shared .u32 unused;\n.extern .shared .b8 dynamic[];\n"
      ".entry a() { .shared .align 8 .b8 mine[20]; st.shared.u32 [common_tile], 1; ld.shared.u32 r, "
      "[common_tile]; }\n"
      ".entry b() { ld.shared.u32 r, [dynamic]; }\n");
  CHECK(facts.kernels.at(0).static_shared_bytes == 132);
  CHECK(facts.kernels.at(1).static_shared_bytes == 0);
}

TEST_CASE("ptx: initial values become bytes") {
  CHECK(bytes_of(".global .u32 a;") == std::vector<unsigned>{0, 0, 0, 0});
  CHECK(bytes_of(".global .u32 a = 0x01020304;") == std::vector<unsigned>{4, 3, 2, 1});
  CHECK(bytes_of(".global .s16 a = -2;") == std::vector<unsigned>{254, 255});
  CHECK(bytes_of(".const .b8 a[4] = {1, 0x2U, 03};") == std::vector<unsigned>{1, 2, 3, 0});
  CHECK(bytes_of(".global .b8 a[] = {7, 8};") == std::vector<unsigned>{7, 8});
  CHECK(bytes_of(".global .f32 a = 0f3F800000;") == std::vector<unsigned>{0, 0, 128, 63});
  CHECK(bytes_of(".global .f32 a = -1.0;") == std::vector<unsigned>{0, 0, 128, 191});
  CHECK(bytes_of(".global .f64 a = 0d3FF0000000000000;") == std::vector<unsigned>{0, 0, 0, 0, 0, 0, 240, 63});
  CHECK(bytes_of(".global .u16 a[2] = {};") == std::vector<unsigned>{0, 0, 0, 0});
}

TEST_CASE("ptx: addresses in initial values are kept as relocations") {
  const ModuleFacts facts = read(
      ".global .u64 first = generic(later) + 8;\n.visible .global .b64 second[2] = {0, later};\n"
      ".global .b8 later[16];\n.global .u64 nowhere = missing;\n.extern .global .u32 elsewhere;\n");
  REQUIRE(facts.variables.size() == 4);
  REQUIRE(facts.relocations.size() == 2);
  CHECK(facts.relocations[0].segment == 0);
  CHECK(facts.relocations[0].target_segment == 2);
  std::uint64_t added = 0;
  std::memcpy(&added, facts.segments[0].initial.data(), sizeof added);
  CHECK(added == 8);
  CHECK(facts.relocations[1].segment == 1);
  CHECK(facts.relocations[1].offset == 8);
  CHECK_FALSE(facts.variables[3].initial_known);
}

TEST_CASE("ptx: an initial value that is not understood is said to be unknown") {
  for (const char* declaration :
       {".global .b8 a[8] = {0xFF(b), 0xFF00(b)};", ".global .u32 a[2][2] = {{1, 2}, {3, 4}};",
        ".global .u32 a = b;", ".global .b8 a[1] = {1, 2};", ".global .u32 a = {1",
        ".global .u32 a = 99999999999999999999;", ".global .f32 a = 1;", ".global .u32 a = ;"}) {
    INFO(declaration);
    const ModuleFacts facts = read(declaration);
    CHECK_FALSE(facts.variables.at(0).initial_known);
    CHECK(facts.segments.at(0).initial.empty());
  }
}

TEST_CASE("ptx: nothing makes the reader go on for ever") {
  for (const char* text : {".entry",
                           ".entry k",
                           ".entry k(",
                           ".entry k(.param",
                           ".entry k(.param .u32 a",
                           ".entry k() {",
                           ".entry k() { {",
                           ".func",
                           ".func f",
                           ".global",
                           ".global .u32",
                           ".shared",
                           ".section",
                           ".section .x {",
                           "/*",
                           "//",
                           "\"",
                           ".global .attribute(",
                           "{{{{",
                           "}}}}",
                           ".entry k() .maxntid"}) {
    ModuleFacts facts;
    static_cast<void>(read_ptx(std::string(kHead) + text, &facts));
  }
}

TEST_CASE("ptx: without version and target it is not PTX") {
  Entry entry;
  CHECK_FALSE(ptx_target("", &entry));
  CHECK_FALSE(ptx_target(".target sm_80 .version 8.0", &entry));
  CHECK_FALSE(ptx_target(".version 8 .target sm_80", &entry));
  CHECK_FALSE(ptx_target(".version 8.0 .target gfx90", &entry));
  CHECK_FALSE(ptx_target(".version 8.0 .target sm_", &entry));
  CHECK(ptx_target("// nvcc\n\n.version 8.0 .target sm_100f", &entry));
  CHECK(entry.arch == Arch{100, 'f'});
}

}  // namespace simgpu::fatbin::test
