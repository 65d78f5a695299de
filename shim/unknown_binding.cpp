#include "shim/unknown_binding.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "shim/hook_table.h"
#include "shim/real_driver.h"

namespace tidepool::shim {
namespace {

constexpr std::size_t kMost = 16;  // beyond, the first ones stand for all

using Name = decltype(UnknownBinding::name);
struct Names {
  std::array<Name, kMost> names{};
  std::size_t count = 0;

  void add(std::string_view symbol) noexcept {
    if (count == kMost || symbol.size() >= names[0].size()) return;
    symbol.copy(names[count++].data(), symbol.size());
  }
};

/// What of a module's dynamic section matters here.
struct Dynamic {
  const char* strings = nullptr;
  const ElfW(Sym) * symbols = nullptr;
  std::array<std::pair<const ElfW(Rela)*, std::size_t>, 2> relocations{};  // of data, and of calls; bytes
  bool needs_driver = false;
};

Dynamic dynamic_of(const dl_phdr_info& module, const ElfW(Dyn) * section) noexcept {
  Dynamic found;
  // glibc turns these into addresses when it loads the module, but for those of the kernel's own module.
  const auto at = [&](ElfW(Addr) value) {
    return reinterpret_cast<const char*>(value < module.dlpi_addr ? module.dlpi_addr + value : value);
  };
  for (const ElfW(Dyn)* entry = section; entry->d_tag != DT_NULL; ++entry) {
    switch (entry->d_tag) {
      case DT_STRTAB:
        found.strings = at(entry->d_un.d_ptr);
        break;
      case DT_SYMTAB:
        found.symbols = reinterpret_cast<const ElfW(Sym)*>(at(entry->d_un.d_ptr));
        break;
      case DT_RELA:
        found.relocations[0].first = reinterpret_cast<const ElfW(Rela)*>(at(entry->d_un.d_ptr));
        break;
      case DT_RELASZ:
        found.relocations[0].second = entry->d_un.d_val;
        break;
      case DT_JMPREL:
        found.relocations[1].first = reinterpret_cast<const ElfW(Rela)*>(at(entry->d_un.d_ptr));
        break;
      case DT_PLTRELSZ:
        found.relocations[1].second = entry->d_un.d_val;
        break;
      default:
        break;
    }
  }
  for (const ElfW(Dyn)* entry = section; entry->d_tag != DT_NULL && found.strings != nullptr; ++entry) {
    const bool names_it =
        entry->d_tag == DT_NEEDED && std::strncmp(found.strings + entry->d_un.d_val, "libcuda.so", 10) == 0;
    found.needs_driver = found.needs_driver || names_it;
  }
  return found;
}

bool is_unknown(std::string_view symbol) noexcept {
  return symbol.starts_with("cu") && find_hook(symbol) == Hook::kCount && is_hooked_base(symbol);
}

// Modules that are not linked against the driver find its functions by lookups, which are guarded.
int note_module(dl_phdr_info* module, std::size_t, void* context) noexcept {
  const ElfW(Dyn)* section = nullptr;
  for (std::size_t i = 0; i < module->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = module->dlpi_phdr[i];
    if (header.p_type == PT_DYNAMIC)
      section = reinterpret_cast<const ElfW(Dyn)*>(module->dlpi_addr + header.p_vaddr);
  }
  if (section == nullptr) return 0;
  const Dynamic dynamic = dynamic_of(*module, section);
  if (!dynamic.needs_driver || dynamic.symbols == nullptr) return 0;
  for (const auto& [first, bytes] : dynamic.relocations) {
    for (std::size_t i = 0; first != nullptr && i < bytes / sizeof(ElfW(Rela)); ++i) {
      const ElfW(Sym)& symbol = dynamic.symbols[ELF64_R_SYM(first[i].r_info)];
      const char* const name = dynamic.strings + symbol.st_name;
      if (symbol.st_shndx == SHN_UNDEF && is_unknown(name)) static_cast<Names*>(context)->add(name);
    }
  }
  return 0;
}

constinit std::atomic<bool> g_has_none{false};

}  // namespace

// Which of them are bound to something is asked only behind the loader's lock.
UnknownBinding::UnknownBinding() noexcept {
  if (g_has_none.load(std::memory_order_acquire)) return;
  Names found;
  ::dl_iterate_phdr(&note_module, &found);
  for (std::size_t i = 0; i < found.count; ++i) {
    if (real_dlsym(RTLD_DEFAULT, found.names[i].data()) != nullptr) {
      name = found.names[i];
      return;
    }
    (void)::dlerror();  // the program did not ask
  }
  g_has_none.store(true, std::memory_order_release);
}

}  // namespace tidepool::shim
