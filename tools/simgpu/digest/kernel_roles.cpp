#include "tools/simgpu/digest/kernel_roles.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tools/simgpu/digest/tensor_lists.h"

namespace simgpu::digest {
namespace {

constexpr std::uint32_t kWord = sizeof(std::uint64_t);
constexpr std::uint64_t kMostTableWords = std::uint64_t{1} << 20;

using Sure = StrayPointer::Sure;

class Finder {
 public:
  Finder(const KernelRoles& roles, const LaunchInput& launch, Memory& memory)
      : roles_(roles), launch_(launch), memory_(memory), named_(roles.layout.size(), false) {}

  References find() {
    if (roles_.rule != nullptr) {
      for (const RoleLine& line : roles_.rule->lines) apply(line);
    }
    for (std::uint32_t i = 0; i < roles_.layout.size(); ++i) {
      if (!named_[i]) unnamed(i);
    }
    return std::move(out_);
  }

 private:
  /// A little-endian number in the parameters; 0 where they end before it.
  std::uint64_t number_at(const Place& place, std::uint32_t bytes) const {
    std::uint64_t value = 0;
    if (place.param < roles_.layout.size()) {
      const Slot& slot = roles_.layout[place.param];
      const std::uint64_t offset = place.in(slot.size);
      const std::uint64_t start = slot.offset + offset;
      if (offset + bytes <= slot.size && start + bytes <= launch_.params.size()) {
        std::memcpy(&value, launch_.params.data() + start, bytes);
      }
    }
    return value;
  }

  std::uint32_t size_of(std::uint32_t param) const {
    return param < roles_.layout.size() ? roles_.layout[param].size : 0;
  }

  void weaken(Knowledge to) { out_.knowledge = std::max(out_.knowledge, to); }

  /// Calls f(offset, word) for each word of a parameter that could be a pointer.
  template <class F>
  void each_word(std::uint32_t param, F&& f) {
    const std::uint32_t step = roles_.rule != nullptr && roles_.rule->packed ? kWord / 2 : kWord;
    const Slot& slot = roles_.layout[param];
    const std::uint32_t first = (slot.offset + step - 1) / step * step - slot.offset;
    for (std::uint32_t offset = first; offset + kWord <= slot.size; offset += step) {
      f(offset, number_at({param, offset}, kWord));
    }
  }

  void add(std::uint32_t param, std::uint32_t offset, std::uint64_t address, Access access) {
    if (access != Access::kNone) out_.list.push_back({address, 0, access, param, offset});
  }

  /// True if the parameter is one word: a pointer or a number, and nothing that has unused parts.
  bool one_word(std::uint32_t param) const { return size_of(param) == kWord; }

  /// Whether such a parameter, to which the role file gives a role, is a pointer.
  Sure sure_of_word(std::uint32_t param) const {
    if (!roles_.name.types_known) return Sure::kPointer;
    const ParamType type = roles_.name.types[param];
    return type == ParamType::kScalar || type == ParamType::kOther ? Sure::kMaybe : Sure::kPointer;
  }

  /// For a place that the role file gives a role: whether a pointer must be there.
  Sure sure_of(std::uint32_t param) const { return one_word(param) ? sure_of_word(param) : Sure::kStructure; }

  /// True if the word points to live memory. One that does not is a stray pointer, unless it is null.
  bool points(std::uint32_t param, std::uint32_t offset, std::uint64_t word, Access access, Sure sure) {
    if (memory_.find(word).has_value()) return true;
    if (word != 0 && access != Access::kNone) out_.strays.push_back({word, access, param, offset, sure});
    return false;
  }

  /// The same for all words of a parameter that could be pointers. In a structure those that are not are no
  /// stray pointers: it has numbers and unused parts.
  bool points_in(std::uint32_t param, std::uint32_t offset, std::uint64_t word, Access access, Sure sure) {
    return one_word(param) ? points(param, offset, word, access, sure) : memory_.find(word).has_value();
  }

