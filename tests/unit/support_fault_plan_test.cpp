#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "allocator/support/fault_plan.h"

namespace {

using tidepool::Bytes;
using tidepool::CallFault;
using tidepool::CopyDirection;
using tidepool::CopyFault;
using tidepool::FaultPlan;
using tidepool::FaultWords;
using tidepool::KiB;
using tidepool::MiB;
using tidepool::parse_fault_rules;

constexpr FaultWords::Code kCodes[] = {{"CUDA_SUCCESS", 0}, {"CUDA_ERROR_OUT_OF_MEMORY", 2}};
constexpr std::string_view kFunctions[] = {"cuMemMap", "cuMemCreate", "cuLaunchKernel"};
constexpr FaultWords kWords{kCodes, kFunctions};

FaultPlan& add(FaultPlan& plan, std::string_view text, const FaultWords& words = {}) {
  const std::string problem = plan.add_text(text, words);
  INFO(problem);
  REQUIRE(problem.empty());
  return plan;
}

/// What the next `n` calls return, as digits.
std::string codes(FaultPlan& plan, std::string_view function, int n, Bytes size = {}) {
  std::string out;
  for (int i = 0; i < n; ++i) out += std::to_string(plan.on_call(function, {}, size).code);
  return out;
}

std::string refusal(std::string_view text, const FaultWords& words = kWords) {
  FaultPlan plan;
  add(plan, "cuMemMap return=7");
  const std::string problem = plan.add_text(text, words);
  REQUIRE(!problem.empty());
  REQUIRE(problem.find('\n') == std::string::npos);
  REQUIRE(codes(plan, "cuMemMap", 1) == "7");
  return problem;
}

}  // namespace

TEST_CASE("fault plan: after, nth, count and every say which calls fail") {
  const auto fails = [](std::string_view rule) {
    FaultPlan plan;
    return codes(add(plan, std::string("f ").append(rule).append(" return=9")), "f", 12);
  };
  REQUIRE(fails("") == "900000000000");
  REQUIRE(fails("after=2") == "009000000000");
  REQUIRE(fails("nth=3") == "009000000000");
  REQUIRE(fails("after=2 count=3") == "009990000000");
  REQUIRE(fails("count=all") == "999999999999");
  REQUIRE(fails("every=3") == "009009009009");
  REQUIRE(fails("every=3 after=1 count=2") == "000900900000");
}

TEST_CASE("fault plan: rules count for themselves, from when they are added") {
  FaultPlan plan;
  REQUIRE(codes(plan, "f", 3) == "000");
  add(plan, "  f\tafter=1 return=5  # a comment\r\n\n# nothing\nf after=2 count=2 return=6\ng return=8");
  REQUIRE(codes(plan, "f", 5) == "05660");
  REQUIRE(codes(plan, "g", 2) == "80");
  REQUIRE(plan.injected() == 4);
  add(plan, "f return=4");
  REQUIRE(codes(plan, "f", 2) == "40");
  plan.clear();
  REQUIRE(plan.empty());
  REQUIRE(plan.injected() == 0);
}

TEST_CASE("fault plan: a size keeps small calls out, and codes have names") {
  FaultPlan plan;
  add(plan, "cuMemCreate size>=64MiB after=1 count=all return=CUDA_ERROR_OUT_OF_MEMORY", kWords);
  REQUIRE(codes(plan, "cuMemCreate", 5, MiB(2)) == "00000");
  REQUIRE(codes(plan, "cuMemCreate", 3, MiB(64)) == "022");
  REQUIRE(codes(plan, "cuMemCreate", 1, MiB(2)) == "0");
}

TEST_CASE("fault plan: a rule finds a call by either of two names") {
  FaultPlan plan;
  add(plan, "cuMemAlloc nth=2 return=2\ncuMemAlloc_v2 nth=3 return=3");
  REQUIRE(plan.on_call("cuMemAlloc_v2", "cuMemAlloc").code == 0);
  REQUIRE(plan.on_call("cuMemAlloc_v2", "cuMemAlloc").code == 2);
  REQUIRE(plan.on_call("cuMemAlloc_v2", "cuMemAlloc").code == 3);
}

TEST_CASE("fault plan: the Nth copy of a direction has a wrong piece") {
  FaultPlan plan;
  add(plan, "copy h2d nth=2 drop offset=4096 bytes=4KiB\ncopy any every=4 corrupt");
  const auto h2d = [&] { return plan.on_copy(CopyDirection::kH2d, KiB(64)).rule; };
  const auto d2h = [&] { return plan.on_copy(CopyDirection::kD2h, KiB(64)).rule; };
  REQUIRE(h2d() == nullptr);
  REQUIRE(d2h() == nullptr);
  const auto* const dropped = h2d();
  REQUIRE(dropped != nullptr);
  REQUIRE(dropped->copy == CopyFault::kDrop);
  REQUIRE(dropped->offset == KiB(4));
  REQUIRE(dropped->bytes == KiB(4));
  const auto* const corrupted = d2h();
  REQUIRE(corrupted != nullptr);
  REQUIRE(corrupted->copy == CopyFault::kCorrupt);
  REQUIRE(corrupted->offset == Bytes(0));
  REQUIRE(corrupted->bytes > MiB(1 << 20));
  REQUIRE(plan.injected() == 2);
}

