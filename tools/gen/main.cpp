// tidepool-gen: writes the pages that follow from the tables, or says which of them are not current.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "tools/gen/page.h"

namespace tidepool::gen {
namespace {

namespace fs = std::filesystem;

constexpr char kUsage[] =
    "usage: tidepool-gen --write SOURCES | --check SOURCES | --build FOLDER\n"
    "\n"
    "  --write   writes the generated pages of docs/reference below the sources\n"
    "  --check   exits with 1 if one of them is not what --write would write\n"
    "  --build   writes manual pages and completions below the folder\n";

std::vector<Page> committed() {
  std::vector<Page> pages = reference_pages();
  pages.push_back(events_page());
  pages.push_back(hooks_page());
  return pages;
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int write(const fs::path& root, const std::vector<Page>& pages) {
  for (const Page& page : pages) {
    const fs::path path = root / page.path;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (read(path) == page.text) continue;  // keeps its time, so that nothing is built again
    std::ofstream file(path, std::ios::binary);
    file << page.text;
    if (!file.flush()) return std::fprintf(stderr, "tidepool-gen: %s cannot be written\n", path.c_str()), 1;
  }
  return 0;
}

int check(const fs::path& root) {
  int stale = 0;
  for (const Page& page : committed()) {
    if (read(root / page.path) == page.text) continue;
    std::printf("%s is not current\n", page.path.c_str());
    ++stale;
  }
  if (stale > 0) std::puts("Write them again: build/dev/bin/tidepool-gen --write .");
  return stale > 0 ? 1 : 0;
}

int run(int argc, char** argv) {
  const std::string_view what = argc == 3 ? argv[1] : "";
  if (what == "--write") return write(argv[2], committed());
  if (what == "--check") return check(argv[2]);
  if (what == "--build") {
    const int code = write(argv[2], manual_pages());
    return code != 0 ? code : write(argv[2], completion_pages());
  }
  const bool asked =
      argc == 2 && (std::string_view(argv[1]) == "--help" || std::string_view(argv[1]) == "-h");
  std::fputs(kUsage, asked ? stdout : stderr);
  return asked ? 0 : 2;
}

}  // namespace
}  // namespace tidepool::gen

int main(int argc, char** argv) {
  return tidepool::gen::run(argc, argv);
}