  std::uint64_t count_of(const Count& count, std::uint64_t all) const {
    switch (count.kind) {
      case Count::Kind::kNumber:
        return count.number;
      case Count::Kind::kGridX:
        return launch_.grid[0];
      case Count::Kind::kGridY:
        return launch_.grid[1];
      case Count::Kind::kGridZ:
        return launch_.grid[2];
      case Count::Kind::kU32:
        return number_at(count.place, 4);
      case Count::Kind::kU64:
        return number_at(count.place, 8);
      case Count::Kind::kMax8:
        return largest(count.place, 1) + 1;
      case Count::Kind::kMax16:
        return largest(count.place, 2) + 1;
      case Count::Kind::kAll:
        break;
    }
    return all;
  }

  std::uint64_t largest(const Place& place, std::uint32_t bytes) const {
    std::uint64_t most = 0;
    const std::uint32_t room = size_of(place.param) / bytes;
    const std::uint32_t first = place.in(size_of(place.param));
    for (std::uint32_t i = 0; i < std::min(launch_.grid[0], room); ++i) {
      most = std::max(most, number_at({place.param, first + i * bytes}, bytes));
    }
    return most;
  }

  void apply(const RoleLine& line) {
    if (line.place.param >= roles_.layout.size()) return;
    if (line.kind != RoleLine::Kind::kValue || line.bytes == 0) named_[line.place.param] = true;
    switch (line.kind) {
      case RoleLine::Kind::kPointers:
        return pointers(line);
      case RoleLine::Kind::kWords:
        return words(line);
      case RoleLine::Kind::kTensorLists:
        return lists(line);
      case RoleLine::Kind::kTable:
        return table(line);
      case RoleLine::Kind::kValue:
        return value(line);
      case RoleLine::Kind::kAddresses:
        return addresses(line);
    }
  }

  void pointers(const RoleLine& line) {
    const std::uint32_t param = line.place.param;
    std::size_t n = 0;
    each_word(param, [&](std::uint32_t offset, std::uint64_t word) {
      const Access role = line.roles[std::min(n, line.roles.size() - 1)];
      if (!points_in(param, offset, word, role, sure_of_word(param))) return;
      add(param, offset, word, role);
      ++n;
    });
  }

  void words(const RoleLine& line) {
    const std::uint32_t size = size_of(line.place.param);
    const std::uint32_t first = line.place.in(size);
    const std::uint64_t room = first < size ? (size - first) / kWord : 0;
    const std::uint64_t count = std::min(count_of(line.count, room), room);
    // As many as there is room for are not as many as are used.
    const bool counted = line.count.kind != Count::Kind::kAll;
    word_array(line.place.param, first, count, line.roles[0], counted);
  }

  /// So many pointers, all of them in use if they were `counted`.
  void word_array(std::uint32_t param, std::uint32_t first, std::uint64_t count, Access access,
                  bool counted = true) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t offset = first + i * kWord;
      const std::uint64_t word = number_at({param, offset}, kWord);
      const bool live =
          counted ? points(param, offset, word, access, sure_of(param)) : memory_.find(word).has_value();
      if (live) add(param, offset, word, access);
    }
  }

  void lists(const RoleLine& line) {
    const std::uint32_t param = line.place.param;
    const auto lists = tensor_lists(line.count.number, size_of(param));
    // A layout of another version: what is known then is that it holds pointers.
    if (!lists.has_value()) return guess(param);
    const Place blocks{param, lists->blocks};
    const std::uint64_t used =
        std::min<std::uint64_t>(largest(blocks, lists->block_bytes) + 1, lists->capacity);
    for (std::uint32_t i = 0; i < line.count.number; ++i) {
      const std::size_t role = std::min<std::size_t>(i, line.roles.size() - 1);
      word_array(param, i * lists->capacity * kWord, used, line.roles[role]);
    }
    if (lists->steps != 0) word_array(param, lists->steps, used, Access::kIn);
  }

