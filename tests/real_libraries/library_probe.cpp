// `library_probe LIBRARY FUNCTION...`: loads a CUDA library as an extension module would (RTLD_LOCAL) and
// calls functions of it that take nothing but pointers to results, or nothing. Says what each returned.

#include <dlfcn.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  static char results[4][1 << 16];
  for (int i = 2; i < argc; ++i) {
    const auto function = reinterpret_cast<int (*)(void*, void*, void*, void*)>(dlsym(library, argv[i]));
    if (function == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      return 1;
    }
    std::printf("%s %d\n", argv[i], function(results[0], results[1], results[2], results[3]));
  }
  return 0;
}
