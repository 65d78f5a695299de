#include "tools/simgpu/digest/role_file.h"

#include <catch2/catch.hpp>

#include "tools/simgpu/digest/kernel_roles.h"

using namespace simgpu::digest;

namespace {

ParsedRoles parse(const std::string& body) {
  return parse_roles("simgpu-roles 1\n" + body, "file");
}

std::string error_of(const std::string& body) {
  return parse(body).error;
}

}  // namespace

TEST_CASE("role file: every statement is understood") {
  const ParsedRoles parsed = parse(
      "# a comment\n"
      "\n"
      "kernel *foo<{lambda(int)#1}, 2>*  \n"
      "  when size 0 3144\n"
      "  when params 3\r\n"
      "  param 0 out in in\n"
      "  param 1@16 inout\n"
      "\tparam 1@24 words max8:0@1536 in\n"
      "  table 2 u32:1@4 none\n"
      "  value 1@8 4\n"
      "  addresses 2 from 0@8 step 0@16\n"
      "  other none\n"
      "  mutable out\n"
      "  packed\n"
      "  needs-body\n"
      "kernel bar");
  REQUIRE(parsed.error.empty());
  REQUIRE(parsed.file.rules.size() == 2);
  const Rule& rule = parsed.file.rules[0];
  CHECK(rule.pattern == "*foo<{lambda(int)#1}, 2>*");
  CHECK(rule.line == 4);
  CHECK(rule.sizes.size() == 1);
  CHECK(rule.param_count == 3U);
  REQUIRE(rule.lines.size() == 6);
  CHECK(rule.lines[0].roles == std::vector<Access>{Access::kOut, Access::kIn, Access::kIn});
  CHECK(rule.lines[1].kind == RoleLine::Kind::kWords);
  CHECK(rule.lines[1].count.number == 1);
  CHECK(rule.lines[2].count.kind == Count::Kind::kMax8);
  CHECK(rule.lines[2].count.place.offset == 1536);
  CHECK(rule.lines[3].kind == RoleLine::Kind::kTable);
  CHECK(rule.lines[4].bytes == 4);
  CHECK(rule.lines[5].kind == RoleLine::Kind::kAddresses);
  CHECK(rule.other == Access::kNone);
  CHECK(rule.mutable_means == Access::kOut);
  CHECK((rule.packed && rule.needs_body));
  CHECK(parsed.file.rules[1].pattern == "bar");
}

TEST_CASE("role file: an error names the file, the line, and what is wanted") {
  CHECK(parse_roles("", "f").error == "f:0: empty; the first line must be 'simgpu-roles 1'");
  CHECK(parse_roles("# only this\nroles 1\n", "f").error == "f:2: the first line must be 'simgpu-roles 1'");
  CHECK(error_of("param 0 in\n") == "file:2: 'param' before any kernel; start with 'kernel PATTERN'");
  CHECK(error_of("kernel\n") == "file:2: 'kernel' needs a pattern, as in 'kernel *softmax_warp_forward<*'");
  CHECK(error_of("kernel k\nparm 0 in\n").find("file:3: 'parm' where one of kernel, param,") == 0);
  CHECK(error_of("kernel k\nparm 0 in\n").find("(did you mean 'param'?)") != std::string::npos);
  CHECK(error_of("kernel k\nparam 0 inn\n") ==
        "file:3: 'inn' where one of in, out, inout, none is wanted (did you mean 'in'?)");
  CHECK(error_of("kernel k\nparam x in\n") ==
        "file:3: 'x' where a parameter's number from 0 to 4096 is wanted");
  CHECK(error_of("kernel k\nparam 0@99999 in\n").find("'99999' where a byte's offset") != std::string::npos);
  CHECK(error_of("kernel k\nparam 0\n").find("'param' is written") != std::string::npos);
  CHECK(error_of("kernel k\nparam 0@8 in out\n").find("'param N@BYTE ROLE'") != std::string::npos);
  CHECK(error_of("kernel k\nparam 0 words gird.x in\n").find("(did you mean 'grid.x'?)") !=
        std::string::npos);
  CHECK(error_of("kernel k\ntable 0 4\n").find("'table N@BYTE COUNT ROLE'") != std::string::npos);
  CHECK(error_of("kernel k\nvalue 0@8\n").find("needs the number of bytes") != std::string::npos);
  CHECK(error_of("kernel k\nvalue 0 0\n").find("0 bytes") != std::string::npos);
  CHECK(error_of("kernel k\nwhen seize 0 8\n").find("'when size N BYTES'") != std::string::npos);
  CHECK(error_of("kernel k\naddresses 0 form 1 step 2\n").find("addresses N@BYTE from") != std::string::npos);
  CHECK(error_of("kernel k\npacked 4\n").find("'packed'") != std::string::npos);
}

