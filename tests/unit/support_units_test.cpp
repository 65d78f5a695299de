#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "allocator/support/host_memory.h"
#include "allocator/support/text_writer.h"
#include "allocator/support/units.h"

namespace tidepool {
namespace {

std::string why_refused(std::string_view text) {
  const auto got = parse_bytes(text);
  return got ? "taken as " + std::to_string(got->count()) : got.error().why;
}
std::uint64_t read(std::string_view text) {
  return parse_bytes(text).value().count();
}
std::string shown(Bytes n) {
  return BytesText(n).c_str();
}
std::string shown(Nanos n) {
  char text[kUnitTextBytes];
  return format_duration(text, sizeof text, n);
}

TEST_CASE("units: bytes are read with every unit, whole and with decimals") {
  CHECK(read("0") == 0);
  CHECK(read("17") == 17);
  CHECK(read("17B") == 17);
  CHECK(read("3K") == 3072);
  CHECK(read("3KiB") == 3072);
  CHECK(read("2M") == 2097152);
  CHECK(read("2MiB") == 2097152);
  CHECK(read("1G") == 1073741824);
  CHECK(read("1.5GiB") == 1610612736);
  CHECK(read("1T") == 1099511627776);
  CHECK(read("0.5TiB") == 549755813888);
  CHECK(read("47.9 MiB") == 50226790);  // 47.9 * 2^20 = 50226790.4
  CHECK(read("0.0001K") == 0);
  CHECK(read("0.333333333333333333333333333333GiB") == 357913941);
  CHECK(read("18446744073709551615") == std::numeric_limits<std::uint64_t>::max());
  CHECK(read("16777215.999999T") == 18446744073708452104ULL);
}

TEST_CASE("units: what is not a number of bytes is refused with the reason") {
  CHECK(why_refused("") == "it has no number");
  CHECK(why_refused("-1") == "it is negative");
  CHECK(why_refused("-1GiB") == "it is negative");
  CHECK(why_refused("18446744073709551616") == "it is too large");
  CHECK(why_refused("16777216T") == "it is too large");
  CHECK(why_refused("99999999999999999999999999999") == "it is too large");
  CHECK(why_refused("1.5") == "bytes are whole numbers");
  CHECK(why_refused("1.GiB") == "digits are missing after the point");
  CHECK(why_refused("1 ") == "a unit is missing after the space");
  for (const char* text : {"GiB", ".5G", "+1", " 1", "abc", "%", "0x10x"}) {
    CHECK(why_refused(text).find("taken") == std::string::npos);
  }
  for (const char* text :
       {"1GB", "1gib", "1g", "1k", "1  GiB", "1GiB ", "1e3", "1,5G", "0x10", "1P", "1.5.5G"}) {
    CHECK(why_refused(text) == "its unit is none of B, K, KiB, M, MiB, G, GiB, T, TiB");
  }
  CHECK(why_refused(std::string_view("1G\0", 3)).find("unit") != std::string::npos);
}

TEST_CASE("units: an amount is bytes or a share of a whole") {
  CHECK(parse_amount("16GiB").value() == Amount::bytes(GiB(16)));
  CHECK(parse_amount("50%").value() == Amount::share(500'000));
  CHECK(parse_amount("12.5%").value() == Amount::share(125'000));
  CHECK(parse_amount("0.0001%").value() == Amount::share(1));
  CHECK(parse_amount("100%").value() == Amount::share(1'000'000));
  for (const char* text : {"%", "-5%", "5 %", "5%%", "0.00001%", "9999999999%", "five%", "", "5%GiB"}) {
    CHECK_FALSE(parse_amount(text).ok());
  }
  CHECK(Amount::bytes(MiB(3)).resolve(GiB(1)) == MiB(3));
  CHECK(Amount::share(500'000).resolve(GiB(80)) == GiB(40));
  CHECK(Amount::share(1).resolve(Bytes(999'999)) == Bytes(0));
  CHECK(Amount::share(1).resolve(Bytes(1'000'000)) == Bytes(1));
  CHECK(Amount::share(2'000'000).resolve(GiB(1)) == GiB(1));
  const Bytes all(std::numeric_limits<std::uint64_t>::max());
  CHECK(Amount::share(1'000'000).resolve(all) == all);
  CHECK(Amount::share(500'000).resolve(all) == Bytes(all.count() / 2));
}

TEST_CASE("units: bytes are shown with one decimal") {
  CHECK(shown(Bytes(0)) == "0 B");
  CHECK(shown(Bytes(1023)) == "1023 B");
  CHECK(shown(KiB(1)) == "1.0 KiB");
  CHECK(shown(MiB(48)) == "48.0 MiB");
  CHECK(shown(Bytes(50226790)) == "47.9 MiB");
  CHECK(shown(Bytes(MiB(1).count() - 1)) == "1.0 MiB");
  CHECK(shown(Bytes(GiB(1).count() * 6 / 5)) == "1.2 GiB");
  CHECK(shown(Bytes(std::numeric_limits<std::uint64_t>::max())) == "16.0 EiB");
}

TEST_CASE("units: bytes that were shown can be read back, within half of the last digit") {
  std::mt19937_64 random(20261127);
  for (int i = 0; i < 20000; ++i) {
    const Bytes n(random() >> (random() % 45 + 14));  // up to 2^50: beyond TiB the parser has no unit
    const auto back = parse_bytes(shown(n));
    REQUIRE(back.ok());
    std::uint64_t unit = 1;
    while (n.count() >= 1024 * unit) unit *= 1024;
    const std::uint64_t error = std::max(n.count(), back->count()) - std::min(n.count(), back->count());
    // A value just below the next unit is shown in that unit, whose last digit is worth more.
    REQUIRE(error <= (n.count() > 1023 * unit ? 1024 * unit / 20 : unit / 20) + 1);
  }
}

TEST_CASE("units: parsing never reads past the text or takes noise") {
  std::mt19937 random(7);
  constexpr char kAlphabet[] = "0123456789.% KMGTiB-+exX";
  for (int i = 0; i < 50000; ++i) {
    std::string text(random() % 12, ' ');
    for (char& c : text) c = kAlphabet[random() % (sizeof kAlphabet - 1)];
    const auto amount = parse_amount(text);
    if (amount) {
      REQUIRE((text[0] >= '0' && text[0] <= '9'));
      REQUIRE(text.find_first_of("-+exX") == std::string::npos);
      REQUIRE(amount->is_share() == (text.back() == '%'));
    }
  }
}

TEST_CASE("units: spans of time are shown in their size") {
  CHECK(shown(Nanos(0)) == "0ns");
  CHECK(shown(Nanos(350)) == "350ns");
  CHECK(shown(Nanos(41'999)) == "41us");
  CHECK(shown(millis(41)) == "41ms");
  CHECK(shown(Nanos(1'249'000'000)) == "1.2s");
  CHECK(shown(Nanos(59'960'000'000)) == "1m00s");
  CHECK(shown(seconds(751)) == "12m31s");
  CHECK(shown(seconds(3599)) == "59m59s");
  CHECK(shown(seconds(7500)) == "2h05m");
  CHECK(shown(millis(-3)) == "-3ms");
}

TEST_CASE("units: text that does not fit is cut and ends in a zero byte") {
  char text[8];
  std::memset(text, 'x', sizeof text);
  format_bytes(text, 5, MiB(48));
  CHECK(std::string(text) == "48.0");
  CHECK(text[5] == 'x');
  TextWriter(text, 1).put("abc");
  CHECK(text[0] == '\0');
  text[0] = 'x';
  TextWriter(text, 0).put("abc");
  CHECK(text[0] == 'x');
  TextWriter(text, sizeof text).put_number(7, 3).put(":").put_number(0);
  CHECK(std::string(text) == "007:0");
}

// HAMi#1181, kvcached#377: amounts below zero.
TEST_CASE("units: bytes saturate where wrapping would lie") {
  CHECK(MiB(1) - MiB(2) == Bytes(0));
  CHECK(Bytes(1).round_up(MiB(2)) == MiB(2));
  CHECK(MiB(2).round_up(MiB(2)) == MiB(2));
  CHECK(Bytes(std::numeric_limits<std::uint64_t>::max()).round_up(MiB(2)).is_multiple_of(MiB(2)));
}

TEST_CASE("units: the clock goes forward and the host has memory") {
  const Nanos before = monotonic_now();
  CHECK(monotonic_now() >= before);
  CHECK(before > Nanos(0));
  CHECK(host_memory() > MiB(16));
}

}  // namespace
}  // namespace tidepool