  void table(const RoleLine& line) {
    const std::uint32_t param = line.place.param;
    const std::uint64_t address = number_at(line.place, kWord);
    if (!points(param, line.place.in(size_of(param)), address, Access::kIn, sure_of(param))) return;
    const auto extent = memory_.find(address);
    const std::uint64_t room = std::min((extent->end() - address) / kWord, kMostTableWords);
    const std::uint64_t count = std::min(count_of(line.count, room), room);
    std::vector<std::uint64_t> entries(count);
    for (std::uint32_t i = 0; i < count; ++i) entries[i] = address + std::uint64_t{i} * kWord;
    follow(line.place, address, entries, line.roles[0]);
  }

  /// Adds the table at this address and the pointers in its words at `entries`, which ascend.
  void follow(const Place& place, std::uint64_t address, const std::vector<std::uint64_t>& entries,
              Access access) {
    if (entries.empty()) return;
    const std::uint64_t end = entries.back() + kWord;
    out_.list.push_back(
        {address, end - address, Access::kIn, place.param, place.in(size_of(place.param)), 0, true});
    std::vector<PointerWord> known;
    memory_.pointer_words({address, end}, &known);
    std::vector<Span> written;
    memory_.written_parts({address, end}, &written);
    auto next = known.begin();
    auto part = written.begin();
    for (const std::uint64_t entry : entries) {
      std::uint64_t word = 0;
      if (!copy_out(memory_, entry, &word, sizeof word)) {
        out_.faulted = true;
        return;
      }
      // What nobody wrote is no pointer, whatever it looks like.
      while (part != written.end() && part->end < entry + kWord) ++part;
      if (part == written.end() || part->begin > entry) continue;
      // A pointer that is known to have outlived its memory does not mean what lies there now.
      while (next != known.end() && next->address < entry) ++next;
      if (next != known.end() && next->address == entry && next->value == word && !next->alive) continue;
      if (access == Access::kNone || !memory_.find(word).has_value()) continue;
      const auto index = static_cast<std::uint32_t>((entry - address) / kWord) + 1;
      out_.list.push_back({word, 0, access, place.param, place.in(size_of(place.param)), index});
    }
  }

  void value(const RoleLine& line) {
    const Slot& slot = roles_.layout[line.place.param];
    const std::uint64_t offset = line.place.in(slot.size);
    const std::uint64_t start = slot.offset + offset;
    const std::uint64_t bytes = line.bytes != 0 ? line.bytes : slot.size;
    if (offset + bytes > slot.size || start + bytes > launch_.params.size()) return;
    const auto from = launch_.params.begin() + static_cast<std::ptrdiff_t>(start);
    out_.values.insert(out_.values.end(), from, from + static_cast<std::ptrdiff_t>(bytes));
  }

  void addresses(const RoleLine& line) {
    for (const Place& place : {line.from, line.step}) {
      if (place.param < named_.size()) named_[place.param] = true;
    }
    const std::uint64_t to = number_at(line.place, kWord);
    const std::uint64_t from = number_at(line.from, kWord);
    const std::uint32_t param = line.place.param;
    const std::uint32_t offset = line.place.in(size_of(param));
    if (!points(param, offset, to, Access::kOut, sure_of(param))) return;
    add(param, offset, to, Access::kOut);
    if (memory_.find(from).has_value()) out_.fills.push_back({to, from, number_at(line.step, kWord)});
  }

  /// A parameter that no line of the role file names.
  void unnamed(std::uint32_t param) {
    const Rule* rule = roles_.rule;
    if (rule != nullptr && rule->other.has_value()) {
      const Sure sure = roles_.name.types_known ? sure_of_word(param) : Sure::kMaybe;
      each_word(param, [&](std::uint32_t offset, std::uint64_t word) {
        if (points_in(param, offset, word, *rule->other, sure)) add(param, offset, word, *rule->other);
      });
      return;
    }
    if (roles_.name.types_known) return typed(param, roles_.name.types[param]);
    guess(param);
  }

