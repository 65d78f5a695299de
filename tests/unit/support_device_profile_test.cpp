#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "allocator/support/device_profile.h"
#include "tests/process/child_process.h"

namespace {

using tidepool::device_profile_names;
using tidepool::DeviceProfile;
using tidepool::load_device_profile;
using tidepool::parse_device_profile;
using tidepool::test::ScratchFolder;
using tidepool::test::write_file;

constexpr std::string_view kKeys[] = {
#define TP_PROFILE_FIELD(table, key, type, low, high, want) #table "." #key,
#include "allocator/support/device_profile.def"
#undef TP_PROFILE_FIELD
};

const std::string kGood = R"(name = "card"
[memory]
bytes = 67108864
bytes_per_second = 1e12
[compute]
capability = "8.6"
multiprocessors = 10
fp32_flops = 1e13
tensor_flops = 0
[link]
h2d_bytes_per_second = 10_000_000_000
d2h_bytes_per_second = 1.1e10
latency_ns = 1000
duplex = 0.9
copy_engines = 2
[cost]
launch_ns = 1
host_call_ns = 2
host_launch_ns = 3
host_copy_ns = 4
host_sync_ns = 5
malloc_ns = 6
free_ns = 7
host_alloc_ns_per_mib = 8
[vmm]
reserve_ns = 9
create_ns = 10
create_ns_per_mib = 11
map_ns = 12
set_access_ns = 13
set_access_ns_per_mapping = 18
set_access_ns_per_mib = 14
unmap_ns = 15
unmap_ns_per_mapping = 19
unmap_ns_per_mib = 16
release_ns = 17
release_ns_per_mib = 20
)";

std::string with(const std::string& line, const std::string& instead) {
  std::string text = kGood;
  const std::size_t at = text.find(line + "\n");
  REQUIRE(at != std::string::npos);
  return text.replace(at, line.size(), instead);
}

std::string refusal(const std::string& text) {
  const auto profile = parse_device_profile(text, "card.toml");
  REQUIRE(!profile.ok());
  REQUIRE(profile.error().text.find('\n') == std::string::npos);
  return profile.error().text;
}

}  // namespace

TEST_CASE("device profile: every number arrives in its member") {
  const auto read = parse_device_profile(kGood, "card.toml");
  INFO((read ? "" : read.error().text));
  REQUIRE(read.ok());
  const DeviceProfile& p = *read;
  REQUIRE(p.name == "card");
  REQUIRE(p.source.empty());
  REQUIRE(p.memory_bytes == 64 << 20);
  REQUIRE(p.memory_bytes_per_second == 1e12);
  REQUIRE(p.compute_major == 8);
  REQUIRE(p.compute_minor == 6);
  REQUIRE(p.compute_multiprocessors == 10);
  REQUIRE(p.compute_fp32_flops == 1e13);
  REQUIRE(p.compute_tensor_flops == 0);
  REQUIRE(p.link_h2d_bytes_per_second == 1e10);
  REQUIRE(p.link_d2h_bytes_per_second == 1.1e10);
  REQUIRE(p.link_latency_ns == 1000);
  REQUIRE(p.link_duplex == 0.9);
  REQUIRE(p.link_copy_engines == 2);
  REQUIRE(p.cost_launch_ns == 1);
  REQUIRE(p.cost_host_alloc_ns_per_mib == 8);
  REQUIRE(p.vmm_reserve_ns == 9);
  REQUIRE(p.vmm_set_access_ns_per_mib == 14);
  REQUIRE(p.vmm_set_access_ns_per_mapping == 18);
  REQUIRE(p.vmm_unmap_ns_per_mapping == 19);
  REQUIRE(p.vmm_release_ns == 17);
  REQUIRE(p.vmm_release_ns_per_mib == 20);
  REQUIRE(parse_device_profile("source = \"by hand\"\n" + kGood, "x")->source == "by hand");
}

TEST_CASE("device profile: all keys that are missing are named at once") {
  REQUIRE(refusal(with("launch_ns = 1", "")) == "card.toml: these are missing: cost.launch_ns");
  const std::string all = refusal("");
  REQUIRE(all.find("name, compute.capability, memory.bytes, ") != std::string::npos);
  for (const std::string_view key : kKeys) REQUIRE(all.find(key) != std::string::npos);
}

