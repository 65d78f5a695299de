#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tools/simgpu/cmd/child.h"
#include "tools/simgpu/cmd/options.h"
#include "tools/simgpu/cmd/profile.h"
#include "tools/simgpu/cmd/report_json.h"

namespace {

using simgpu::ReportPage;
using namespace simgpu::cmd;  // this file is the command
namespace fs = std::filesystem;

constexpr int kOwnFailure = 125;

/// The page that the program's device writes into. It is this process' file, so it survives the program.
class SharedPage {
 public:
  SharedPage() : fd_(::memfd_create("simgpu-report", MFD_CLOEXEC)) {
    void* mapped = MAP_FAILED;
    if (fd_ >= 0 && ::ftruncate(fd_, sizeof(ReportPage)) == 0) {
      mapped = ::mmap(nullptr, sizeof(ReportPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    }
    if (mapped == MAP_FAILED) throw std::runtime_error("cannot make the report's page");
    page_ = static_cast<ReportPage*>(mapped);
  }
  SharedPage(const SharedPage&) = delete;
  SharedPage& operator=(const SharedPage&) = delete;

  [[nodiscard]] const ReportPage& page() const { return *page_; }
  /// Where other processes of this user can open it.
  [[nodiscard]] std::string path() const {
    return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fd_);
  }

 private:
  int fd_;
  ReportPage* page_ = nullptr;
};

/// The folder that holds bin/ and lib/, in the build tree and installed.
fs::path prefix() {
  return fs::read_symlink("/proc/self/exe").parent_path().parent_path();
}

fs::path library_folder() {
  for (const char* place : {"lib/simgpu", SIMGPU_LIBRARY_DIR}) {
    fs::path folder = prefix() / place;
    if (fs::exists(folder / "libcuda.so.1")) return folder;
  }
  throw std::runtime_error("cannot find libcuda.so.1 below " + prefix().string() +
                           "; is simgpu installed whole?");
}

std::vector<std::pair<std::string, std::string>> variables(const Options& o, const Profile& p,
                                                           const SharedPage& page) {
  constexpr double kNanosPerSecond = 1e9;
  const char* before = std::getenv("LD_LIBRARY_PATH");
  std::string path = library_folder().string();
  if (before != nullptr && *before != '\0') path += std::string(":") + before;
  return {{"LD_LIBRARY_PATH", path},
          {"SIMGPU_NAME", p.name},
          {"SIMGPU_MEMORY", std::to_string(p.memory_bytes)},
          {"SIMGPU_COMPUTE_MAJOR", std::to_string(p.compute_major)},
          {"SIMGPU_COMPUTE_MINOR", std::to_string(p.compute_minor)},
          {"SIMGPU_MULTIPROCESSORS", std::to_string(p.multiprocessors)},
          {"SIMGPU_DEVICE_BYTES_PER_NS", std::to_string(p.memory_bytes_per_second / kNanosPerSecond)},
          {"SIMGPU_LINK_BYTES_PER_NS", std::to_string(p.link_bytes_per_second / kNanosPerSecond)},
          {"SIMGPU_LAUNCH_NS", std::to_string(p.launch_ns)},
          {"SIMGPU_SEED", std::to_string(o.seed)},
          {"SIMGPU_SCHEDULE", o.schedule},
          {"SIMGPU_PAGE", page.path()}};
}

void write_report(const std::string& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) throw std::runtime_error("cannot write the report to " + file);
}

Ending run(const Options& options) {
  constexpr std::uint64_t kFrame = std::uint64_t{2} << 20;
  Profile profile = load_profile(options.device, prefix() / "share/tidepool/profiles");
  if (options.memory_bytes) profile.memory_bytes = *options.memory_bytes;
  profile.memory_bytes = profile.memory_bytes / kFrame * kFrame;
  const SharedPage page;
  // A report that cannot be written is better known before a long run than after it.
  if (!options.report.empty()) write_report(options.report, "");
  Ending ending = run_command(options.command, variables(options, profile, page));
  if (!options.report.empty())
    write_report(options.report, report_json(page.page(), options, profile, ending));
  if (const auto others = page.page().other_processes.load(); others != 0) {
    std::fprintf(stderr, "simgpu: warning: %u more process%s called cuInit; each had a device of its own%s\n",
                 others, others == 1 ? "" : "es",
                 options.report.empty() ? "" : ", and the report covers the first only");
  }
  return ending;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse_options({argv + 1, argv + argc});
    if (options.help) return std::fputs(help_text(), stdout) < 0 ? kOwnFailure : 0;
    if (options.version) return std::printf("simgpu %s\n", SIMGPU_VERSION) < 0 ? kOwnFailure : 0;
    const Ending ending = run(options);
    if (!ending.started) std::fprintf(stderr, "simgpu: error: %s\n", ending.why.c_str());
    end_like(ending);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "simgpu: error: %s\n", error.what());
    return kOwnFailure;
  }
}
