#include "tools/probe/doors/module_name.h"

#include <dlfcn.h>

#include <string_view>

#include "allocator/support/text_writer.h"

namespace tidepool::doors {

void put_module_name(const void* address, char* buffer, std::size_t size) noexcept {
  Dl_info info{};
  const bool is_found = address != nullptr && ::dladdr(address, &info) != 0 && info.dli_fname != nullptr;
  std::string_view path = is_found ? info.dli_fname : "";
  path.remove_prefix(path.rfind('/') + 1);  // none: npos + 1 is 0
  TextWriter(buffer, size).put(path);
}

}  // namespace tidepool::doors
