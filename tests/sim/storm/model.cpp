#include "tests/sim/storm/model.h"

#include <cstring>

namespace storm {
namespace {

std::uint32_t load(const unsigned char* at) {
  std::uint32_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

void store(unsigned char* at, std::uint32_t word) {
  std::memcpy(at, &word, sizeof word);
}

std::uint32_t mixed(std::uint32_t salt, std::size_t index) {
  std::uint32_t x = static_cast<std::uint32_t>(index) * 2654435761u + salt;
  x ^= x >> 15;
  return x * 2246822519u;
}

}  // namespace

std::uint64_t digest_of(const unsigned char* bytes, std::size_t count) {
  std::uint64_t digest = 14695981039346656037ull + count;
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes + i, sizeof word);
    digest = (digest ^ word) * 1099511628211ull;
    digest ^= digest >> 29;
  }
  for (; i < count; ++i) digest = (digest ^ bytes[i]) * 1099511628211ull;
  return digest;
}

std::vector<unsigned char> Model::bytes(const Region& region) const {
  const unsigned char* from = memory_[region.buffer].data() + region.offset;
  return {from, from + region.bytes};
}

void Model::apply(const Operation& operation) {
  const auto at = [&](const Region& region) { return memory_[region.buffer].data() + region.offset; };
  unsigned char* to =
      operation.to.bytes != 0 && operation.kind != Kind::kAllocate ? at(operation.to) : nullptr;
  const unsigned char* from = !operation.from.empty() ? at(operation.from[0]) : nullptr;
  const std::size_t words = operation.to.bytes / 4;
  switch (operation.kind) {
    case Kind::kAllocate:
      memory_[operation.to.buffer].assign(operation.to.bytes, 0);
      break;
    case Kind::kFree:
      memory_[operation.to.buffer] = {};
      break;
    case Kind::kFill:
    case Kind::kHostFill:
    case Kind::kHostFunction:
      for (std::size_t k = 0; k < words; k += operation.stride) store(to + 4 * k, mixed(operation.salt, k));
      break;
    case Kind::kMap:
      for (std::size_t k = 0; k < words; k += operation.stride) {
        const std::size_t n = operation.from[0].bytes / 4;
        store(to + 4 * k, load(from + 4 * (k % n)) * 5 + mixed(operation.salt, k));
      }
      break;
    case Kind::kUpdate:
      for (std::size_t k = 0; k < words; k += operation.stride) {
        const std::uint32_t old = load(to + 4 * k);
        store(to + 4 * k, ((old << 7) | (old >> 25)) ^ mixed(operation.salt, k));
      }
      break;
    case Kind::kGather:
      for (std::size_t k = 0; k < words; k += operation.stride) {
        std::uint32_t sum = operation.salt;
        for (std::size_t i = 0; i < operation.from.size(); ++i) {
          const std::size_t n = operation.from[i].bytes / 4;
          sum = sum * 3 + load(at(operation.from[i]) + 4 * (k % n));
        }
        store(to + 4 * k, sum);
      }
      break;
    case Kind::kSum: {
      std::uint32_t sum = load(to);
      for (std::size_t k = 0; k < operation.from[0].bytes / 4; k += operation.stride)
        sum += load(from + 4 * k);
      store(to, sum);
      break;
    }
    case Kind::kMemset:
      if (operation.wide) {
        for (std::size_t k = 0; k < words; ++k) store(to + 4 * k, operation.salt);
      } else {
        std::memset(to, static_cast<int>(operation.salt & 0xff), operation.to.bytes);
      }
      break;
    case Kind::kCopy:
      std::memcpy(to, from, operation.to.bytes);
      break;
    case Kind::kCopyRows:
      for (std::size_t row = 0; row < operation.rows; ++row) {
        std::memcpy(to + row * operation.to_pitch, from + row * operation.from_pitch, operation.row_bytes);
      }
      break;
    case Kind::kGraphLaunch:
      for (const Operation& node : program_.operations[program_.captures[operation.graph]].nodes) apply(node);
      break;
    case Kind::kCheck:
    case Kind::kStreamCreate:
    case Kind::kStreamDestroy:
    case Kind::kSynchronize:
    case Kind::kAsk:
    case Kind::kCapture:
    case Kind::kGraphDestroy:
    case Kind::kAwaitValue:
    case Kind::kWriteValue:
    case Kind::kTable:  // addresses: nobody checks them
      break;
  }
}

void add_expectations(Program& program) {
  Model model(program);
  for (unsigned i = 0; i < program.buffers.size(); ++i) {
    if (!on_host(program.buffers[i])) continue;
    Operation made;
    made.kind = Kind::kAllocate;
    made.to = {i, 0, program.buffers[i].bytes};
    model.apply(made);
  }
  for (Operation& operation : program.operations) {
    model.apply(operation);
    if (operation.kind != Kind::kCheck) continue;
    const std::vector<unsigned char> bytes = model.bytes(operation.from[0]);
    operation.expected = digest_of(bytes.data(), bytes.size());
  }
}

std::vector<unsigned char> expected_bytes(const Program& program, unsigned check) {
  Model model(program);
  for (unsigned i = 0; i < program.buffers.size(); ++i) {
    if (!on_host(program.buffers[i])) continue;
    Operation made;
    made.kind = Kind::kAllocate;
    made.to = {i, 0, program.buffers[i].bytes};
    model.apply(made);
  }
  for (unsigned i = 0; i < check; ++i) model.apply(program.operations[i]);
  return model.bytes(program.operations[check].from[0]);
}

}  // namespace storm
