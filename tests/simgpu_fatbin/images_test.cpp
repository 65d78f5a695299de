#include <lz4.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <string>

#include "tests/simgpu_fatbin/sample_files.h"
#include "tools/simgpu/fatbin/format.h"
#include "tools/simgpu/fatbin/image.h"

/// What nvcc writes is read back: tests/simgpu_fatbin/samples.cu, compiled in every form that a program may
/// have. The expected numbers follow from the source, by the rules of the host compiler's ABI.
namespace simgpu::fatbin::test {
namespace {

using Layout = std::vector<Param>;

void check_kernels(const ModuleFacts& facts) {
  REQUIRE(facts.kernels.size() == 10);
  for (const KernelFacts& kernel : facts.kernels) CHECK(kernel.params_known);
  CHECK(kernel_of(facts, "no_parameters").params.empty());
  CHECK(kernel_of(facts, "scalars").params == Layout{{0, 1}, {2, 2}, {4, 4}, {8, 8}, {16, 8}, {24, 1}});
  CHECK(kernel_of(facts, "structs").params == Layout{{0, 1}, {8, 32}, {48, 16}, {64, 8}, {72, 8}});
  CHECK(kernel_of(facts, "large").params == Layout{{0, 5000}, {5000, 4}, {5008, 8}});
  CHECK(kernel_of(facts, "_Z5scaleIfEvPT_S0_").params == Layout{{0, 8}, {8, 4}});
  CHECK(kernel_of(facts, "_Z5scaleIdEvPT_S0_").params == Layout{{0, 8}, {8, 8}});
  CHECK(kernel_of(facts, "shared_memory").static_shared_bytes == 1200);
  CHECK(kernel_of(facts, "dynamic_memory").static_shared_bytes == 0);
  CHECK(kernel_of(facts, "scalars").static_shared_bytes == 0);
  CHECK(kernel_of(facts, "bounded").max_threads == 128);
  CHECK(kernel_of(facts, "scalars").max_threads == 0);
}

template <class T>
T value_of(const ModuleFacts& facts, const char* name) {
  const std::vector<std::byte> bytes = initial_of(facts, variable_of(facts, name));
  T value{};
  REQUIRE(bytes.size() == sizeof value);
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

void check_variables(const ModuleFacts& facts) {
  CHECK(value_of<int>(facts, "zeroed") == 0);
  CHECK(value_of<int>(facts, "initialised") == 77);
  CHECK(value_of<std::array<float, 5>>(facts, "table") == std::array<float, 5>{1, 2, 3, 4, 5});
  CHECK(variable_of(facts, "doubles").size == 8000);
  CHECK(std::string(value_of<std::array<char, 8>>(facts, "text").data()) == "simgpu");
  CHECK(variable_of(facts, "managed_value").managed);
  CHECK_FALSE(variable_of(facts, "zeroed").managed);
  CHECK(value_of<int>(facts, "managed_value") == 5);
  CHECK(facts.segments[variable_of(facts, "table").segment].space == Space::kConstant);
  CHECK(facts.segments[variable_of(facts, "text").segment].space == Space::kGlobal);
  CHECK(facts.constant_bytes() == 20);
  for (const VariableFacts& variable : facts.variables) CHECK(variable.initial_known);

  const VariableFacts& pointer = variable_of(facts, "points_to_text");
  const VariableFacts& text = variable_of(facts, "text");
  REQUIRE(facts.relocations.size() == 1);
  const Relocation& relocation = facts.relocations[0];
  CHECK(relocation.segment == pointer.segment);
  CHECK(relocation.offset == pointer.offset);
  CHECK(relocation.target_segment == text.segment);
  CHECK(relocation.target_offset + value_of<std::uint64_t>(facts, "points_to_text") == text.offset + 2);
}

}  // namespace

TEST_CASE("fatbin: kernels and variables of every architecture are those of the source") {
  const File file("all.fatbin");
  std::vector<std::string> seen;
  for (const Entry& entry : entries_of(file)) {
    INFO((entry.kind == Kind::kPtx ? "compute_" : "sm_") << entry.arch.text());
    seen.push_back(entry.arch.text());
    const ModuleFacts facts = facts_of(entry);
    CHECK(facts.arch == entry.arch);
    CHECK(facts.from_ptx == (entry.kind == Kind::kPtx));
    check_kernels(facts);
    check_variables(facts);
    if (entry.kind == Kind::kPtx) {
      CHECK(facts.kernels[0].registers == -1);
      CHECK(facts.ptx_major >= 9);
    } else {
      for (const KernelFacts& kernel : facts.kernels) CHECK(kernel.registers > 0);
      CHECK(kernel_of(facts, "with_stack").local_bytes >= 256);
      CHECK(kernel_of(facts, "scalars").local_bytes == 0);
    }
  }
  CHECK(seen == std::vector<std::string>{"75", "80", "86", "89", "90", "90a", "100f", "103", "110", "120",
                                         "121", "121"});
}

TEST_CASE("fatbin: every way of compressing gives the same module") {
  const File plain("compress_none.fatbin");
  for (const char* mode : {"size", "speed", "balance", "default"}) {
    INFO(mode);
    const File file(std::string("compress_") + mode + ".fatbin");
    bool compressed = false;
    for (const Entry& entry : entries_of(file)) {
      compressed = compressed || entry.compression != Compression::kNone;
      const ModuleFacts facts = facts_of(entry);
      check_kernels(facts);
      check_variables(facts);
    }
    CHECK(compressed);
    CHECK(entries_of(file).size() == entries_of(plain).size());
  }
}

TEST_CASE("fatbin: cubins in LZ4, as nvcc 12 writes them, are inflated without their padding") {
  const File cubin("plain.cubin");
  std::vector<std::byte> packed(
      static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(cubin.bytes().size()))));
  const int size = LZ4_compress_default(
      reinterpret_cast<const char*>(cubin.bytes().data()), reinterpret_cast<char*>(packed.data()),
      static_cast<int>(cubin.bytes().size()), static_cast<int>(packed.size()));
  REQUIRE(size > 0);
  for (const std::uint32_t header_size : {64U, 72U, 96U, 112U}) {
    const File file(container_of(Bytes(packed.data(), static_cast<std::size_t>(size)), 80, 0x11 | kFlagLz4,
                                 cubin.bytes().size(), header_size));
    const std::vector<Entry> entries = entries_of(file);
    REQUIRE(entries.size() == 1);
    CHECK(entries[0].compression == Compression::kLz4);
    check_kernels(facts_of(entries[0]));
  }
}

