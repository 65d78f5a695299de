// `env_probe LIBRARY [NAME=VALUE...]` changes its environment, then loads the library and says what that has
// read. `env_probe plain` looks at everything else that getenv answers.

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

extern char** environ;

namespace {

#define EXPECT(condition) ((condition) ? void() : failed(#condition))
[[noreturn]] void failed(const char* what) {
  std::fprintf(stderr, "env_probe: %s\n", what);
  std::exit(1);
}

/// The environment as it lies in memory.
const char* scan(std::string_view name) {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (text.starts_with(name) && text.substr(name.size()).starts_with('=')) return *entry + name.size() + 1;
  }
  return nullptr;
}

void plain() {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name(*entry, std::strchr(*entry, '=') - *entry);
    EXPECT(std::getenv(name.c_str()) == scan(name));
    EXPECT(secure_getenv(name.c_str()) == scan(name));
  }
  for (const char* name :
       {"", "NO_SUCH_VARIABLE", "P", "PYTORCH", "PYTORCH_CUDA_ALLOC_CONF_", "PYTORCH_ALLOC_CON"}) {
    EXPECT(std::getenv(name) == nullptr && secure_getenv(name) == nullptr);
  }
  // The process' own environment, which its children get, is as the user made it.
  EXPECT(scan("PYTORCH_CUDA_ALLOC_CONF") == nullptr && scan("PYTORCH_ALLOC_CONF") == nullptr);
  // Asked a thousand times it is the same text, and asked by several threads.
  const char* const first = std::getenv("PYTORCH_CUDA_ALLOC_CONF");
  EXPECT(first != nullptr);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([first] {
      for (int round = 0; round < 1000; ++round) EXPECT(std::getenv("PYTORCH_CUDA_ALLOC_CONF") == first);
    });
  }
  for (std::thread& thread : threads) thread.join();
  // A program that sets one value after the other gets an answer for each.
  for (int i = 0; i < 200; ++i) {
    const std::string value = "a:" + std::to_string(i);
    setenv("PYTORCH_CUDA_ALLOC_CONF", value.c_str(), 1);
    EXPECT(std::string_view(std::getenv("PYTORCH_CUDA_ALLOC_CONF")).starts_with(value));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "plain") {
    plain();
    std::puts("as expected");
    return 0;
  }
  if (argc < 2) return 2;
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    const auto equals = word.find('=');
    EXPECT(equals != word.npos);
    setenv(word.substr(0, equals).c_str(), word.substr(equals + 1).c_str(), 1);
  }
  void* const library = dlopen(argv[1], RTLD_NOW);
  EXPECT(library != nullptr);
  std::puts(reinterpret_cast<const char* (*)()>(dlsym(library, "tp_test_env_read"))());
  return 0;
}
