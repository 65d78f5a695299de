#include "tools/simgpu/fatbin/ptx.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "tools/simgpu/fatbin/ptx_tokens.h"
#include "tools/simgpu/fatbin/ptx_types.h"
#include "tools/simgpu/fatbin/ptx_values.h"

namespace simgpu::fatbin {
namespace {

constexpr std::uint64_t kLargestParams = 32764;
constexpr std::uint64_t kLargestSharedInPtx = 1 << 20;

std::uint64_t align_up(std::uint64_t value, std::uint64_t align) {
  return (value + align - 1) / align * align;
}

/// "9.0".
bool read_version(std::string_view token, Entry* out) {
  const std::size_t dot = token.find('.');
  std::uint64_t major = 0;
  std::uint64_t minor = 0;
  if (dot == std::string_view::npos || !ptx_integer(token.substr(0, dot), &major) ||
      !ptx_integer(token.substr(dot + 1), &minor) || major > 1000 || minor > 1000) {
    return false;
  }
  out->ptx_major = static_cast<int>(major);
  out->ptx_minor = static_cast<int>(minor);
  return true;
}

/// "sm_90a".
bool read_target(std::string_view token, Entry* out) {
  if (!token.starts_with("sm_")) return false;
  token.remove_prefix(3);
  out->arch.suffix = 0;
  if (!token.empty() && (token.back() == 'a' || token.back() == 'f')) {
    out->arch.suffix = token.back();
    token.remove_suffix(1);
  }
  std::uint64_t number = 0;
  if (!ptx_integer(token, &number) || number > 9999) return false;
  out->arch.number = static_cast<int>(number);
  return true;
}

class PtxReader {
 public:
  PtxReader(std::string_view text, ModuleFacts* out) : tokens_(text), out_(*out) {}

  Problem read() {
    bool external = false;
    while (!tokens_.done() && sound_) {
      const std::string_view token = tokens_.take();
      if (token == ".extern") {
        external = true;
        continue;
      }
      if (token == ".entry") {
        read_entry();
      } else if (token == ".func") {
        skip_function();
      } else if (token == ".global" || token == ".const") {
        read_variables(token == ".const" ? Space::kConstant : Space::kGlobal, external);
      } else if (token == ".shared") {
        read_shared(external);
      } else if (token == ".section") {
        tokens_.take();
        if (tokens_.peek() == "{") tokens_.skip_block();
      } else if (token == ".visible" || token == ".weak" || token == ".common") {
        continue;
      }
      external = false;
    }
    if (!sound_) return Problem::kCorrupt;
    resolve_addresses();
    return Problem::kNone;
  }

 private:
  struct Pending {
    std::uint32_t variable;
    std::uint64_t offset;
    std::string_view name;
  };

  /// Up to the end of a declaration or definition.
  void skip_function() {
    while (!tokens_.done()) {
      if (tokens_.peek() == "{") return tokens_.skip_block();
      if (tokens_.take() == ";") return;
    }
  }

  void read_entry() {
    KernelFacts kernel;
    const std::string_view name = tokens_.take();
    kernel.name = name;
    sound_ = !name.empty();
    if (tokens_.take_if("(")) kernel.params_known = read_params(&kernel.params);
    while (!tokens_.done() && tokens_.peek() != "{" && tokens_.peek() != ";") {
      const std::string_view token = tokens_.take();
      if (token == ".maxntid" || token == ".reqntid") read_threads(&kernel);
    }
    if (tokens_.take_if(";")) return;  // only declared
    read_body(&kernel);
    if (kernels_.emplace(name, out_.kernels.size()).second) out_.kernels.push_back(std::move(kernel));
  }

  /// Behind the opening parenthesis; ends behind the closing one. False for a list that is not understood.
  bool read_params(std::vector<Param>* out) {
    std::uint64_t end = 0;
    bool known = true;
    while (known && tokens_.take_if(".param")) {
      PtxDeclaration declaration;
      known = read_declaration(tokens_, &declaration) && !declaration.open_array;
      if (!known) break;
      const std::uint64_t offset = align_up(end, declaration.align);
      end = offset + declaration.size;
      known = end <= kLargestParams;
      if (known)
        out->push_back({static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(declaration.size)});
      if (!tokens_.take_if(",")) break;
    }
    known = tokens_.take_if(")") && known;
    if (!known) {
      out->clear();
      while (!tokens_.done() && tokens_.peek() != "{" && !tokens_.take_if(")")) tokens_.take();
    }
    return known;
  }

