// `early_probe hooked|plain BYTES [at-exit]`: what early_library.cpp met in its constructor; it frees its
// memory now or at the end.

#include <cstdio>
#include <cstdlib>
#include <string_view>

extern "C" std::size_t tp_test_early_total();
extern "C" bool tp_test_early_hooked();
extern "C" int tp_test_early_free();
extern "C" void tp_test_early_leave_to_exit();

int main(int argc, char** argv) {
  const bool at_exit = argc == 4 && std::string_view(argv[3]) == "at-exit";
  if (argc != 3 && !at_exit) return 2;
  const bool hooked = std::string_view(argv[1]) == "hooked";
  const std::size_t total = std::strtoull(argv[2], nullptr, 10);
  if (tp_test_early_hooked() != hooked || tp_test_early_total() != total) {
    std::fprintf(stderr, "early_probe: hooked %d, the device had %zu bytes\n", tp_test_early_hooked(),
                 tp_test_early_total());
    return 1;
  }
  if (at_exit) {
    tp_test_early_leave_to_exit();
  } else if (const int code = tp_test_early_free(); code != 0) {
    std::fprintf(stderr, "early_probe: cuMemFree: %d\n", code);
    return 1;
  }
  std::puts("as expected");
  return 0;
}
