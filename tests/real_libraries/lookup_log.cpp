// Preloaded in front of libtidepool.so: sees what a CUDA library is given when it asks for functions of the
// driver, and asks the driver itself the same question. One line for each lookup in the file that
// TP_LOOKUP_FILE names:
//
//   KIND NAME VERSION FLAGS RESULT STATUS MODULE SYMBOL SAME | RESULT STATUS SYMBOL
//
// KIND is "dlsym", "asked" (by cuGetProcAddress) or "twin": what was asked, asked again for the per-thread
// default stream. MODULE and SYMBOL are where the answer lies, "-" if nowhere; SAME is 1 where it is the
// driver's own pointer. Behind the bar is what the driver itself answers.

#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

using Dlsym = void* (*)(void*, const char*);
using Lookup = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
using OldLookup = CUresult (*)(const char*, void**, int, cuuint64_t);

void* g_driver = nullptr;
Lookup g_given = nullptr;
OldLookup g_given_old = nullptr;

/// The next in the order of preloads: libtidepool.so's, or the C library's where it is not there.
Dlsym next_dlsym() {
  static const auto next = reinterpret_cast<Dlsym>(dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34"));
  return next;
}
/// The C library's.
Dlsym own_dlsym() {
  static const auto own =
      reinterpret_cast<Dlsym>(dlvsym(dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD), "dlsym", "GLIBC_2.34"));
  return own;
}

struct Answer {
  CUresult result = CUDA_SUCCESS;
  int status = -1;
  void* function = nullptr;
};

const char* file_of(const void* function, Dl_info& info) {
  if (function == nullptr || dladdr(function, &info) == 0) return "-";
  const char* const slash = std::strrchr(info.dli_fname, '/');
  return slash != nullptr ? slash + 1 : info.dli_fname;
}
const char* symbol_of(const void* function, Dl_info& info) {
  const bool is_start = function != nullptr && dladdr(function, &info) != 0 && info.dli_saddr == function;
  return is_start && info.dli_sname != nullptr ? info.dli_sname : "-";
}

void log(const char* kind, const char* name, int version, cuuint64_t flags, const Answer& got,
         const Answer& own) {
  static const char* const path = std::getenv("TP_LOOKUP_FILE");
  static const int file = path != nullptr ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
  if (file < 0) return;
  Dl_info module{};
  Dl_info symbol{};
  Dl_info own_symbol{};
  char line[1024];
  const int length = std::snprintf(
      line, sizeof line, "%s %s %d %llu %d %d %s %s %d | %d %d %s\n", kind, *name != '\0' ? name : "-",
      version, static_cast<unsigned long long>(flags), got.result, got.status, file_of(got.function, module),
      symbol_of(got.function, symbol), got.function == own.function ? 1 : 0, own.result, own.status,
      symbol_of(own.function, own_symbol));
  (void)!write(file, line, static_cast<std::size_t>(length));
}

template <class F>
Answer ask(F lookup, const char* name, int version, cuuint64_t flags) {
  Answer answer;
  auto status = CU_GET_PROC_ADDRESS_SUCCESS;
  answer.result = lookup(name, &answer.function, version, flags, &status);
  answer.status = static_cast<int>(status);
  return answer;
}

Answer ask_driver(const char* name, int version, cuuint64_t flags) {
  return ask(reinterpret_cast<Lookup>(own_dlsym()(g_driver, "cuGetProcAddress_v2")), name, version, flags);
}

CUresult logged_lookup(const char* name, void** out, int version, cuuint64_t flags,
                       CUdriverProcAddressQueryResult* status);
CUresult logged_old_lookup(const char* name, void** out, int version, cuuint64_t flags);

// A lookup that hands itself out: what it hands out shall be logged too.
void stay_in_front(void** out) {
  Dl_info info{};
  if (*out == reinterpret_cast<void*>(g_given)) {
    *out = reinterpret_cast<void*>(&logged_lookup);
  } else if (std::strcmp(symbol_of(*out, info), "cuGetProcAddress") == 0) {
    g_given_old = reinterpret_cast<OldLookup>(*out);
    *out = reinterpret_cast<void*>(&logged_old_lookup);
  }
}

CUresult logged_lookup(const char* name, void** out, int version, cuuint64_t flags,
                       CUdriverProcAddressQueryResult* status) {
  void* const before = out != nullptr ? *out : nullptr;
  Answer got;
  got.result = g_given(name, out, version, flags, status);
  if (name == nullptr || out == nullptr) return got.result;
  got.function = *out != before || got.result == CUDA_SUCCESS ? *out : nullptr;
  const Answer own = ask_driver(name, version, flags);
  got.status = status != nullptr ? static_cast<int>(*status) : own.status;
  log("asked", name, version, flags, got, own);
  const cuuint64_t twin = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  log("twin", name, version, twin, ask(g_given, name, version, twin), ask_driver(name, version, twin));
  if (got.function != nullptr && std::strcmp(name, "cuGetProcAddress") == 0) stay_in_front(out);
  return got.result;
}

CUresult logged_old_lookup(const char* name, void** out, int version, cuuint64_t flags) {
  const CUresult result = g_given_old(name, out, version, flags);
  if (name == nullptr || out == nullptr) return result;
  Answer own = ask_driver(name, version, flags);
  own.result = result;  // the older form has another error for a name that is not there
  if (result == CUDA_SUCCESS && std::strcmp(name, "cuGetProcAddress") == 0) stay_in_front(out);
  log("asked", name, version, flags, {result, own.status, result == CUDA_SUCCESS ? *out : nullptr}, own);
  return result;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void* dlsym(void* handle, const char* name) {
  const bool is_drivers = name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
  // A jump: RTLD_NEXT goes by who called.
  if (!is_drivers || handle == RTLD_NEXT || handle == RTLD_DEFAULT) return next_dlsym()(handle, name);
  void* const found = next_dlsym()(handle, name);
  void* const own = own_dlsym()(handle, name);
  if (own == nullptr) return found;
  g_driver = handle;
  log("dlsym", name, 0, 0, {CUDA_SUCCESS, 0, found}, {CUDA_SUCCESS, 0, own});
  if (std::strcmp(name, "cuGetProcAddress_v2") == 0) {
    g_given = reinterpret_cast<Lookup>(found);
    return reinterpret_cast<void*>(&logged_lookup);
  }
  if (std::strcmp(name, "cuGetProcAddress") == 0) {
    g_given_old = reinterpret_cast<OldLookup>(found);
    return reinterpret_cast<void*>(&logged_old_lookup);
  }
  return found;
}