TEST_CASE("fault plan: a link is slow from a call or a time on, and only in its direction") {
  FaultPlan plan;
  add(plan, "link h2d factor=0.25 from=call:3 until=f:2\nlink any factor=0.5 from=ns:1000 until=ns:2000");
  REQUIRE(plan.link_factor(CopyDirection::kH2d, 0) == 1);
  for (int i = 0; i < 3; ++i) (void)plan.on_call("g");
  REQUIRE(plan.link_factor(CopyDirection::kH2d, 0) == 0.25);
  REQUIRE(plan.link_factor(CopyDirection::kD2h, 0) == 1);
  REQUIRE(plan.link_factor(CopyDirection::kH2d, 1000) == 0.125);
  REQUIRE(plan.link_factor(CopyDirection::kD2h, 1999) == 0.5);
  REQUIRE(plan.link_factor(CopyDirection::kH2d, 2000) == 0.25);
  for (int i = 0; i < 2; ++i) (void)plan.on_call("f");
  REQUIRE(plan.link_factor(CopyDirection::kH2d, 0) == 1);
  REQUIRE(plan.injected() == 0);

  FaultPlan slowest;
  add(slowest, "link any factor=1e-6 from=ns:0\nlink h2d factor=1e-6 from=ns:0");
  REQUIRE(slowest.link_factor(CopyDirection::kH2d) == tidepool::kLeastLinkFactor);
}

TEST_CASE("fault plan: a lost device stays lost, and death comes before it") {
  FaultPlan plan;
  add(plan, "device lost at=call:3 return=719\nf nth=4 return=1\nprocess kill at=f:5");
  REQUIRE(codes(plan, "f", 2) == "00");
  for (int i = 0; i < 2; ++i) {
    const CallFault fault = plan.on_call("f");
    REQUIRE(fault.action == CallFault::Action::kLost);
    REQUIRE(fault.code == 719);
  }
  REQUIRE(plan.on_call("g").action == CallFault::Action::kLost);
  REQUIRE(plan.on_call("f").action == CallFault::Action::kKill);
  FaultPlan by_time;
  add(by_time, "device lost at=ns:500");
  REQUIRE(by_time.on_call("f", {}, {}, 499).action == CallFault::Action::kGoOn);
  REQUIRE(by_time.on_call("f", {}, {}, 500).action == CallFault::Action::kLost);
}

TEST_CASE("fault plan: a wrong line is refused with its number, and nothing of the text is taken") {
  REQUIRE(refusal("cuMemMap return=2\ncuMemMap after=x return=2") ==
          "line 2: 'after=x': want a number from 0 on");
  REQUIRE(refusal("cuMemMap after=1") == "line 1: return=CODE is missing");
  REQUIRE(refusal("after=1 return=2") ==
          "line 1: starts with the name of a function, copy, link, device or process, not 'after=1'");
  REQUIRE(refusal("cuMemMap return=0") == "line 1: 'return=0': want the number or the name of an error");
  REQUIRE(refusal("cuMemMap return=CUDA_SUCCESS").find("want the number") != std::string::npos);
  REQUIRE(refusal("cuMemMap return=CUDA_ERROR_OUT_OF_MEMORI") ==
          "line 1: 'return=CUDA_ERROR_OUT_OF_MEMORI': want the number or the name of an error "
          "(did you mean 'CUDA_ERROR_OUT_OF_MEMORY'?)");
  REQUIRE(refusal("\n\ncuMemMop return=2") ==
          "line 3: unknown function 'cuMemMop' (did you mean 'cuMemMap'?)");
  REQUIRE(refusal("prosess kill at=call:1") ==
          "line 1: unknown function 'prosess' (did you mean 'process'?)");
  REQUIRE(refusal("cuMemMap afer=2 return=2") ==
          "line 1: 'afer=2' is nothing that a call takes: after=, nth=, count=, every=, size>=, return= "
          "(did you mean 'after='?)");
  REQUIRE(refusal("cuMemMap return = 2") ==
          "line 1: 'return' has no value: want return=VALUE, without blanks");
  REQUIRE(refusal("cuMemMap size>=").find("'size>='") != std::string::npos);
  REQUIRE(refusal("cuMemMap size=1 return=2").find("(did you mean 'size>='?)") != std::string::npos);
  REQUIRE(refusal("cuMemMap return=OUT_OF_MEMORY") ==
          "line 1: 'return=OUT_OF_MEMORY': want the number or the name of an error "
          "(did you mean 'CUDA_ERROR_OUT_OF_MEMORY'?)");
  REQUIRE(refusal("cuMemMap drop return=2").find("'drop' is nothing that a call takes") != std::string::npos);
  REQUIRE(refusal("cuMemMap return=2 return=3") == "line 1: return= is given twice");
  REQUIRE(refusal("cuMemMap nth=1 count=2 return=2").find("nth= stands for itself") != std::string::npos);
  for (const char* pair : {"nth=0", "count=0", "every=0", "count=-1", "after=1x", "after=", "size>=4XB",
                           "after=99999999999999999999"}) {
    INFO(pair);
    REQUIRE(refusal(std::string("cuMemMap return=2 ") + pair).find("want ") != std::string::npos);
  }
}

