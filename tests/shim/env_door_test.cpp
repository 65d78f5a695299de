// What PyTorch reads of its allocator's settings, and that nothing else changes.

#include <catch2/catch.hpp>

#include "tests/process/child_process.h"

namespace tidepool::test {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;
const std::string kAsync = "backend:cudaMallocAsync";

Outcome preloaded(const std::vector<std::string>& words, Variables variables) {
  std::string preload = preload_first();
  if (!preload.empty()) preload += ':';
  variables.emplace_back("LD_PRELOAD", preload + built("lib/libtidepool.so"));
  return run({words, "", variables, false, false});
}

/// What a library reads in its static initialiser: "value of PYTORCH_CUDA_ALLOC_CONF;of
/// PYTORCH_ALLOC_CONF;\n". `set` is what the program itself sets before it loads the library.
std::string read(const std::vector<std::string>& set, const Variables& variables) {
  std::vector<std::string> words = {built("tests/env_probe"), built("tests/env_door/libenv_library.so")};
  words.insert(words.end(), set.begin(), set.end());
  const Outcome got = preloaded(words, variables);
  CHECK(got.err.empty());
  CHECK(got.code() == 0);
  return got.out;
}

}  // namespace

// pytorch-internals: os.environ[...] before `import torch` beat the value that a constructor had set.
TEST_CASE(
    "environment door: a library that is loaded after the program has changed the variable reads it merged") {
  CHECK(read({}, {}) == kAsync + ";" + kAsync + ";\n");
  CHECK(read({"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"}, {}) ==
        "expandable_segments:True," + kAsync + ";expandable_segments:True," + kAsync + ";\n");
  CHECK(read({"PYTORCH_ALLOC_CONF=a:1"}, {{"PYTORCH_ALLOC_CONF", "b:2"}}) ==
        "a:1," + kAsync + ";a:1," + kAsync + ";\n");
  CHECK(read({"PYTORCH_ALLOC_CONF=a:1"}, {{"PYTORCH_CUDA_ALLOC_CONF", "b:2"}}) ==
        "b:2," + kAsync + ";a:1," + kAsync + ";\n");
}

TEST_CASE("environment door: a backend that the user names wins, wherever it stands") {
  CHECK(read({"PYTORCH_CUDA_ALLOC_CONF=backend:native"}, {}) == "backend:native;(null);\n");
  CHECK(read({}, {{"PYTORCH_ALLOC_CONF", "backend:native"}}) == "(null);backend:native;\n");
}

TEST_CASE("environment door: TIDEPOOL_ALLOC=native keeps PyTorch's allocator and splits its segments") {
  const Variables native = {{"TIDEPOOL_ALLOC", "native"}};
  CHECK(read({}, native) == "max_split_size_mb:21;max_split_size_mb:21;\n");
  CHECK(read({"PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64"}, native) == "max_split_size_mb:64;(null);\n");
  const std::string async = read({}, {{"TIDEPOOL_ALLOC", "async"}});
  CHECK(async == kAsync + ";" + kAsync + ";\n");
}

TEST_CASE("environment door: a program that is only watched keeps its allocator, unless told otherwise") {
  const std::pair<std::string, std::string> observe = {"TIDEPOOL_MODE", "observe"};
  CHECK(read({}, {observe}) == "(null);(null);\n");
  CHECK(read({"PYTORCH_CUDA_ALLOC_CONF=a:1"}, {observe, {"TIDEPOOL_ALLOC", "auto"}}) == "a:1;(null);\n");
  CHECK(read({}, {observe, {"TIDEPOOL_ALLOC", "async"}}) == kAsync + ";" + kAsync + ";\n");
  CHECK(read({}, {observe, {"TIDEPOOL_ALLOC", "native"}}) == "max_split_size_mb:21;max_split_size_mb:21;\n");
}

TEST_CASE("environment door: a process that will not be managed reads what the user has set") {
  for (const Variables& off :
       {Variables{{"TIDEPOOL_DISABLE", "1"}}, Variables{{"TIDEPOOL_DEVICE_BUDGET", "lots"}}}) {
    CHECK(read({}, off) == "(null);(null);\n");
    CHECK(read({"PYTORCH_CUDA_ALLOC_CONF=a:1"}, off) == "a:1;(null);\n");
  }
}

TEST_CASE("environment door: every other name is the C library's, and the environment is not written to") {
  const Outcome got = preloaded({built("tests/env_probe"), "plain"}, {{"SOME", "thing"}, {"EMPTY", ""}});
  INFO(got.err);
  CHECK(got.out == "as expected\n");
  const Outcome printed = preloaded({"/usr/bin/printenv"}, {});
  CHECK(printed.out.find("PYTORCH") == std::string::npos);
}

}  // namespace tidepool::test
