#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/simgpu/fatbin/entries.h"
#include "tools/simgpu/fatbin/format.h"
#include "tools/simgpu/fatbin/image.h"

/// simgpu_fatbin_scan FILE…: reads every image in the fat binaries of ELF libraries and programs. Every
/// linked cubin must be readable, and the parameters of each of its kernels must be known: their end is then
/// where the constant bank says it is. Exit status 77 if none of the files exists.
namespace {

using simgpu::fatbin::Bytes;
using simgpu::fatbin::Entry;
using simgpu::fatbin::Kind;
using simgpu::fatbin::ModuleFacts;
using simgpu::fatbin::Problem;

struct Counts {
  std::size_t containers = 0;
  std::size_t cubins = 0;
  std::size_t relocatable = 0;
  std::size_t ptx = 0;
  std::size_t kernels = 0;
  std::size_t variables = 0;
  std::size_t compared = 0;  ///< kernels whose parameters were read in both PTX and binary code
  std::size_t failures = 0;
};

/// Parameters of the kernels of one container, from its binary code.
using Layouts = std::unordered_map<std::string, std::vector<simgpu::fatbin::Param>>;

void complain(const Entry& entry, const char* what, const std::string& name, Counts* counts) {
  if (++counts->failures <= 10) {
    std::printf("  %s_%s: %s %s\n", entry.kind == Kind::kPtx ? "compute" : "sm", entry.arch.text().c_str(),
                what, name.c_str());
  }
}

/// The compiler knows the same parameters, whatever it compiles to.
void compare(const Entry& entry, const ModuleFacts& facts, Layouts* layouts, Counts* counts) {
  for (const auto& kernel : facts.kernels) {
    if (!kernel.params_known) complain(entry, "parameters unknown:", kernel.name, counts);
    const auto [other, first] = layouts->emplace(kernel.name, kernel.params);
    if (first || entry.kind != Kind::kPtx) continue;
    ++counts->compared;
    if (other->second != kernel.params)
      complain(entry, "not the parameters of its binary code:", kernel.name, counts);
  }
}

void read_one(const Entry& entry, Layouts* layouts, Counts* counts) {
  ModuleFacts facts;
  const Problem problem = simgpu::fatbin::read_entry_facts(entry, &facts);
  if (problem == Problem::kRelocatable) {
    ++counts->relocatable;
    return;
  }
  ++(entry.kind == Kind::kPtx ? counts->ptx : counts->cubins);
  if (problem != Problem::kNone) complain(entry, "is not readable:", describe(problem), counts);
  counts->kernels += facts.kernels.size();
  counts->variables += facts.variables.size();
  compare(entry, facts, layouts, counts);
}

void read_containers(Bytes section, Counts* counts) {
  for (std::uint64_t offset = 0; offset + sizeof(simgpu::fatbin::ContainerHeader) <= section.size();) {
    simgpu::fatbin::ContainerHeader header{};
    if (!section.read(offset, &header) || header.magic != simgpu::fatbin::kContainerMagic) {
      offset += 8;  // padding between containers
      continue;
    }
    Bytes container;
    std::vector<Entry> entries;
    const std::uint64_t size = header.header_size + header.size;
    Problem problem = Problem::kTruncated;
    if (section.slice(offset, size, &container)) problem = simgpu::fatbin::list_entries(container, &entries);
    ++counts->containers;
    Layouts layouts;
    for (const Kind kind : {Kind::kCubin, Kind::kPtx}) {
      for (const Entry& entry : entries) {
        if (entry.kind == kind) read_one(entry, &layouts, counts);
      }
    }
    if (problem != Problem::kNone) {
      ++counts->failures;
      std::printf("  container at %llu: %s\n", static_cast<unsigned long long>(offset), describe(problem));
      return;
    }
    offset += (size + 7) / 8 * 8;
  }
}

/// The fat binaries of a host library lie in two sections.
void read_library(Bytes file, Counts* counts) {
  Elf64_Ehdr header{};
  Elf64_Shdr names{};
  if (!file.read(0, &header)) return;
  static_cast<void>(file.read(header.e_shoff + header.e_shstrndx * sizeof names, &names));
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section{};
    std::string_view name;
    Bytes bytes;
    if (!file.read(header.e_shoff + i * sizeof section, &section)) return;
    if (!file.text(names.sh_offset + section.sh_name, 64, &name)) continue;
    if (name != ".nv_fatbin" && name != "__nv_relfatbin") continue;
    if (file.slice(section.sh_offset, section.sh_size, &bytes)) read_containers(bytes, counts);
  }
}

bool scan(const char* path, Counts* counts) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  struct stat status {};
  ::fstat(fd, &status);
  const auto size = static_cast<std::size_t>(status.st_size);
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  ::close(fd);
  if (memory == MAP_FAILED) return false;
  read_library(Bytes(memory, size), counts);
  ::munmap(memory, size);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  bool found = false;
  bool good = true;
  for (int i = 1; i < argc; ++i) {
    Counts counts;
    const auto start = std::chrono::steady_clock::now();
    if (!scan(argv[i], &counts)) continue;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    found = true;
    std::printf(
        "%s: %zu containers, %zu cubins (and %zu relocatable), %zu PTX, %zu kernels (%zu compared), %zu "
        "variables, %.2f s\n",
        argv[i], counts.containers, counts.cubins, counts.relocatable, counts.ptx, counts.kernels,
        counts.compared, counts.variables, took.count());
    good = good && counts.failures == 0 && counts.cubins + counts.relocatable + counts.ptx > 0;
    if (counts.failures > 0) std::printf("  %zu failures\n", counts.failures);
  }
  if (!found) {
    std::printf("skipped: none of the libraries is here\n");
    return 77;
  }
  return good ? 0 : 1;
}
