// libraries: tp_cli
#include <sstream>
#include <string>

#include "tests/fuzz/fuzzer.h"
#include "tools/tidepool/elf_file.h"

/// The headers of a program. Whatever the bytes are, reading them ends, and no name is longer than what there
/// is.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::istringstream file(std::string(reinterpret_cast<const char*>(data), size));
  const auto facts = tidepool::tools::read_elf(file);
  if (!facts) return 0;
  fuzz_require(size >= 16);
  for (const std::string& name : facts->needed) fuzz_require(name.size() <= size);
  return 0;
}
