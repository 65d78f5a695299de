#include <algorithm>
#include <cstdio>
#include <string_view>

#include "tools/tidepool/command_table.h"
#include "tools/tidepool/commands.h"
#include "tools/tidepool/console.h"
#include "tools/tidepool/doctor.h"
#include "tools/tidepool/elf_file.h"
#include "tools/tidepool/json_text.h"
#include "tools/tidepool/library_path.h"
#include "tools/tidepool/program_check.h"

namespace tidepool::tools {
namespace {

const char* word_of(Verdict verdict) {
  return verdict == Verdict::kPass ? "PASS" : verdict == Verdict::kWarn ? "WARN" : "FAIL";
}

std::size_t count(const std::vector<Finding>& findings, Verdict verdict) {
  return static_cast<std::size_t>(std::count_if(findings.begin(), findings.end(),
                                                [&](const Finding& f) { return f.verdict == verdict; }));
}

std::string number_of(std::size_t n, const char* one) {
  return std::to_string(n) + " " + one + (n == 1 ? "" : "s");
}

void print_text(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    std::printf("%s %s\n", word_of(finding.verdict), finding.what.c_str());
    if (!finding.remedy.empty()) std::printf("     -> %s\n", finding.remedy.c_str());
  }
  const std::size_t problems = count(findings, Verdict::kFail);
  const std::size_t warnings = count(findings, Verdict::kWarn);
  std::printf("%s, %s.%s\n", number_of(problems, "problem").c_str(), number_of(warnings, "warning").c_str(),
              problems > 0 ? " tidepool run would refuse to start." : "");
}

void print_json(const std::vector<Finding>& findings) {
  std::string text = "{\"schema\": \"tidepool.doctor/1\", \"findings\": [";
  for (const Finding& finding : findings) {
    text += std::string(&finding == &findings.front() ? "" : ",") +
            "\n  {\"verdict\": " + json_quoted(word_of(finding.verdict)) +
            ", \"what\": " + json_quoted(finding.what) + ", \"remedy\": " + json_quoted(finding.remedy) + "}";
  }
  std::printf("%s],\n \"problems\": %zu, \"warnings\": %zu}\n", text.c_str(), count(findings, Verdict::kFail),
              count(findings, Verdict::kWarn));
}

/// How the program comes to the CUDA runtime, as far as its file says.
Finding runtime_of(const ElfFacts& facts, const std::string& file) {
  const auto shared = std::find_if(facts.needed.begin(), facts.needed.end(),
                                   [](const std::string& name) { return name.starts_with("libcudart.so"); });
  const bool uses_driver = std::any_of(facts.needed.begin(), facts.needed.end(), [](const std::string& name) {
    return name.starts_with("libcuda.so");
  });
  if (shared != facts.needed.end())
    return {Verdict::kPass, file + " uses the shared CUDA runtime, " + *shared, ""};
  if (facts.has_device_code) {
    return {
        Verdict::kPass,
        file +
            " has the CUDA runtime linked in: its memory is seen at the driver (not on simgpu, where only "
            "programs of the shared runtime run)",
        ""};
  }
  if (uses_driver) return {Verdict::kPass, file + " uses the driver itself", ""};
  return {Verdict::kPass, file + " names no CUDA library; what it loads later cannot be seen here", ""};
}

}  // namespace

std::vector<Finding> examine_program(const char* name) {
  const ProgramCheck found = find_program(name);
  if (found.exit_code != 0) {
    const bool is_there = found.exit_code == kExitNotExecutable;
    return {{Verdict::kFail, found.complaint,
             is_there ? "chmod +x it, if it is a program" : "give the program's path"}};
  }
  const ProgramCheck check = check_preloadable(found.path, library_path());
  if (check.exit_code != 0) return {{Verdict::kFail, check.complaint, ""}};
  const std::string file = executed_file(found.path);
  const auto facts = elf_facts(file);
  if (!facts)
    return {{Verdict::kWarn, file + " cannot be read, so what it is cannot be known", "make it readable"}};
  std::vector<Finding> findings = {
      {Verdict::kPass, file + " is dynamic, for this machine, and not set-uid", ""}};
  if (file != found.path) findings.push_back({Verdict::kPass, found.path + " is a script for it", ""});
  findings.push_back(runtime_of(*facts, file));
  return findings;
}

int doctor_command(std::span<char*> words) {
  CommandWords got;
  if (const auto code = begin_command("doctor", words, words.size(), got)) return *code;
  std::vector<Finding> findings = examine_machine();
  if (!got.words.empty()) {
    for (Finding& finding : examine_program(std::string(got.words[0]).c_str()))
      findings.push_back(std::move(finding));
  }
  if (got.has("--json")) {
    print_json(findings);
  } else {
    print_text(findings);
  }
  return count(findings, Verdict::kFail) > 0 ? 1 : 0;
}

}  // namespace tidepool::tools
