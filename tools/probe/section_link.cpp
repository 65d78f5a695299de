#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>

#include "tools/probe/link_figures.h"
#include "tools/probe/run.h"

namespace tidepool::probe {
namespace {

constexpr int kExitRefused = 125;

/// What the profile says of where it comes from.
std::string source_of(const Run& run) {
  char day[32] = "";
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  if (::gmtime_r(&now, &parts) != nullptr) std::strftime(day, sizeof day, "%Y-%m-%d", &parts);
  int version = 0;
  TP_CU(cuDriverGetVersion, &version);
  const std::string how =
      run.gpu.is_simulated() ? "SIMULATED: simgpu's own times, not a device's, " : "measured ";
  return how + "by tidepool bench link on " + day + ", driver for CUDA " + std::to_string(version / 1000) +
         "." + std::to_string(version % 1000 / 10) + (run.quick() ? ", --quick" : "");
}

std::string value_text(const LinkRow& row) {
  char text[64];
  if (row.unit == "B/s") {
    std::snprintf(text, sizeof text, "%9.2f GB/s", row.value / 1e9);
  } else {
    std::snprintf(text, sizeof text, "%9.2f us%s", row.value / 1e3,
                  row.unit == "ns/MiB" ? " for each MiB" : "");
  }
  return text;
}

void print_table(const LinkFigures& figures, const std::string& source) {
  std::printf("%s\n%s\n", figures.profile.name.c_str(), source.c_str());
  std::string group;
  for (const LinkRow& row : figures.rows) {
    if (row.group != group) std::printf("\n%s\n", row.group.c_str());
    group = row.group;
    std::printf("  %-42s %s\n", row.what.c_str(), value_text(row).c_str());
  }
}

std::string measure_and_write(const Run& run, LinkFigures* figures) {
  if (!run.options.output.empty()) expect_file(run.options.output);  // before minutes are spent
  *figures = measure_link(run);
  figures->profile.source = source_of(run);
  return write_profile(figures->profile, run.options.output, run.gpu.is_simulated());
}

}  // namespace

void run_link(const Run& run) {
  run.part("link", [&] {
    LinkFigures figures;
    const std::string path = measure_and_write(run, &figures);
    run.out.answer("profile", {}, path);
  });
}

int print_link(const Options& options) {
  const auto fail = [](const char* why) {
    std::fprintf(stderr, "tidepool: bench: nothing was measured: %s\n", why);
    return kExitRefused;
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> nowhere(std::fopen("/dev/null", "we"), &std::fclose);
  if (nowhere == nullptr) return fail("/dev/null cannot be opened");
  try {
    const Gpu gpu(options.device);
    Records out(nowhere.get(), "link");
    const auto allowed =
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.seconds));
    LinkFigures figures;
    const std::string path = measure_and_write(Run{options, out, gpu, Clock::now() + allowed}, &figures);
    print_table(figures, figures.profile.source);
    std::printf("\nProfile: %s\n", path.c_str());
  } catch (const std::exception& failure) {
    return fail(failure.what());
  }
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return EXIT_SUCCESS;
  std::fputs("tidepool: bench: stdout cannot be written\n", stderr);
  return kExitRefused;
}

}  // namespace tidepool::probe
