#include "tests/simgpu_digest/job.h"

#include <catch2/catch.hpp>
#include <set>

using namespace digest_test;

namespace {

std::string first_difference(const Program& program, const Outcome& a, const Outcome& b) {
  for (const auto& [step, mix] : a.mixes) {
    if (mix != b.mixes.at(step))
      return "step " + std::to_string(step) + ", kernel " + program.steps[step].kernel;
  }
  for (const auto& [buffer, bytes] : a.buffers) {
    if (bytes != b.buffers.at(buffer)) return "buffer " + std::to_string(buffer);
  }
  return "";
}

}  // namespace

TEST_CASE("digest: a job leaves the same at other addresses and in every legal order") {
  std::uint64_t reordered = 0;
  std::set<std::string> kernels;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Program program = make_program(seed);
    for (const Step& s : program.steps) kernels.insert(s.kernel);
    const dg::Stride& stride = seed % 2 == 0 ? dg::kEveryPage : dg::kEveryByte;
    const Outcome first = run_program(program, 1, stride);
    for (std::uint64_t run = 2; run <= 6; ++run) {
      const Outcome other = run_program(program, run, stride);
      INFO("program " << seed << ", run " << run << ": " << first_difference(program, first, other));
      REQUIRE(first == other);
      reordered += other.reordered;
    }
  }
  CHECK(kernels.size() == 9);  // all eight, and "" of steps that are no launches
  CHECK(reordered > 1000);
}
