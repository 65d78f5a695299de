#include "tests/simgpu_fatbin/sample_files.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <iterator>

#include "tests/process/child_process.h"
#include "tools/simgpu/fatbin/format.h"
#include "tools/simgpu/fatbin/image.h"

namespace simgpu::fatbin::test {

File::File(const std::string& name) {
  const std::string path = tidepool::test::built("tests/simgpu_fatbin/" + name);
  std::ifstream stream(path, std::ios::binary);
  INFO(path);
  REQUIRE(stream);
  const std::vector<char> all((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  memory_.resize(all.size());
  std::memcpy(memory_.data(), all.data(), all.size());
}

std::vector<Entry> entries_of(const File& file) {
  std::vector<Entry> entries;
  REQUIRE(list_entries(file.bytes(), &entries) == Problem::kNone);
  return entries;
}

ModuleFacts facts_of(const Entry& entry) {
  ModuleFacts facts;
  INFO(entry.arch.text());
  REQUIRE(read_entry_facts(entry, &facts) == Problem::kNone);
  return facts;
}

namespace {

template <class T>
const T& named(const std::vector<T>& all, const std::string& name) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const T& one) { return one.name == name; });
  INFO(name);
  REQUIRE(found != all.end());
  return *found;
}

}  // namespace

const KernelFacts& kernel_of(const ModuleFacts& facts, const std::string& name) {
  return named(facts.kernels, name);
}

const VariableFacts& variable_of(const ModuleFacts& facts, const std::string& name) {
  return named(facts.variables, name);
}

std::vector<std::byte> initial_of(const ModuleFacts& facts, const VariableFacts& variable) {
  std::vector<std::byte> all = facts.segments.at(variable.segment).initial;
  all.resize(facts.segments[variable.segment].size);
  const auto start = all.begin() + static_cast<std::ptrdiff_t>(variable.offset);
  return {start, start + static_cast<std::ptrdiff_t>(variable.size)};
}

std::vector<std::byte> container_of(Bytes payload, int arch, std::uint64_t flags, std::uint64_t inflated_size,
                                    std::uint32_t header_size) {
  const std::size_t padded = (payload.size() + 7) / 8 * 8;
  ContainerHeader container{kContainerMagic, 1, sizeof container, header_size + padded};
  EntryHeader entry{};
  entry.kind = kKindElf;
  entry.version = 0x101;
  entry.header_size = header_size;
  entry.padded_size = padded;
  entry.compressed_size = inflated_size == 0 ? 0 : static_cast<std::uint32_t>(payload.size());
  entry.code_major = 1;
  entry.code_minor = 7;
  entry.arch = static_cast<std::uint32_t>(arch);
  entry.flags = flags;
  entry.inflated_size = inflated_size;
  std::vector<std::byte> all(sizeof container + header_size + padded, std::byte{0});
  std::memcpy(all.data(), &container, sizeof container);
  std::memcpy(all.data() + sizeof container, &entry, sizeof entry);
  std::memcpy(all.data() + sizeof container + header_size, payload.data(), payload.size());
  return all;
}

}  // namespace simgpu::fatbin::test
