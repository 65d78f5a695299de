// Built twice, as two libraries: the first asks for the next definition of its own function. dlsym finds out
// who asks from the return address, so a wrapper that calls the C library's dlsym would answer with the first
// library's own function, for ever.

#include <dlfcn.h>

extern "C" __attribute__((visibility("default"))) int tp_test_position() {
#ifdef TP_TEST_FIRST
  auto* next = reinterpret_cast<int (*)()>(dlsym(RTLD_NEXT, "tp_test_position"));
  return next != nullptr && next != &tp_test_position ? 1 + next() : 0;
#else
  return 1;
#endif
}
