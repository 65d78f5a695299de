#include "shim/next_runtime.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>
#include <string_view>

#include "allocator/support/message.h"
#include "shim/module_owner.h"
#include "shim/own_memory.h"
#include "shim/real_driver.h"

namespace tidepool::shim {
namespace {

/// A module where it is now.
struct Place {
  const link_map* map = nullptr;
  const void* start = nullptr;
  const char* name = "";
};

Place place_of(const void* code) noexcept {
  dl_find_object found{};
  if (::_dl_find_object(const_cast<void*>(code), &found) != 0) return {};
  return {found.dlfo_link_map, found.dlfo_map_start, found.dlfo_link_map->l_name};
}

bool is_same(const Place& a, const Place& b) noexcept {
  return a.map == b.map && a.start == b.start && std::strcmp(a.name, b.name) == 0;
}

/// One answer, never changed and never freed: readers hold no lock. One more is made when a module was
/// unloaded and another came to its place.
struct Answer {
  RuntimeHook hook;
  Place caller;
  void* function;
  Place target;
};

constexpr std::size_t kRoom =
    512;  // modules times functions that are called; beyond, every call asks the loader
constinit std::atomic<const Answer*> g_answers[kRoom] = {};

const char* copy_of(const char* text) noexcept {
  const std::size_t size = std::strlen(text) + 1;
  return static_cast<const char*>(std::memcpy(take_own_memory(size), text, size));
}

std::size_t first_place(RuntimeHook hook, const Place& caller) noexcept {
  const auto start = reinterpret_cast<std::uintptr_t>(caller.start) >> 12;
  return static_cast<std::size_t>(
      (start * kRuntimeHookCount + static_cast<std::size_t>(hook)) * 0x9E3779B97F4A7C15u >> 55);
}

void keep(const Answer& found) noexcept {
  auto* const answer = static_cast<Answer*>(take_own_memory(sizeof(Answer)));
  *answer = found;
  answer->caller.name = copy_of(found.caller.name);
  answer->target.name = copy_of(found.target.name);
  std::size_t at = first_place(found.hook, found.caller);
  for (std::size_t tries = 0; tries < kRoom; ++tries, at = (at + 1) % kRoom) {
    const Answer* there = g_answers[at].load(std::memory_order_acquire);
    // An answer that is no longer right has the same place and makes room.
    const bool is_free =
        there == nullptr || (there->hook == found.hook && there->caller.start == found.caller.start);
    if (is_free && g_answers[at].compare_exchange_strong(there, answer, std::memory_order_acq_rel)) return;
  }
  // No place is left, and nobody has seen it.
  give_own_memory(const_cast<char*>(answer->caller.name));
  give_own_memory(const_cast<char*>(answer->target.name));
  give_own_memory(answer);
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) report<Msg::TP1020>(kRoom);
}

/// The version in which a module asks for the functions of its CUDA runtime ("libcudart.so.13"); null: in
/// none.
const char* version_asked_by(const link_map* map) noexcept {
  const char* strings = nullptr;
  const char* needed = nullptr;
  std::size_t count = 0;
  // glibc turns some of these into addresses when it loads the module and leaves others as offsets.
  const auto at = [map](ElfW(Addr) value) {
    return reinterpret_cast<const char*>(value < map->l_addr ? map->l_addr + value : value);
  };
  for (const ElfW(Dyn)* entry = map->l_ld; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_STRTAB) strings = at(entry->d_un.d_ptr);
    if (entry->d_tag == DT_VERNEED) needed = at(entry->d_un.d_ptr);
    if (entry->d_tag == DT_VERNEEDNUM) count = entry->d_un.d_val;
  }
  if (strings == nullptr || needed == nullptr) return nullptr;
  for (std::size_t i = 0; i < count; ++i) {
    const auto* const file = reinterpret_cast<const ElfW(Verneed)*>(needed);
    if (module_of_file(strings + file->vn_file).owner == Owner::kCudart) {
      return strings + reinterpret_cast<const ElfW(Vernaux)*>(needed + file->vn_aux)->vna_name;
    }
    needed += file->vn_next;
  }
  return nullptr;
}

// dlvsym is not ours, dlsym is: the C library's is called with this library as the caller, so that RTLD_NEXT
// means what comes behind it.
void* look(void* handle, const char* name, const char* version) noexcept {
  void* const found = version != nullptr ? ::dlvsym(handle, name, version) : real_dlsym(handle, name);
  if (found == nullptr) (void)::dlerror();  // the program did not ask
  return found;
}

/// As look(), in a library that is open, by its path.
void* look_in(const char* path, const char* name, const char* version) noexcept {
  void* const handle = ::dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) {
    (void)::dlerror();
    return nullptr;
  }
  void* const found = look(handle, name, version);
  ::dlclose(handle);
  return found;
}

