#include "tools/simgpu/digest/engine.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "tools/simgpu/digest/values.h"

namespace simgpu::digest {
namespace {

constexpr std::uint64_t kWord = 8;

/// A piece to read, before the tokens have their final place.
struct Piece {
  Span span;
  std::uint64_t base = 0;
  std::uint32_t extent = 0;
  std::size_t first_token = 0;
  std::size_t tokens = 0;
};

struct WriteJob {
  Span span;
  std::uint64_t base = 0;
  std::uint32_t extent = 0;
};

/// All that touches memory, prepared so that it neither allocates nor looks anything up.
struct Work {
  Mixer mixer;
  const std::vector<Piece>* pieces;
  const std::vector<Token>* tokens;
  const std::vector<WriteJob>* writes;
  const std::vector<AddressFill>* fills;
  const std::vector<WrittenPointers>* filled;
  Stride stride;
  Mix mix;
  std::uint64_t seen = 0;
};

void do_work(void* argument) {
  Work& w = *static_cast<Work*>(argument);
  const std::span<const Token> tokens(*w.tokens);
  for (const Piece& piece : *w.pieces) {
    w.mixer.number(piece.extent);
    w.seen += mix_sample({piece.span, piece.base, tokens.subspan(piece.first_token, piece.tokens)}, w.stride,
                         &w.mixer);
  }
  w.mix = w.mixer.mix();
  for (const WriteJob& job : *w.writes) write_values(job.span, job.base, scatter(w.mix, job.extent));
  for (std::size_t i = 0; i < w.filled->size(); ++i) {
    const AddressFill& fill = (*w.fills)[i];
    for (std::uint64_t n = 0; n < (*w.filled)[i].words; ++n) {
      const std::uint64_t value = fill.from + n * fill.step;
      std::memcpy(reinterpret_cast<void*>((*w.filled)[i].address + n * kWord), &value, sizeof value);
    }
  }
}

/// Makes the plan of one launch and runs it.
class Run {
 public:
  Run(const KernelRoles& roles, const LaunchInput& launch, const Stride& stride, Memory& memory)
      : roles_(roles), launch_(launch), stride_(stride), memory_(memory) {}

  Effect run() {
    references_ = find_references(roles_, launch_, memory_);
    effect_.knowledge = references_.knowledge;
    const auto& strays = references_.strays;
    if (references_.faulted ||
        std::any_of(strays.begin(), strays.end(), [&](const auto& s) { return memory_.refuses(s); })) {
      effect_.faulted = true;
      return std::move(effect_);
    }
    ranges_ = find_ranges(references_, memory_);
    for (std::uint32_t i = 0; i < ranges_.extents.size(); ++i) numbers_.emplace(ranges_.extents[i].base, i);
    mix_call();
    for (const Touched& t : ranges_.list) {
      if (reads(t.access) && !t.table) plan_read(t);
      if (writes(t.access)) plan_write(t);
    }
    if (!effect_.faulted) finish();
    effect_.touched = std::move(ranges_.list);
    return std::move(effect_);
  }

 private:
  /// What is known without looking at memory.
  void mix_call() {
    const std::string& name = roles_.name.mangled;
    work_.mixer.number(name.size());
    work_.mixer.bytes(name.data(), name.size());
    for (const std::uint32_t n : launch_.grid) work_.mixer.number(n);
    work_.mixer.number(references_.values.size());
    work_.mixer.bytes(references_.values.data(), references_.values.size());
    for (std::size_t i = 0; i < references_.list.size(); ++i) {
      const Reference& r = references_.list[i];
      const std::uint32_t extent = ranges_.extent_of[i];
      const std::uint64_t words[] = {r.param, r.offset,
                                     r.index, static_cast<std::uint64_t>(r.access),
                                     extent,  r.address - ranges_.extents[extent].base};
      work_.mixer.bytes(words, sizeof words);
    }
  }

  void plan_read(const Touched& t) {
    const std::uint64_t base = ranges_.extents[t.extent].base;
    parts_.clear();
    memory_.written_parts(t.span, &parts_);
    for (const Span& part : parts_) {
      Piece piece{part, base, t.extent, tokens_.size(), 0};
      words_.clear();
      memory_.pointer_words(part, &words_);
      for (const PointerWord& word : words_) {
        if (sees(part, base, stride_, word.address)) add_token(word);
      }
      piece.tokens = tokens_.size() - piece.first_token;
      pieces_.push_back(piece);
    }
  }

  /// What a word in memory points to: an extent, numbered like those of the parameters, and an offset in it;
  /// or nothing that is alive. A word that is not what came there counts as the number that it is.
  void add_token(const PointerWord& word) {
    std::uint64_t value = 0;
    if (!copy_out(memory_, word.address, &value, sizeof value)) {
      effect_.faulted = true;
      return;
    }
    enum : std::uint64_t { kDead, kDamaged, kAlive };
    Mix meaning{kDead, 0};
    if (value != word.value) {
      meaning = {kDamaged, value};
    } else if (word.alive) {
      const Extent extent = memory_.find(value).value();
      const auto number = static_cast<std::uint32_t>(numbers_.size());
      meaning = {kAlive + numbers_.emplace(extent.base, number).first->second, value - extent.base};
    }
    tokens_.push_back({word.address, scatter(meaning, 0)});
  }

  void plan_write(const Touched& t) {
    writes_.push_back({t.span, ranges_.extents[t.extent].base, t.extent});
    effect_.bytes_written += t.span.bytes();
    for (const AddressFill& fill : references_.fills) {
      if (fill.address != t.span.begin || fill.address % kWord != 0) continue;
      // As many as point into the memory that they start in: what lies behind it is not the same in two runs.
      const std::uint64_t room = memory_.find(fill.from).value().end() - fill.from;
      const std::uint64_t most = fill.step == 0 ? room : (room + fill.step - 1) / fill.step;
      fills_.push_back(fill);
      effect_.pointers.push_back({fill.address, std::min(t.span.bytes() / kWord, most)});
    }
  }

  void finish() {
    work_.pieces = &pieces_;
    work_.tokens = &tokens_;
    work_.writes = &writes_;
    work_.fills = &fills_;
    work_.filled = &effect_.pointers;
    work_.stride = stride_;
    effect_.faulted = !memory_.guarded(&do_work, &work_);
    effect_.mix = work_.mix;
    effect_.bytes_seen = work_.seen;
    effect_.tokens = tokens_.size();
  }

  const KernelRoles& roles_;
  const LaunchInput& launch_;
  const Stride stride_;
  Memory& memory_;
  References references_;
  Ranges ranges_;
  std::unordered_map<std::uint64_t, std::uint32_t> numbers_;  ///< of extents, by their base
  std::vector<Piece> pieces_;
  std::vector<Token> tokens_;
  std::vector<WriteJob> writes_;
  std::vector<AddressFill> fills_;
  std::vector<Span> parts_;
  std::vector<PointerWord> words_;
  Work work_{};
  Effect effect_;
};

}  // namespace

Effect run(const KernelRoles& roles, const LaunchInput& launch, const Stride& stride, Memory& memory) {
  return Run(roles, launch, stride, memory).run();
}

Ranges touches(const KernelRoles& roles, const LaunchInput& launch, Memory& memory) {
  return find_ranges(find_references(roles, launch, memory), memory);
}

}  // namespace simgpu::digest
