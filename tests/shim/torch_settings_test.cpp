#include "shim/torch_settings.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <string>

namespace tidepool::shim {
namespace {

/// What PyTorch reads where the user has set this; "unchanged" where that is the user's own.
std::string read_as(const char* user, AllocChoice choice, std::size_t size = 4096) {
  std::string out(size, '#');
  if (!merge_torch_settings(user, choice, out.data(), size)) return "unchanged";
  CHECK(std::strlen(out.c_str()) < size);
  return out.c_str();
}

constexpr AllocChoice kAsyncChoices[] = {AllocChoice::kAuto, AllocChoice::kAsync};

}  // namespace

TEST_CASE("torch settings: async adds the backend behind what the user has set") {
  for (const AllocChoice choice : kAsyncChoices) {
    CHECK(read_as("", choice) == "backend:cudaMallocAsync");
    CHECK(read_as("  ", choice) == "backend:cudaMallocAsync");
    CHECK(read_as("expandable_segments:True", choice) == "expandable_segments:True,backend:cudaMallocAsync");
    CHECK(read_as("a:1, b:2 ", choice) == "a:1, b:2,backend:cudaMallocAsync");
    CHECK(read_as("a:1,", choice) == "a:1,backend:cudaMallocAsync");
    CHECK(read_as("roundup_power2_divisions:[256:1,512:2,>:4]", choice) ==
          "roundup_power2_divisions:[256:1,512:2,>:4],backend:cudaMallocAsync");
  }
}

TEST_CASE("torch settings: a backend that the user names wins") {
  for (const AllocChoice choice : kAsyncChoices) {
    for (const char* user :
         {"backend:native", "backend:cudaMallocAsync", " backend : native",
          "max_split_size_mb:64,backend:native", "a:[x:1,y:2],backend:native,b:3", "backend:"}) {
      INFO(user);
      CHECK(read_as(user, choice) == "unchanged");
    }
    // What only looks like one is none.
    for (const char* user :
         {"backends:native", "mybackend:native", "a:[backend:native]", "backend", "a:backend"}) {
      INFO(user);
      CHECK(read_as(user, choice) == std::string(user) + ",backend:cudaMallocAsync");
    }
  }
}

TEST_CASE("torch settings: native splits large segments, unless the user has said how") {
  const AllocChoice native = AllocChoice::kNative;
  CHECK(read_as("", native) == "max_split_size_mb:21");
  CHECK(read_as("expandable_segments:True", native) == "expandable_segments:True,max_split_size_mb:21");
  CHECK(read_as("backend:native", native) == "backend:native,max_split_size_mb:21");
  CHECK(read_as("max_split_size_mb:128", native) == "unchanged");
  CHECK(read_as("backend:cudaMallocAsync", native) == "unchanged");
}

TEST_CASE("torch settings: a text without room stays as it is") {
  for (const AllocChoice choice : {AllocChoice::kAuto, AllocChoice::kNative}) {
    const std::string whole = read_as("a:1", choice);
    for (std::size_t size = 0; size <= whole.size() + 4; ++size) {
      const std::string got = read_as("a:1", choice, size);
      CHECK((got == whole || got == "unchanged"));
      if (size <= whole.size()) CHECK(got == "unchanged");
    }
    CHECK(read_as(std::string(5000, 'a').c_str(), choice) == "unchanged");
  }
}

TEST_CASE("torch settings: exactly two variables are meant") {
  CHECK(is_torch_settings("PYTORCH_CUDA_ALLOC_CONF"));
  CHECK(is_torch_settings("PYTORCH_ALLOC_CONF"));
  for (const char* name :
       {"", "P", "PATH", "PYTORCH_CUDA_ALLOC_CON", "PYTORCH_CUDA_ALLOC_CONFX", "PYTORCH_ALLOC_CONF_",
        "pytorch_alloc_conf", "PYTORCH_NO_CUDA_MEMORY_CACHING", "PYTORCH_HIP_ALLOC_CONF"}) {
    INFO(name);
    CHECK_FALSE(is_torch_settings(name));
  }
  CHECK(std::string(other_torch_settings("PYTORCH_ALLOC_CONF")) == "PYTORCH_CUDA_ALLOC_CONF");
  CHECK(std::string(other_torch_settings("PYTORCH_CUDA_ALLOC_CONF")) == "PYTORCH_ALLOC_CONF");
}

}  // namespace tidepool::shim
