// A libcuda.so.1 with a version of cuMemFree that nobody has seen yet, and an entry of a name that nobody
// hooks.

extern "C" {
__attribute__((visibility("default"))) int cuMemFree_v9(int a, int b) {
  return a + b;
}
__attribute__((visibility("default"))) int cuNewerEntry() {
  return 0;
}
}