bool is_nccls(std::string_view name) noexcept {
  return name.starts_with("nccl");
}

/// Paths of the libraries of one kind that are loaded, whoever for.
struct Runtimes {
  std::string_view kind;  // as in library_names.def
  static constexpr std::size_t kMost = 8;
  static constexpr std::size_t kPath = 4096;
  std::size_t count = 0;
  char paths[kMost][kPath];
};

int note_runtime(dl_phdr_info* info, std::size_t, void* context) noexcept {
  auto& runtimes = *static_cast<Runtimes*>(context);
  const bool fits = runtimes.count < Runtimes::kMost && std::strlen(info->dlpi_name) < Runtimes::kPath;
  if (fits && module_of_file(info->dlpi_name).name == runtimes.kind) {
    std::strcpy(runtimes.paths[runtimes.count++], info->dlpi_name);  // NOLINT: its length was checked
  }
  return 0;
}

void* find_anywhere(const char* name) noexcept {
  auto* const runtimes = new (take_own_memory(sizeof(Runtimes))) Runtimes;
  runtimes->kind = is_nccls(name) ? "libnccl" : "libcudart";
  ::dl_iterate_phdr(&note_runtime, runtimes);
  void* found = nullptr;
  for (std::size_t i = 0; i < runtimes->count && found == nullptr; ++i) {
    found = look_in(runtimes->paths[i], name, nullptr);
  }
  give_own_memory(runtimes);
  return found;
}

bool is_ours(const void* function) noexcept {
  return place_of(function).map == place_of(reinterpret_cast<const void*>(&is_ours)).map;
}

// The loader's own order: the global scope, then the module's own.
void* find_in_scope(const char* name, const link_map* caller) noexcept {
  // The functions of NCCL and of the driver have none.
  const bool has_versions = std::strncmp(name, "cuda", 4) == 0;
  const char* const version = caller != nullptr && has_versions ? version_asked_by(caller) : nullptr;
  void* next = look(RTLD_NEXT, name, nullptr);
  // Another preloaded tool has no versions and serves them all, which dlvsym does not say; a runtime has one.
  if (next != nullptr && version != nullptr && module_of(next).owner == Owner::kCudart) {
    next = look(RTLD_NEXT, name, version);
  }
  if (next != nullptr) return next;
  if (caller == nullptr || caller->l_name[0] == '\0') return nullptr;
  void* const found = look_in(caller->l_name, name, version);
  return found != nullptr && !is_ours(found) ? found : nullptr;
}

// Last a module that links no runtime and leans on the one that its user has loaded for himself.
void* resolve(const char* name, const link_map* caller) noexcept {
  void* const found = find_in_scope(name, caller);
  return found != nullptr ? found : find_anywhere(name);
}

}  // namespace

void* next_runtime(RuntimeHook hook, const void* caller) noexcept {
  const Place place = place_of(caller);
  std::size_t at = first_place(hook, place);
  for (std::size_t tries = 0; tries < kRoom; ++tries, at = (at + 1) % kRoom) {
    const Answer* const answer = g_answers[at].load(std::memory_order_acquire);
    if (answer == nullptr) break;
    if (answer->hook != hook || answer->caller.start != place.start) continue;
    if (is_same(answer->caller, place) && is_same(answer->target, place_of(answer->function))) {
      return answer->function;
    }
    break;  // one of them was unloaded
  }
  void* const function = resolve(runtime_hook_name(hook), place.map);
  if (function != nullptr) keep({hook, place, function, place_of(function)});
  return function;
}

bool is_only_nccl(RuntimeHook hook, const void* function) noexcept {
  const char* const name = runtime_hook_name(hook);
  return function != nullptr && is_nccls(name) && find_anywhere(name) == function;
}

bool is_visible(const char* symbol, const void* caller) noexcept {
  return find_in_scope(symbol, place_of(caller).map) != nullptr;
}

// The loader lists modules in the order in which it searches them.
bool is_before(const void* code, const void* other) noexcept {
  struct Search {
    std::uintptr_t one, other;
    bool is_first = false;
  };
  const auto start_of = [](const link_map* map) noexcept { return map != nullptr ? map->l_addr : 0; };
  Search search{start_of(place_of(code).map), start_of(place_of(other).map)};
  const auto look_at = [](dl_phdr_info* module, std::size_t, void* context) noexcept {
    auto& wanted = *static_cast<Search*>(context);
    wanted.is_first = module->dlpi_addr == wanted.one;
    return wanted.is_first || module->dlpi_addr == wanted.other ? 1 : 0;
  };
  ::dl_iterate_phdr(look_at, &search);
  return search.is_first;
}

}  // namespace tidepool::shim