TEST_CASE("fault plan: copies, links, devices and processes say what they want") {
  REQUIRE(refusal("copy") == "line 1: a word is missing: want h2d, d2h, d2d or any");
  REQUIRE(refusal("copy h2h drop") ==
          "line 1: 'h2h' is none: want h2d, d2h, d2d or any (did you mean 'h2d'?)");
  REQUIRE(refusal("copy h2d nth=1") == "line 1: drop, corrupt or stale is missing");
  REQUIRE(refusal("copy h2d drup") ==
          "line 1: 'drup' is none: want drop, corrupt or stale (did you mean 'drop'?)");
  REQUIRE(refusal("copy h2d drop stale") == "line 1: one of drop, corrupt and stale is enough");
  REQUIRE(refusal("copy h2d drop bytes=0").find("at least one byte") != std::string::npos);
  REQUIRE(refusal("link h2d") == "line 1: factor= is missing");
  for (const char* factor : {"0", "-1", "1.5", "nan", "inf", "x", "", "1e-7", "5e-324"}) {
    REQUIRE(refusal(std::string("link h2d factor=") + factor).find("want a factor from 0.000001 to 1") !=
            std::string::npos);
  }
  REQUIRE(refusal("link h2d factor=0.5 from=100").find("want call:N, ns:N or the name of a function") !=
          std::string::npos);
  REQUIRE(refusal("link h2d factor=0.5 from=call:0").find("want a number from 1 on") != std::string::npos);
  REQUIRE(refusal("link h2d factor=0.5 from=cuMemMop:1").find("unknown function 'cuMemMop'") !=
          std::string::npos);
  REQUIRE(refusal("device gone") == "line 1: 'device' goes on with 'lost'");
  REQUIRE(refusal("device lost") == "line 1: at= is missing");
  REQUIRE(refusal("process kill at=now").find("want call:N") != std::string::npos);
  REQUIRE(refusal("process kill at=call:1 return=2").find("a kill takes: at=") != std::string::npos);
}

TEST_CASE("fault plan: functions that no rule may name say why") {
  constexpr FaultWords::Excluded kExcluded[] = {{"cuArrayCreate", "is not there"}};
  const auto text = [&](std::string_view plan) {
    return parse_fault_rules(plan, {kCodes, kFunctions, kExcluded, "want another"}).error().text;
  };
  REQUIRE(text("cuArrayCreate return=2") == "line 1: 'cuArrayCreate' is not there; no rule can be about it");
  REQUIRE(text("process kill at=cuArrayCreate:1") ==
          "line 1: 'cuArrayCreate' is not there; no rule can be about it");
  REQUIRE(text("cuArrayCreat return=2") == "line 1: unknown function 'cuArrayCreat'; want another");
  REQUIRE(text("cuMemMop return=2") == "line 1: unknown function 'cuMemMop' (did you mean 'cuMemMap'?)");
}

TEST_CASE("fault plan: rules know their line, and calls the rule that counts") {
  const auto rules = parse_fault_rules("# one\n\nf return=2\n  g nth=2 return=3\nlink h2d factor=0.5");
  REQUIRE(rules.ok());
  REQUIRE((*rules)[0].line == 3);
  REQUIRE((*rules)[1].line == 4);
  FaultPlan plan;
  plan.add(*rules);
  REQUIRE(plan.on_call("f").rule == 0);
  REQUIRE(plan.on_call("g").action == CallFault::Action::kGoOn);
  REQUIRE(plan.on_call("g").rule == 1);
  REQUIRE(plan.slows(2, CopyDirection::kH2d));
  REQUIRE_FALSE(plan.slows(2, CopyDirection::kD2h));
  REQUIRE_FALSE(plan.slows(0, CopyDirection::kH2d));
}

TEST_CASE("fault plan: texts without end are refused") {
  REQUIRE(refusal(std::string((64 << 10) + 1, '#')) == "is no fault plan: larger than 64 KiB");
  std::string many;
  for (int i = 0; i < 1001; ++i) many += "cuMemMap return=2\n";
  REQUIRE(refusal(many) == "line 1001: more than 1000 rules");
  refusal(std::string("cuMemMap \0 return=2", 19));
  refusal("cuMemMap " + std::string(50'000, 'x'));
}

TEST_CASE("fault plan: threads share a count") {
  FaultPlan plan;
  add(plan, "f every=10 return=2\ncopy any every=5 drop");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        (void)plan.on_call("f");
        (void)plan.on_copy(CopyDirection::kH2d, KiB(4));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  REQUIRE(plan.injected() == 400 + 800);
}
