#include "tools/tidepool/library_path.h"

#include <filesystem>
#include <system_error>

namespace tidepool::tools {

namespace fs = std::filesystem;

std::string library_path() {
  std::error_code error;
  const fs::path prefix = fs::read_symlink("/proc/self/exe", error).parent_path().parent_path();
  const fs::path installed = prefix / TP_INSTALL_LIBDIR / "tidepool" / "libtidepool.so";
  const fs::path built = prefix / "lib" / "libtidepool.so";
  return fs::exists(built, error) && !fs::exists(installed, error) ? built.string() : installed.string();
}

}  // namespace tidepool::tools