TEST_CASE("device profile: unknown keys are refused with a suggestion, before missing ones") {
  REQUIRE(refusal(with("launch_ns = 1", "launch_nss = 1")) ==
          "card.toml: line 17: unknown key cost.launch_nss (did you mean 'cost.launch_ns'?)");
  REQUIRE(refusal("nmae = \"x\"\n" + kGood) == "card.toml: line 1: unknown key nmae (did you mean 'name'?)");
  REQUIRE(refusal(kGood + "[power]\nwatts = 300\n") == "card.toml: line 39: unknown key power.watts");
  REQUIRE(refusal("memory = 5\n").find("unknown key memory") != std::string::npos);
  REQUIRE(refusal(kGood + "[vmm.map_ns2]\nx = 1\n").find("unknown key vmm.map_ns2") != std::string::npos);
  REQUIRE(refusal("\"a\\nb\" = 1\n").find("unknown key a?b") != std::string::npos);
}

TEST_CASE("device profile: wrong types and numbers out of range say what is wanted") {
  REQUIRE(refusal(with("multiprocessors = 10", "multiprocessors = \"10\"")) ==
          "card.toml: line 7: compute.multiprocessors has the wrong type: want a number from 1 to 4096");
  REQUIRE(refusal(with("multiprocessors = 10", "multiprocessors = 10.5")).find("wrong type") !=
          std::string::npos);
  REQUIRE(refusal(with("multiprocessors = 10", "multiprocessors = 0")) ==
          "card.toml: line 7: compute.multiprocessors is out of range: want a number from 1 to 4096");
  for (const char* duplex : {"0.49", "1.01", "nan", "inf", "-inf"}) {
    REQUIRE(refusal(with("duplex = 0.9", std::string("duplex = ") + duplex)) ==
            "card.toml: line 14: link.duplex is out of range: want a fraction from 0.5 to 1");
  }
  REQUIRE(refusal(with("map_ns = 12", "map_ns = -1")).find("out of range") != std::string::npos);
  REQUIRE(refusal(with("map_ns = 12", "map_ns = [12]")).find("wrong type") != std::string::npos);
  REQUIRE(refusal(with("bytes_per_second = 1e12", "bytes_per_second = 9223372036854775807"))
              .find("out of range") != std::string::npos);
  for (const char* capability :
       {"9", "9.", ".0", "4.9", "100.0", "9.0.0", "9.x", "-9.0", "9.-1", "9.-0", ""}) {
    REQUIRE(refusal(with("capability = \"8.6\"", std::string("capability = \"") + capability + "\""))
                .find("compute.capability wants a text like \"9.0\"") != std::string::npos);
  }
  REQUIRE(refusal(with("capability = \"8.6\"", "capability = 8.6")).find("wants a text") !=
          std::string::npos);
  REQUIRE(refusal(with("name = \"card\"", "name = \"\"")).find("name wants a text") != std::string::npos);
}

TEST_CASE("device profile: what is no TOML, or too much of it, is refused") {
  REQUIRE(refusal("name = \n").find("card.toml: line 1: ") == 0);
  REQUIRE(refusal(kGood + "[memory]\n").find("line 3") != std::string::npos);
  REQUIRE(refusal(std::string(65 << 10, '#')) == "card.toml: is no device profile: larger than 64 KiB");
  refusal(std::string("name = \"a\0b\"", 12));
  // toml++ 3.3 asserts here.
  REQUIRE(refusal("[+") == "card.toml: line 1: is no TOML");
  REQUIRE(refusal(kGood + "# end\n[+x]\n[memory]\n[+y]\n") == "card.toml: line 39: is no TOML");
  const std::string foreign = "has a character that is not ASCII outside of a comment";
  REQUIRE(refusal("# 1\nx = '\xc2\xb5s'\n" + kGood) == "card.toml: line 2: " + foreign);
  // What looks like a comment in a text is none, however the text is quoted.
  for (const char* text :
       {"x = '#\xc2\xb5'", "x = \"#\xc2\xb5\"", "x = \"\\\"#\xc2\xb5\"", "x = '''\n#'\xc2\xb5'''",
        "x = \"\"\"#\xc2\xb5\"\"\"", "x = \"\"\"a\"\"\"\"\"\ny = '#\xc2\xb5'", "x = \"\"\ny = '#\xc2\xb5'"}) {
    INFO(text);
    REQUIRE(refusal(text).find(foreign) != std::string::npos);
  }
  REQUIRE(parse_device_profile("\xef\xbb\xbf# 1 \xc2\xb5, \xff\n" + kGood, "card.toml").ok());
  for (const char* header : {"[+a]", "[ =]", "[[+a]]", "[a.+b]", "[", "[[", "[]"}) refusal(header);
  refusal("a = " + std::string(10000, '['));
}

