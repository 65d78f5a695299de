// libraries: tp_cli
#include <memory>
#include <string>
#include <string_view>

#include "allocator/support/options.h"
#include "tests/fuzz/fuzzer.h"
#include "tools/tidepool/config_file.h"

/// tidepool.toml. What is refused is one line that names the file; what is taken are values that their
/// options take, each option once.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using tidepool::tools::ConfigFile;
  const ConfigFile config =
      tidepool::tools::parse_config({reinterpret_cast<const char*>(data), size}, "t.toml");
  if (!config.error.empty()) {
    fuzz_require(config.error.starts_with("t.toml"));
    for (const char c : config.error) fuzz_require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
    return 0;
  }
  const auto options = std::make_unique<tidepool::Options>(tidepool::default_options());
  for (const auto& [row, text] : config.values) {
    fuzz_require(tidepool::set_option(*options, *row, text).ok());
    fuzz_require(config.value_of(*row) == &text);
  }
  return 0;
}
