#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

#include "tests/fuzz/fuzzer.h"

/// In place of libFuzzer's main: gives every file of the folders and files named to the fuzzer, once. A crash
/// names the file that was read last.
namespace {

void replay(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::vector<char> all((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  // Not the vector's own memory, which may be larger than what it holds.
  const auto input = std::make_unique<std::uint8_t[]>(all.size());
  std::copy(all.begin(), all.end(), input.get());
  std::fprintf(stderr, "%s\n", path.c_str());
  LLVMFuzzerTestOneInput(input.get(), all.size());
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t count = 0;
  for (int i = 1; i < argc; ++i) {
    const std::filesystem::path path(argv[i]);
    if (!std::filesystem::is_directory(path)) {
      replay(path);
      ++count;
      continue;
    }
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(path)) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const auto& file : files) replay(file);
    count += files.size();
  }
  std::printf("%zu inputs\n", count);
  return count > 0 ? 0 : 1;
}
