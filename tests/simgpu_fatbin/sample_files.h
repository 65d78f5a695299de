#pragma once

#include <string>
#include <vector>

#include "tools/simgpu/fatbin/bytes.h"
#include "tools/simgpu/fatbin/entries.h"
#include "tools/simgpu/fatbin/module.h"

namespace simgpu::fatbin::test {

/// A file that nvcc made of samples.cu, or any other bytes, in memory of exactly its size: sanitizers see
/// every read past its end.
class File {
 public:
  /// By the name it has in this build's folder of samples; fails the test if it cannot be read.
  explicit File(const std::string& name);
  explicit File(Bytes bytes) : memory_(bytes.data(), bytes.data() + bytes.size()) { memory_.shrink_to_fit(); }
  explicit File(const std::vector<std::byte>& bytes) : File(Bytes(bytes.data(), bytes.size())) {}

  [[nodiscard]] Bytes bytes() const { return {memory_.data(), memory_.size()}; }
  [[nodiscard]] std::vector<std::byte>& memory() { return memory_; }

 private:
  std::vector<std::byte> memory_;
};

/// What an image holds; fails the test if that cannot be listed. Entries point into the file.
std::vector<Entry> entries_of(const File& file);
std::vector<Entry> entries_of(File&&) = delete;
/// Reads an entry; fails the test if that cannot be done.
ModuleFacts facts_of(const Entry& entry);
/// The kernel or variable of this name; fails the test if there is none.
const KernelFacts& kernel_of(const ModuleFacts& facts, const std::string& name);
const VariableFacts& variable_of(const ModuleFacts& facts, const std::string& name);
/// The initial bytes of a variable, zeros included.
std::vector<std::byte> initial_of(const ModuleFacts& facts, const VariableFacts& variable);

/// A container with one entry around a payload, as nvcc writes it. `header_size` is the entry's.
std::vector<std::byte> container_of(Bytes payload, int arch, std::uint64_t flags, std::uint64_t inflated_size,
                                    std::uint32_t header_size);

}  // namespace simgpu::fatbin::test