  void read_threads(KernelFacts* kernel) {
    std::uint64_t threads = 1;
    do {
      std::uint64_t count = 0;
      if (!ptx_integer(tokens_.peek(), &count)) return;
      tokens_.take();
      threads *= count < 65536 ? count : 0;
      if (threads > 65536) return;
    } while (tokens_.take_if(","));
    kernel->max_threads = static_cast<int>(threads);
  }

  /// Adds up the shared variables that a kernel declares or names.
  void read_body(KernelFacts* kernel) {
    std::unordered_map<std::string_view, bool> counted;
    std::uint64_t shared = 0;
    std::size_t depth = 0;
    bool statement_starts = true;
    const auto add = [&](std::uint64_t size, std::uint64_t align) {
      shared = std::min(align_up(shared, align) + std::min(size, kLargestSharedInPtx), kLargestSharedInPtx);
    };
    do {
      const std::string_view token = tokens_.take();
      if (token == "{") ++depth;
      if (token == "}") --depth;
      if (statement_starts && token == ".shared") {
        PtxDeclaration declaration;
        if (read_declaration(tokens_, &declaration)) add(declaration.size, declaration.align);
      } else if (const auto found = shared_.find(token); found != shared_.end()) {
        if (counted.emplace(token, true).second) add(found->second.size, found->second.align);
      }
      statement_starts = token == ";" || token == "{" || token == "}";
    } while (depth > 0 && !tokens_.done());
    kernel->static_shared_bytes = static_cast<int>(shared);
  }

  void read_shared(bool external) {
    PtxDeclaration declaration;
    if (read_declaration(tokens_, &declaration) && !external) shared_.emplace(declaration.name, declaration);
    tokens_.skip_past(';');
  }

  void read_variables(Space space, bool external) {
    PtxDeclaration declaration;
    // What is not understood is passed over: asking for it by name says "not found".
    if (!read_declaration(tokens_, &declaration) || external) return tokens_.skip_past(';');
    PtxValue value;
    bool known = true;
    if (tokens_.take_if("=")) known = read_value(tokens_, declaration, &value);
    if (declaration.open_array) declaration.size = value.bytes.size();
    if (tokens_.peek() != ";" || value.bytes.size() > declaration.size) known = false;
    if (!known) value = PtxValue();
    tokens_.skip_past(';');

    const auto index = static_cast<std::uint32_t>(out_.variables.size());
    if (!variables_.emplace(declaration.name, index).second) return;
    VariableFacts variable;
    variable.name = declaration.name;
    variable.segment = static_cast<std::uint32_t>(out_.segments.size());
    variable.size = declaration.size;
    variable.managed = declaration.managed;
    variable.initial_known = known;
    out_.variables.push_back(std::move(variable));
    out_.segments.push_back({space, declaration.size, declaration.align, std::move(value.bytes)});
    for (const PtxAddress& address : value.addresses)
      pending_.push_back({index, address.offset, address.name});
  }

  void resolve_addresses() {
    for (const Pending& address : pending_) {
      VariableFacts& variable = out_.variables[address.variable];
      const auto found = variables_.find(address.name);
      if (found == variables_.end()) {
        variable.initial_known = false;
        continue;
      }
      const VariableFacts& target = out_.variables[found->second];
      out_.relocations.push_back({variable.segment, address.offset, target.segment, target.offset});
    }
  }

  PtxTokens tokens_;
  ModuleFacts& out_;
  bool sound_ = true;
  std::unordered_map<std::string_view, std::size_t> kernels_;
  std::unordered_map<std::string_view, PtxDeclaration> shared_;
  std::unordered_map<std::string_view, std::uint32_t> variables_;
  std::vector<Pending> pending_;
};

}  // namespace

bool ptx_target(std::string_view text, Entry* out) {
  PtxTokens tokens(text);
  if (!tokens.take_if(".version") || !read_version(tokens.take(), out)) return false;
  return tokens.take_if(".target") && read_target(tokens.take(), out);
}

Problem read_ptx(std::string_view text, ModuleFacts* out) {
  Entry entry;
  if (!ptx_target(text, &entry)) return Problem::kCorrupt;
  *out = ModuleFacts();
  out->arch = entry.arch;
  out->from_ptx = true;
  out->ptx_major = entry.ptx_major;
  out->ptx_minor = entry.ptx_minor;
  return PtxReader(text, out).read();
}

}  // namespace simgpu::fatbin
