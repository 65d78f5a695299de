#include "tools/tidepool/path_template.h"

#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <ctime>
#include <initializer_list>

namespace tidepool::tools {
namespace {

std::string first_set(std::initializer_list<const char*> variables) {
  for (const char* const name : variables) {
    const char* const value = std::getenv(name);
    if (value != nullptr && value[0] != '\0') return value;
  }
  return "0";
}

}  // namespace

TemplateValues template_values(const std::string& program) {
  TemplateValues values;
  values.pid = getpid();
  char host[HOST_NAME_MAX + 1] = {};
  if (gethostname(host, sizeof host - 1) == 0) values.host = host;
  values.program = program.substr(program.rfind('/') + 1);
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  char text[32] = {};
  if (localtime_r(&now, &local) != nullptr) std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &local);
  values.time = text;
  values.rank = first_set({"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"});
  values.job = first_set({"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"});
  return values;
}

std::string fill_template(std::string_view text, const TemplateValues& values, std::string* why) {
  std::string out;
  while (!text.empty()) {
    const std::size_t percent = text.find('%');
    out += text.substr(0, percent);
    if (percent == text.npos) break;
    text.remove_prefix(percent + 1);
    const char letter = text.empty() ? '\0' : text[0];
    text.remove_prefix(text.empty() ? 0 : 1);
    switch (letter) {
      case 'p':
        out += std::to_string(values.pid);
        break;
      case 'h':
        out += values.host;
        break;
      case 'e':
        out += values.program;
        break;
      case 't':
        out += values.time;
        break;
      case 'r':
        out += values.rank;
        break;
      case 'j':
        out += values.job;
        break;
      case '%':
        out += '%';
        break;
      case 'q': {
        const std::size_t end = text.find('}');
        if (!text.starts_with('{') || end == text.npos || end == 1)
          return *why = "%q needs a variable, %q{NAME}", "";
        const std::string name(text.substr(1, end - 1));
        const char* const value = std::getenv(name.c_str());
        if (value == nullptr)
          return why->append("the variable ")
                     .append(name)
                     .append(" of %q{")
                     .append(name)
                     .append("} is not set"),
                 "";
        out += value;
        text.remove_prefix(end + 1);
        break;
      }
      default:
        if (letter == 'R' && !values.run_folder.empty()) {
          out += values.run_folder;
          break;
        }
        return *why = (letter == '\0' ? std::string("a % at its end") : std::string("%") + letter) +
                      " is none of %p, %h, %e, %t, %r, %j, " + (values.run_folder.empty() ? "" : "%R, ") +
                      "%q{NAME} and %%",
               "";
    }
  }
  return out;
}

}  // namespace tidepool::tools