TEST_CASE("fatbin: a cubin and PTX text may come without a container") {
  const File cubin("plain.cubin");
  const std::vector<Entry> one = entries_of(cubin);
  REQUIRE(one.size() == 1);
  CHECK(one[0].arch == Arch{80, 0});
  check_kernels(facts_of(one[0]));

  const File specific("specific.cubin");
  CHECK(entries_of(specific)[0].arch == Arch{90, 'a'});

  const File ptx("plain.ptx");
  const std::vector<Entry> text = entries_of(ptx);
  REQUIRE(text.size() == 1);
  CHECK(text[0].kind == Kind::kPtx);
  CHECK(text[0].arch == Arch{75, 0});
  CHECK(text[0].ptx_major >= 9);
  check_kernels(facts_of(text[0]));
  check_variables(facts_of(text[0]));
}

TEST_CASE("fatbin: listing and choosing inflate nothing") {
  File file("compress_size.fatbin");
  const std::size_t first = static_cast<std::size_t>(entries_of(file)[0].stored.data() - file.bytes().data());
  std::memset(file.memory().data() + first, 0x5a, 64);
  CHECK(entries_of(file).size() == 4);
  ChosenImage chosen;
  REQUIRE(ChosenImage::choose(file.bytes(), {7, 5}, true, &chosen) == Problem::kNone);
  ModuleFacts facts;
  CHECK(chosen.read(&facts) == Problem::kCorrupt);
}

TEST_CASE("fatbin: relocatable cubins are passed over") {
  ChosenImage chosen;
  ModuleFacts facts;
  const File file("relocatable.fatbin");
  for (const Entry& entry : entries_of(file)) {
    if (entry.kind == Kind::kCubin) CHECK(read_entry_facts(entry, &facts) == Problem::kRelocatable);
  }
  REQUIRE(ChosenImage::choose(file.bytes(), {8, 0}, true, &chosen) == Problem::kNone);
  CHECK(chosen.read(&facts) == Problem::kNone);
  CHECK(facts.from_ptx);
  // sm_75 has no PTX there.
  REQUIRE(ChosenImage::choose(file.bytes(), {7, 5}, true, &chosen) == Problem::kNone);
  CHECK(chosen.read(&facts) == Problem::kRelocatable);
}

TEST_CASE("fatbin: a debug build is read like any other") {
  const File file("debug.cubin");
  check_kernels(facts_of(entries_of(file)[0]));
}

TEST_CASE("fatbin: what was chosen outlives the image unless the caller keeps it") {
  std::vector<std::byte> memory;
  ChosenImage chosen;
  {
    const File file("compress_size.fatbin");
    memory.assign(file.bytes().data(), file.bytes().data() + file.bytes().size());
  }
  REQUIRE(ChosenImage::choose(Bytes(memory.data(), memory.size()), {8, 0}, false, &chosen) == Problem::kNone);
  std::memset(memory.data(), 0xff, memory.size());
  memory.clear();
  memory.shrink_to_fit();
  ModuleFacts facts;
  REQUIRE(chosen.read(&facts) == Problem::kNone);
  check_kernels(facts);
}

}  // namespace simgpu::fatbin::test
