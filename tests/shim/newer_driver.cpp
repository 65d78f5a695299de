// A libcuda.so.1 of a few functions that is new: it has a version of cuMemFree that nobody has seen yet, and
// an entry of a name that nobody hooks.

extern "C" {
__attribute__((visibility("default"), noipa)) int cuMemFree_v2(unsigned long long) {
  return 3;  // CUDA_ERROR_NOT_INITIALIZED
}
__attribute__((visibility("default"))) int cuMemFree_v9(int a, int b) {
  return a + b;
}
__attribute__((visibility("default"))) int cuNewerEntry() {
  return 0;
}
__attribute__((visibility("default"))) int cuInit(unsigned) {
  return 0;
}
__attribute__((visibility("default"))) int cuLaunchKernel() {
  return 0;
}
}

// What it calls by a name that others can define is found in front of it, while it is being loaded as well.
__attribute__((constructor)) static void on_load() {
  (void)cuMemFree_v2(0);
}
