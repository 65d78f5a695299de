// The driver is opened by hand: this command links nothing of CUDA, and most of it runs where there is none.

#include <dlfcn.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "allocator/support/units.h"
#include "tools/tidepool/doctor.h"

namespace tidepool::tools {
namespace {

constexpr int kPatienceMs = 5000;
constexpr int kOldestDriver = 12'040;   // cuFuncGetParamInfo came with CUDA 12.4
constexpr int kHasVirtualMemory = 102;  // CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED

/// A line of the child: the verdict's letter, what, a tab, the remedy.
void tell(int fd, char verdict, const std::string& what, const std::string& remedy = "") {
  const std::string line = std::string(1, verdict) + what + "\t" + remedy + "\n";
  [[maybe_unused]] const ssize_t written = write(fd, line.data(), line.size());
}

/// A function of the driver, called with these arguments; -1 where there is no such function.
template <class... A>
int call(void* driver, const char* name, A... arguments) {
  auto* const function = reinterpret_cast<int (*)(A...)>(dlsym(driver, name));
  return function == nullptr ? -1 : function(arguments...);
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

void tell_devices(int fd, void* driver) {
  int count = 0;
  if (const int code = call(driver, "cuInit", 0U); code != 0) {
    return tell(fd, 'W', "the driver cannot be used: cuInit answers " + std::to_string(code),
                "look at the driver's log (dmesg) and at nvidia-smi");
  }
  if (call(driver, "cuDeviceGetCount", &count) != 0 || count == 0)
    return tell(fd, 'W', "the driver has no device", "look at CUDA_VISIBLE_DEVICES and at nvidia-smi");
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    int device = 0;
    char name[256] = {};
    std::size_t bytes = 0;
    int has_virtual_memory = 0;
    call(driver, "cuDeviceGet", &device, ordinal);
    call(driver, "cuDeviceGetName", name, 255, device);
    call(driver, "cuDeviceTotalMem_v2", &bytes, device);
    call(driver, "cuDeviceGetAttribute", &has_virtual_memory, kHasVirtualMemory, device);
    const std::string what =
        "GPU " + std::to_string(ordinal) + " " + name + ", " + BytesText(Bytes(bytes)).c_str();
    if (has_virtual_memory == 0) {
      tell(fd, 'W', what + ": no virtual memory calls, so its memory cannot be moved", "use another device");
    } else {
      tell(fd, 'P', what);
    }
  }
}

[[noreturn]] void ask_driver(int fd) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) {
    tell(fd, 'W', "there is no CUDA driver (libcuda.so.1): programs run without Tidepool",
         "install a driver of CUDA 12.4 or newer, or try it with simgpu");
    _exit(0);
  }
  link_map* file = nullptr;
  const std::string path = dlinfo(driver, RTLD_DI_LINKMAP, &file) == 0 ? file->l_name : "libcuda.so.1";
  int version = 0;
  call(driver, "cuDriverGetVersion", &version);
  const std::string what = "driver of CUDA " + version_text(version) + ": " + path;
  if (version < kOldestDriver || dlsym(driver, "cuFuncGetParamInfo") == nullptr ||
      dlsym(driver, "cuMemCreate") == nullptr) {
    tell(fd, 'W', what + ", which lacks what Tidepool needs: nothing moves, memory is watched at most",
         "install a driver of CUDA 12.4 or newer");
  } else {
    tell(fd, 'P', what);
  }
  tell_devices(fd, driver);
  _exit(0);
}

/// Everything that the child writes until it ends; false if it did not within the time.
bool read_until_end(int fd, std::string* text) {
  const Nanos end = monotonic_now() + millis(kPatienceMs);
  for (;;) {
    const std::int64_t left = (end - monotonic_now()).count() / 1'000'000;
    pollfd ready{fd, POLLIN, 0};
    if (left <= 0 || poll(&ready, 1, static_cast<int>(left)) <= 0) return false;
    char bytes[4096];
    const ssize_t got = read(fd, bytes, sizeof bytes);
    if (got <= 0) return true;
    text->append(bytes, static_cast<std::size_t>(got));
  }
}

Finding finding_of(std::string_view line) {
  const std::size_t tab = line.find('\t');
  return {line[0] == 'P' ? Verdict::kPass : Verdict::kWarn, std::string(line.substr(1, tab - 1)),
          std::string(line.substr(tab + 1))};
}

}  // namespace

std::vector<Finding> examine_driver() {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    ask_driver(ends[1]);
  }
  close(ends[1]);
  std::string text;
  const bool ended = child > 0 && read_until_end(ends[0], &text);
  close(ends[0]);
  if (child > 0 && !ended) kill(child, SIGKILL);
  int status = 0;
  if (child > 0) waitpid(child, &status, 0);
  std::vector<Finding> findings;
  std::string_view rest = text;
  for (std::size_t end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
    if (end > 1 && rest.substr(0, end).find('\t') != rest.npos)
      findings.push_back(finding_of(rest.substr(0, end)));
    rest.remove_prefix(end + 1);
  }
  if (!ended) {
    findings.push_back({Verdict::kWarn,
                        "the driver did not answer within " + std::to_string(kPatienceMs / 1000) + " s",
                        "look at the driver's log (dmesg)"});
  } else if (WIFSIGNALED(status)) {
    findings.push_back(
        {Verdict::kWarn,
         "a process that used the driver was ended by signal " + std::to_string(WTERMSIG(status)),
         "look at the driver's log (dmesg)"});
  }
  return findings;
}

}  // namespace tidepool::tools