TEST_CASE("role file: a file with an error gives no rules") {
  CHECK(parse("kernel k\nparam 0 in\nkernel l\nbad\n").file.rules.empty());
}

TEST_CASE("role file: a file that cannot be read is one line") {
  CHECK(load_roles("/nowhere/roles.txt").error ==
        "role file /nowhere/roles.txt: No such file or directory; name a file that can be read");
  CHECK(load_roles("/").error.find("role file /:") == 0);
}

TEST_CASE("role file: patterns") {
  CHECK(matches("*", ""));
  CHECK(matches("a*c", "abbbc"));
  CHECK(matches("*b*b*", "xbyb"));
  CHECK(matches("a?c", "abc"));
  CHECK_FALSE(matches("a?c", "ac"));
  CHECK_FALSE(matches("a*c", "abcd"));
  CHECK_FALSE(matches("", "a"));
  // Many stars do not take for ever.
  CHECK_FALSE(matches("*a*a*a*a*a*a*a*a*a*a*a*b", std::string(4000, 'a')));
}

TEST_CASE("role file: the first rule that matches name and parameters counts") {
  const ParsedRoles parsed = parse(
      "kernel k\nwhen size 0 16\n"
      "kernel k\nwhen params 2\n"
      "kernel *\n");
  REQUIRE(parsed.error.empty());
  CHECK(parsed.file.find("k", "k", {{0, 16}})->line == 2);
  CHECK(parsed.file.find("k", "k", {{0, 8}, {8, 8}})->line == 4);
  CHECK(parsed.file.find("k", "k", {{0, 8}})->line == 6);
  CHECK(parsed.file.find("x", "k", {{0, 16}})->line == 2);
}

TEST_CASE("role file: statements about parameters that a kernel does not have are found, by their line") {
  const auto beyond = [](const std::string& body, std::size_t params) {
    const ParsedRoles parsed = parse(body);
    REQUIRE(parsed.error.empty());
    std::vector<Slot> layout;
    for (std::uint32_t i = 0; i < params; ++i) layout.push_back({8 * i, 8});
    return beyond_parameters(simgpu::digest::bind(parsed.file, "k", std::move(layout)));
  };
  CHECK(beyond("kernel k\n param 0 in\n param 1 out\n", 2).empty());
  CHECK(beyond("kernel other\n param 9 in\n", 2).empty());
  CHECK(beyond("kernel k\n when params 3\n param 2 in\n", 2).empty());
  CHECK(beyond("kernel k\n param 0 in\n\n param 2 out\n", 2) == "5 names parameter 2");
  CHECK(beyond("kernel k\n param 0@0 words u32:7@0 in\n", 2) == "3 names parameter 7");
  CHECK(beyond("kernel k\n addresses 0@0 from 1@0 step 3@0\n", 2) == "3 names parameter 3");
  CHECK(beyond("kernel k\n value 2\n param 3 in\n tensor-lists 4 1 in\n", 2) ==
        "3 names parameter 2 (2 more lines of its rule do)");
  CHECK(beyond("kernel k\n table 1@0 4 in\n", 0) == "3 names parameter 1");
}
