// What `tidepool report` says of a trace, from traces that are written here.

#include "tools/tidepool/trace_report.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "planner/plan/trace_writer.h"
#include "tests/process/child_process.h"

namespace tidepool::tools {
namespace {

using namespace plan;
using test::ScratchFolder;

/// All lines: "title: text" or "text".
std::string text_of(const TraceReport& report) {
  std::string text;
  for (const TraceReport::Line& line : report.lines) {
    text += (line.title.empty() ? "" : line.title + ": ") + line.text + "\n";
  }
  return text;
}

/// Writes `steps` steps of a loop: one block of 8 MiB lives for a step and moves out and in.
void write_steps(TraceWriter& writer, std::uint32_t steps) {
  const std::uint32_t blocks[] = {7};
  const Frame frames[] = {{1, 0x100}, {2, 0x1449}, {2, 0x2000}, {0, 0xabc}};
  writer.write(KernelRecord{1, "gemm"});
  writer.write(ModuleRecord{1, "/usr/lib/libcudart.so.13"});
  writer.write(ModuleRecord{2, "/opt/jobs/train"});
  writer.write(StackRecord{5, frames});
  for (std::uint32_t i = 0; i < steps; ++i) {
    writer.write(CopyRecord{CopyKind::kToDevice, 4096, 1, false, {}});
    writer.write(AllocationRecord{7, 8 << 20, 0x10'0000, 0, MemoryApi::kPlain, 0, 0, 5});
    for (std::uint32_t k = 0; k < 10; ++k)
      writer.write(LaunchRecord{1, 1, {{k + 1, 1, 1}, {32, 1, 1}}, 0, false, blocks});
    writer.write(MoveRecord{7, MoveKind::kOut, MoveCause::kDemand, 8 << 20});
    writer.write(MoveRecord{7, MoveKind::kIn, MoveCause::kDemand, 8 << 20});
    writer.write(LaunchRecord{1, 1, {{99, 1, 1}, {32, 1, 1}}, 0, false, blocks});
    writer.write(FreeRecord{7, 8 << 20, 0x10'0000, 0, MemoryApi::kPlain});
  }
}

TEST_CASE("trace report: operations, steps, and where the blocks that moved came from") {
  const ScratchFolder folder;
  {
    TraceWriter writer;
    REQUIRE(writer.open(folder.path().c_str(), MiB(1)) == 0);
    write_steps(writer, 20);
    writer.close();
  }
  const std::vector<std::string> traces = list_traces(folder.path());
  REQUIRE(traces.size() == 1);
  const TraceReport report = read_trace_report(traces[0]);
  CHECK(report.pid == getpid());
  CHECK(report.iterations.period == 14);
  const std::string text = text_of(report);
  CHECK(text.find("device 0") == std::string::npos);
  INFO(text);
  CHECK(text.starts_with("trace: 280 operations in "));
  CHECK(text.find(", 1 thread: 220 launches of 1 kernel, 20 allocations, 20 frees, 20 copies\n") !=
        text.npos);
  CHECK(text.find("steps: a period of 14 operations, 20 iterations (20 exact), which explain 100.0 % of the "
                  "operations "
                  "since it began\n") != text.npos);
  CHECK(text.ends_with(
      "blocks: that moved most bytes:\n320.0 MiB: 20 blocks of 8.0 MiB, 20 times out, 20 times in; "
      "allocated at train+0x1449 < train+0x2000 < 0xabc\n"));
  // The same, for --json.
  CHECK(report.totals.launches == 220);
  CHECK(report.totals.kernels == 1);
  CHECK(report.totals.threads == 1);
  CHECK((report.totals.allocations == 20 && report.totals.frees == 20 && report.totals.copies == 20));
  CHECK((report.totals.blocks_out == 20 && report.totals.bytes_in == std::uint64_t{160} << 20));
  CHECK(report.kernels.empty());  // none was timed
  REQUIRE(report.blocks.size() == 1);
  CHECK(report.blocks[0].bytes == std::uint64_t{320} << 20);
  CHECK((report.blocks[0].blocks == 20 && report.blocks[0].block_bytes == 8 << 20));
  CHECK(report.blocks[0].where == "train+0x1449 < train+0x2000 < 0xabc");
}

TEST_CASE("trace report: several devices are told apart, one is not named") {
  const ScratchFolder folder;
  {
    TraceWriter writer;
    REQUIRE(writer.open(folder.path().c_str(), MiB(1)) == 0);
    for (const std::uint32_t block : {1u, 2u}) {
      writer.write(AllocationRecord{block, 8 << 20, block << 24, 0, MemoryApi::kPlain, 0, 0, 0});
      writer.write(FreeRecord{block, 8 << 20, block << 24, 0, MemoryApi::kPlain});
    }
    const std::uint32_t other = 1u << 24 | 1;
    writer.write(AllocationRecord{other, 4 << 20, 0x9000'0000, 0, MemoryApi::kPlain, 3, 0, 0});
    writer.write(MoveRecord{other, MoveKind::kOut, MoveCause::kDemand, 4 << 20});
    writer.write(MoveRecord{other, MoveKind::kIn, MoveCause::kDemand, 4 << 20});
    writer.write(MoveRecord{other, MoveKind::kOut, MoveCause::kDemand, 4 << 20});
    writer.close();
  }
  const std::string text = text_of(read_trace_report(list_traces(folder.path()).at(0)));
  INFO(text);
  CHECK(text.find("\ndevices: device 0: 2 allocations, 8.0 MiB at most; 0 B went out, 0 B came in\n"
                  "device 3: 1 allocation, 4.0 MiB at most; 8.0 MiB went out, 4.0 MiB came in\n") !=
        std::string::npos);
}

TEST_CASE("trace report: what is missing is said") {
  const ScratchFolder folder;
  TraceWriter writer;
  REQUIRE(writer.open(folder.path().c_str(), MiB(1)) == 0);
  write_steps(writer, 2);
  const std::string path = list_traces(folder.path()).at(0);
  CHECK(text_of(read_trace_report(path)).find("\nhas no end: the process was killed, or still runs\n") !=
        std::string::npos);
  CHECK(text_of(read_trace_report(path)).find("\nsteps: no period: only 28 operations\n") !=
        std::string::npos);
  while (writer.write(ThreadRecord{1})) {
  }
  CHECK(text_of(read_trace_report(path))
            .find("\nends early: it reached its largest size, 1.0 MiB. Raise "
                  "--trace-max for "
                  "more\n") != std::string::npos);
  std::filesystem::resize_file(path, (512 << 10) + 100);
  CHECK(text_of(read_trace_report(path)).find("\nis cut off: ") != std::string::npos);
  test::write_file(path, "no");
  CHECK(text_of(read_trace_report(path)) == "trace: " + path + " is no trace\n");
  CHECK(read_trace_report(path).pid == 0);
  std::filesystem::remove(path);
  CHECK(text_of(read_trace_report(path)) ==
        "trace: " + path + " cannot be read: No such file or directory\n");
  CHECK(list_traces(folder.path()).empty());
  CHECK(list_traces(folder / "missing").empty());
}

}  // namespace
}  // namespace tidepool::tools