  void typed(std::uint32_t param, ParamType type) {
    const Knowledge source = roles_.rule != nullptr ? Knowledge::kKnown : Knowledge::kInferred;
    const bool named_mutable = roles_.rule != nullptr && roles_.rule->mutable_means.has_value();
    const Access to_mutable = named_mutable ? *roles_.rule->mutable_means : Access::kInOut;
    const std::uint64_t word = number_at({param, 0}, kWord);
    switch (type) {
      case ParamType::kScalar:
        return;
      case ParamType::kOther:
        return guess(param);
      case ParamType::kConstPointer:
        if (!points(param, 0, word, Access::kIn, Sure::kMaybe)) return;
        add(param, 0, word, Access::kIn);
        return weaken(source);
      case ParamType::kPointer:
        if (!points(param, 0, word, to_mutable, named_mutable ? Sure::kPointer : Sure::kMaybe)) return;
        add(param, 0, word, to_mutable);
        return weaken(source);
      case ParamType::kConstPointerTable:
      case ParamType::kPointerTable:
        return typed_table(param, word, type == ParamType::kConstPointerTable ? Access::kIn : to_mutable,
                           source);
    }
  }

  /// The type says that there are pointers but not how many: those whose origin is known.
  void typed_table(std::uint32_t param, std::uint64_t address, Access access, Knowledge source) {
    if (!points(param, 0, address, Access::kIn, Sure::kMaybe)) return;
    const auto extent = memory_.find(address);
    std::vector<PointerWord> words;
    memory_.pointer_words({address, extent->end()}, &words);
    std::vector<std::uint64_t> entries;
    for (const PointerWord& word : words) {
      if (word.address >= address) entries.push_back(word.address);
    }
    follow({param, 0}, address, entries, access);
    weaken(source);
  }

  void guess(std::uint32_t param) {
    each_word(param, [&](std::uint32_t offset, std::uint64_t word) {
      if (!points_in(param, offset, word, Access::kInOut, Sure::kMaybe)) return;
      add(param, offset, word, Access::kInOut);
      weaken(Knowledge::kUnknown);
    });
  }

  const KernelRoles& roles_;
  const LaunchInput& launch_;
  Memory& memory_;
  std::vector<bool> named_;  ///< parameters of which the role file says what they are
  References out_;
};

}  // namespace

KernelRoles bind(const RoleFile& file, const std::string& mangled_name, std::vector<Slot> layout) {
  KernelRoles roles;
  roles.name = parse_kernel_name(mangled_name);
  roles.layout = std::move(layout);
  // A list that is not as long as the layout was not understood.
  if (roles.name.types.size() != roles.layout.size()) roles.name.types_known = false;
  roles.rule = file.find(roles.name.plain, roles.name.mangled, roles.layout);
  return roles;
}

std::string beyond_parameters(const KernelRoles& roles) {
  const RoleLine* first = nullptr;
  std::size_t further = 0;
  if (roles.rule == nullptr) return "";
  for (const RoleLine& line : roles.rule->lines) {
    if (line.last_param() < roles.layout.size()) continue;
    further += first != nullptr ? 1 : 0;
    if (first == nullptr) first = &line;
  }
  if (first == nullptr) return "";
  std::string text = std::to_string(first->line) + " names parameter " + std::to_string(first->last_param());
  if (further != 0)
    text += " (" + std::to_string(further) +
            (further == 1 ? " more line of its rule does)" : " more lines of its rule do)");
  return text;
}

References find_references(const KernelRoles& roles, const LaunchInput& launch, Memory& memory) {
  return Finder(roles, launch, memory).find();
}

}  // namespace simgpu::digest
