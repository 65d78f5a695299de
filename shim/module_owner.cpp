#include "shim/module_owner.h"

#include <dlfcn.h>
#include <link.h>

#include <string_view>

namespace tidepool::shim {
namespace {

constexpr Module kProgram{Owner::kProgram, ""};

constexpr struct Row {
  std::string_view name;
  Owner owner;
} kRows[] = {
#define TP_CUDART(name) {name, Owner::kCudart},
#define TP_DRIVER(name) {name, Owner::kDriver},
#define TP_LIBRARY(name) {name, Owner::kLibrary},
#include "shim/library_names.def"
#undef TP_CUDART
#undef TP_DRIVER
#undef TP_LIBRARY
};

// What follows a row's name in the name of a file of that library.
bool ends_a_name(std::string_view rest) noexcept {
  while (!rest.empty() && rest[0] >= '0' && rest[0] <= '9') rest.remove_prefix(1);
  return rest.starts_with(".so") || rest.starts_with('-') || rest.starts_with('_');
}

}  // namespace

Module module_of_file(const char* path) noexcept {
  if (path == nullptr || path[0] == '\0') return kProgram;  // the loader has no name for the program itself
  std::string_view file(path);
  file.remove_prefix(file.rfind('/') + 1);  // none: npos + 1 is 0
  // Most modules are told apart by these letters alone.
  if (!file.starts_with("libcu") && !file.starts_with("libn")) return kProgram;
  for (const Row& row : kRows) {
    if (file.starts_with(row.name) && ends_a_name(file.substr(row.name.size()))) {
      return {row.owner, row.name.data()};
    }
  }
  return kProgram;
}

Module module_of(const void* code) noexcept {
  dl_find_object found{};
  // The loader's own table, which is right also while libraries come and go on other threads.
  if (::_dl_find_object(const_cast<void*>(code), &found) != 0) return kProgram;
  return module_of_file(found.dlfo_link_map->l_name);
}

}  // namespace tidepool::shim
