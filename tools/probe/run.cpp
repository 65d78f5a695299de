#include "tools/probe/run.h"

#include <link.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

#include "tools/probe/driver.h"

namespace tidepool::probe {
namespace {

constexpr int kExitHung = 124;  // as timeout(1) has it

/// What the watchdog writes. It is ready before the alarm is set: a signal handler may not put text together.
std::string g_last_line;  // NOLINT(bugprone-dynamic-static-initializers)

void on_alarm(int /*signal*/) {
  const ssize_t written = ::write(STDOUT_FILENO, g_last_line.data(), g_last_line.size());
  static_cast<void>(written);
  ::_exit(kExitHung);
}

/// A driver call that never returns must not keep whoever waits for us.
void start_watchdog(const Section& section, const Options& options) {
  constexpr unsigned kGrace = 30;
  const unsigned seconds = 2 * static_cast<unsigned>(options.seconds) + kGrace;
  g_last_line = "{\"section\":" + json_text(section.name) +
                ",\"kind\":\"skipped\",\"name\":\"rest\",\"why\":\"no end within " + std::to_string(seconds) +
                " s\"}\n";
  struct sigaction action {};
  action.sa_handler = &on_alarm;
  ::sigaction(SIGALRM, &action, nullptr);
  ::alarm(seconds);
}

}  // namespace

bool is_preloaded() {
  bool found = false;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        if (std::strstr(info->dlpi_name, "libtidepool.so") != nullptr) *static_cast<bool*>(out) = true;
        return 0;
      },
      &found);
  return found;
}

void require_room(const Run& run, std::uint64_t bytes) {
  if (bytes > run.gpu.allowance()) {
    throw std::runtime_error(std::to_string(bytes) + " bytes are more than a quarter of the device");
  }
}

int run_section(const Section& section, const Options& options) {
  const Clock::time_point began = Clock::now();
  start_watchdog(section, options);
  Records out(stdout, section.name);
  Fields facts = {{"unix_seconds", std::int64_t{std::time(nullptr)}},
                  {"preloaded", is_preloaded()},
                  {"quick", options.quick}};
  bool started = false;
  try {
    const Gpu gpu(options.device);
    const Fields device = gpu.facts();
    facts.insert(facts.begin(), device.begin(), device.end());
    facts.emplace_back("simulated", gpu.is_simulated());
    out.start(facts);
    started = true;
    const auto allowed = std::chrono::duration<double>(options.seconds);
    section.run(Run{options, out, gpu, began + std::chrono::duration_cast<Clock::duration>(allowed)});
  } catch (const std::exception& failure) {
    if (!started) out.start(facts);
    out.skipped("all", failure.what());
  }
  out.end(std::chrono::duration<double>(Clock::now() - began).count());
  return std::ferror(stdout) != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

}  // namespace tidepool::probe
