#include "tools/simgpu/cmd/trace_file.h"

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "tools/simgpu/timing/engines.h"

namespace simgpu::cmd {
namespace {

std::string meta(const char* what, std::uint32_t device, unsigned engine, const std::string& name) {
  return std::string("{\"ph\":\"M\",\"name\":\"") + what + "\",\"pid\":" + std::to_string(device) +
         ",\"tid\":" + std::to_string(engine) + ",\"args\":{\"name\":\"" + name + "\"}},\n";
}

}  // namespace

bool begin_trace(const std::string& file, const MachineConfig& config) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << "[\n";
  for (std::uint32_t device = 0; device < config.device_count; ++device) {
    const std::string name = static_cast<const char*>(config.devices[device].name);
    out << meta("process_name", device, 0, "device " + std::to_string(device) + ": " + name);
    for (unsigned engine = 0; engine < timing::kEngines; ++engine) {
      out << meta("thread_name", device, engine, timing::engine_name(static_cast<timing::Engine>(engine)));
    }
  }
  out.close();
  return static_cast<bool>(out);
}

bool end_trace(const std::string& file) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  if (error || size < 2) {
    errno = error ? error.value() : ENOENT;  // somebody else has cut or removed it
    return false;
  }
  // The last line ends with a comma; a list does not.
  std::filesystem::resize_file(file, size - 2, error);
  std::ofstream out(file, std::ios::binary | std::ios::app);
  out << "\n]\n";
  out.close();
  return static_cast<bool>(out);
}

}  // namespace simgpu::cmd