TEST_CASE("device profile: files and names are found, or it is said what there is") {
  const ScratchFolder folder;
  const std::string here = folder / "";
  write_file(folder / "card.toml", kGood);
  REQUIRE(load_device_profile("card", here)->name == "card");
  REQUIRE(load_device_profile(folder / "card.toml", "/nowhere")->name == "card");
  REQUIRE(load_device_profile("crad", here).error().text ==
          "unknown device crad (did you mean 'card'?); known: card, or a file of your own (name.toml)");
  REQUIRE(load_device_profile("x", "/nowhere").error().text ==
          "unknown device x; known: none in /nowhere, or a file of your own (name.toml)");
  REQUIRE(load_device_profile("none.toml", here).error().text ==
          "none.toml: no such device profile; known: card, or a file of your own (name.toml)");
  REQUIRE(load_device_profile("CARD", here)
              .error()
              .text.starts_with("unknown device CARD (did you mean 'card'?)"));
  REQUIRE(load_device_profile("", here).error().text ==
          "unknown device ''; known: card, or a file of your own (name.toml)");
  REQUIRE(load_device_profile(here, here).error().text ==
          here + ": is a folder; name a device profile in it");
}

TEST_CASE("device profile: those that come with the project are good") {
  const std::string folder = tidepool::test::built("share/tidepool/profiles");
  const auto names = device_profile_names(folder);
  REQUIRE(names == std::vector<std::string>{"a100", "h100", "h200", "rtx3060", "rtx4090", "t4"});
  for (const std::string& name : names) {
    const auto profile = load_device_profile(name, folder);
    INFO((profile ? name : profile.error().text));
    REQUIRE(profile.ok());
    REQUIRE(profile->link_copy_engines >= 2);
    REQUIRE(profile->compute_tensor_flops > profile->compute_fp32_flops);
    // A number without its source is a number that somebody made up.
    std::ifstream in(folder + "/" + name + ".toml");
    for (std::string line; std::getline(in, line);) {
      if (line.find(" = ") == std::string::npos || line.rfind("name", 0) == 0) continue;
      INFO(line);
      REQUIRE(line.find("  # ") != std::string::npos);
    }
  }
}

TEST_CASE("device profile: what is written is read as the same") {
  DeviceProfile written;
  written.name = "A \"quoted\" \\ device";
  written.source = "caf\xc3\xa9, line\nbreak";
  written.compute_major = 12;
  // Different numbers in every field, inside its range: low, and a share of the way to high.
  double share = 0.1;
#define TP_PROFILE_FIELD(table, key, type, low, high, want)                         \
  written.table##_##key = static_cast<DeviceProfile::type>(                         \
      low + share * 1e-3 * (static_cast<double>(high) - static_cast<double>(low))); \
  share += 0.37;
#include "allocator/support/device_profile.def"
#undef TP_PROFILE_FIELD
  written.link_copy_engines = 2;
  written.link_duplex = 1;  // no digits behind the point
  written.memory_bytes_per_second = 3.3500831011037295e12;
  const auto remark = [](std::string_view table, std::string_view key) -> std::string_view {
    return table == "link" && key == "duplex" ? "a # remark" : "";
  };
  for (const tidepool::ProfileRemark said :
       {tidepool::ProfileRemark{nullptr}, tidepool::ProfileRemark{remark}}) {
    const std::string text = device_profile_text(written, said);
    INFO(text);
    CHECK((text.find("duplex = 1.0  # a # remark\n") != std::string::npos) == (said != nullptr));
    const auto read = parse_device_profile(text, "written");
    if (!read.ok()) FAIL(read.error().text);
    CHECK(read->name == written.name);
    CHECK(read->source == "caf??, line?break");
    CHECK(read->compute_major == 12);
    CHECK(read->compute_minor == 0);
#define TP_PROFILE_FIELD(table, key, type, low, high, want) \
  CHECK(read->table##_##key == written.table##_##key);
#include "allocator/support/device_profile.def"
#undef TP_PROFILE_FIELD
  }
}

TEST_CASE("device profile: the reference page describes every key") {
  std::ifstream in(TP_PROFILE_PAGE);
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  for (const std::string_view key : kKeys) {
    INFO(key);
    REQUIRE(page.find("| `" + std::string(key) + "` |") != std::string::npos);
  }
}
