#include "tests/simgpu_digest/job.h"

#include <algorithm>
#include <array>
#include <functional>
#include <stdexcept>

namespace digest_test {
namespace {

constexpr std::size_t kSlots = 6;
constexpr std::size_t kSpace = std::size_t{4} << 20;
constexpr std::array<std::size_t, 7> kSizes = {4, 100, 512, 4096, 5000, 65560, 140000};

/// The pointers of a struct parameter; only the first `grid.y` are meant.
struct Inputs {
  std::array<std::uint64_t, kSlots> input;
};

class Maker {
 public:
  explicit Maker(std::uint64_t seed) : random_(seed) {}

  Program make() {
    for (int i = 0; i < 6; ++i) allocate();
    for (int i = 0; i < 60; ++i) step();
    return std::move(program_);
  }

 private:
  void allocate() {
    Step s;
    s.kind = Step::Kind::kAllocate;
    s.parts.push_back({sizes_.size(), 0});
    s.bytes = kSizes[random_.below(kSizes.size())];
    live_.push_back(sizes_.size());
    sizes_.push_back(s.bytes);
    program_.steps.push_back(s);
  }

  std::size_t any() { return live_[random_.below(live_.size())]; }
  /// Mostly the start of a buffer, sometimes its middle.
  Part part(std::size_t buffer) {
    return {buffer, random_.chance(75) ? 0 : random_.below(sizes_[buffer]) / 4 * 4};
  }
  Part part() { return part(any()); }

  void step() {
    const std::uint64_t what = random_.below(100);
    if (what < 8) return allocate();
    if (what < 14 && live_.size() > 4) return free();
    if (what < 24) return copy_in();
    if (what < 32) return pointers_in();
    if (what < 42) return copy();
    launch();
  }

  void free() {
    const std::size_t at = random_.below(live_.size());
    Step s;
    s.kind = Step::Kind::kFree;
    s.parts.push_back({live_[at], 0});
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(at));
    program_.steps.push_back(s);
  }

  void copy_in() {
    Step s;
    s.kind = Step::Kind::kCopyIn;
    s.parts.push_back(part());
    s.bytes = 1 + random_.below(sizes_[s.parts[0].buffer] - s.parts[0].offset);
    s.number = static_cast<std::uint32_t>(random_.next());
    program_.steps.push_back(s);
  }

  void pointers_in() {
    Step s;
    s.kind = Step::Kind::kPointersIn;
    s.parts.push_back({any(), 0});
    const std::size_t room = std::min<std::size_t>(sizes_[s.parts[0].buffer] / 8, kSlots);
    for (std::size_t i = 0; i < room; ++i) s.table.push_back(part());
    if (room > 0) program_.steps.push_back(s);
  }

  void copy() {
    Step s;
    s.kind = Step::Kind::kCopy;
    s.parts = {part(), part()};
    if (s.parts[0].buffer == s.parts[1].buffer) return;
    s.bytes = 1 + random_.below(std::min(sizes_[s.parts[0].buffer] - s.parts[0].offset,
                                         sizes_[s.parts[1].buffer] - s.parts[1].offset));
    program_.steps.push_back(s);
  }

  void launch() {
    static const char* const kKernels[] = {"fills", "reads2",  "_Z5scalePKfPfi", "accumulates",
                                           "cats",  "mystery", "gathers",        "tables"};
    Step s;
    s.kernel = kKernels[random_.below(std::size(kKernels))];
    s.number = static_cast<std::uint32_t>(1 + random_.below(kSlots));
    // What a launch names through different parameters lies in different buffers; those of a list may be one.
    std::vector<std::size_t> order = live_;
    for (std::size_t i = order.size(); i-- > 1;) std::swap(order[i], order[random_.below(i + 1)]);
    const std::size_t wanted = s.kernel == "fills" ? 1 : s.kernel == "reads2" ? 3 : 2;
    for (std::size_t i = 0; i < wanted; ++i) s.parts.push_back(part(order[i]));
    if (s.kernel == "cats") {
      s.parts.resize(1);
      for (std::uint32_t i = 0; i < s.number; ++i)
        s.parts.push_back(part(order[1 + random_.below(order.size() - 1)]));
    }
    if (s.kernel == "gathers" || s.kernel == "tables") {
      s.parts[1].offset = 0;
      if (s.kernel == "tables") s.parts[0].offset = 0;
    }
    program_.steps.push_back(s);
  }

  Random random_;
  std::vector<std::size_t> sizes_;
  std::vector<std::size_t> live_;
  Program program_;
};

/// Work that was called, and what it touches.
struct Work {
  std::size_t step = 0;
  std::vector<dg::Span> reads, writes;
  std::function<void()> run;
};

bool overlap(const std::vector<dg::Span>& a, const std::vector<dg::Span>& b) {
  for (const dg::Span& x : a) {
    for (const dg::Span& y : b) {
      if (x.begin < y.end && y.begin < x.end) return true;
    }
  }
  return false;
}

bool ordered(const Work& first, const Work& second) {
  return overlap(first.writes, second.writes) || overlap(first.writes, second.reads) ||
         overlap(first.reads, second.writes);
}

class Runner {
 public:
  Runner(const Program& program, std::uint64_t seed, const dg::Stride& stride)
      : program_(program), random_(seed), d_(kSpace, seed, program_roles()) {
    d_.stride = stride;
  }

  Outcome run() {
    for (std::size_t i = 0; i < program_.steps.size(); ++i) call(i);
    run_queued();
    for (const auto& [buffer, span] : live_) out_.buffers[buffer] = contents(span);
    return std::move(out_);
  }

 private:
  std::uint64_t address(const Part& part) const { return live_.at(part.buffer).begin + part.offset; }
  dg::Span whole(const Part& part) const { return live_.at(part.buffer); }

  void call(std::size_t index) {
    const Step& s = program_.steps[index];
    switch (s.kind) {
      case Step::Kind::kAllocate:
        return allocate(s.parts[0].buffer, s.bytes);
      case Step::Kind::kFree:
        d_.free(address(s.parts[0]));
        live_.erase(s.parts[0].buffer);
        return;
      default:
        return queue(index, s);
    }
  }

  void allocate(std::size_t buffer, std::size_t bytes) {
    for (int tries = 0; tries < 10000; ++tries) {
      const std::size_t offset = random_.below((kSpace - bytes) / 512) * 512;
      const dg::Span span{d_.address(offset), d_.address(offset) + bytes};
      const bool taken =
          std::any_of(live_.begin(), live_.end(), [&](const auto& l) { return overlap({l.second}, {span}); });
      if (taken) continue;
      d_.allocate(offset, bytes);
      live_[buffer] = span;
      return;
    }
    throw std::runtime_error("no room");
  }

  void queue(std::size_t index, const Step& s) {
    Work work;
    work.step = index;
    const std::uint64_t call = d_.call();
    const std::uint64_t to = address(s.parts[0]);
    work.writes.push_back(whole(s.parts[0]));
    if (s.kind == Step::Kind::kCopyIn) {
      work.run = [this, &s, to, call] {
        Random data(s.number);
        std::vector<unsigned char> bytes(s.bytes);
        for (unsigned char& b : bytes) b = static_cast<unsigned char>(data.next());
        d_.copy_in(to, bytes.data(), bytes.size(), call);
      };
    } else if (s.kind == Step::Kind::kPointersIn) {
      std::vector<std::uint64_t> words;
      for (const Part& p : s.table) words.push_back(address(p));
      table_[s.parts[0].buffer] = s.table;
      work.run = [this, words, to, call] { d_.copy_in(to, words.data(), words.size() * 8, call); };
    } else if (s.kind == Step::Kind::kCopy) {
      work.reads.push_back(whole(s.parts[1]));
      const std::uint64_t from = address(s.parts[1]);
      work.run = [this, &s, to, from, call] { d_.copy(to, from, s.bytes, call); };
    } else {
      queue_launch(index, s, call, &work);
    }
    works_.push_back(std::move(work));
  }

  void queue_launch(std::size_t index, const Step& s, std::uint64_t call, Work* work) {
    for (std::size_t i = 1; i < s.parts.size(); ++i) work->reads.push_back(whole(s.parts[i]));
    const Params params = parameters(s);
    if (s.kernel == "mystery") work->writes.push_back(whole(s.parts[1]));
    // What a table points to is only known when it is followed: it could be anything that is alive.
    if (s.kernel == "gathers") {
      for (const auto& [buffer, span] : live_) work->reads.push_back(span);
    }
    work->run = [this, &s, params, call, index] {
      out_.mixes[index] = d_.launch(s.kernel, {7, s.number, 1}, params, call).mix;
    };
  }

  Params parameters(const Step& s) {
    const std::uint64_t out = address(s.parts[0]);
    if (s.kernel == "fills") return Params(out, s.number);
    if (s.kernel == "reads2") return Params(out, address(s.parts[1]), address(s.parts[2]), s.number);
    if (s.kernel == "_Z5scalePKfPfi") return Params(address(s.parts[1]), out, s.number);
    if (s.kernel == "gathers") return Params(address(s.parts[1]), s.number, out);
    if (s.kernel == "tables") return Params(out, address(s.parts[1]), std::uint64_t{256});
    if (s.kernel != "cats") return Params(out, address(s.parts[1]));
    Inputs inputs{};
    for (std::uint64_t& slot : inputs.input) slot = stale();
    for (std::size_t i = 1; i < s.parts.size(); ++i) inputs.input[i - 1] = address(s.parts[i]);
    return Params(inputs, out);
  }

  /// What an unused slot may hold: anything, also a pointer to live memory.
  std::uint64_t stale() {
    if (random_.chance(50)) return random_.next();
    auto it = live_.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(random_.below(live_.size())));
    return it->second.begin;
  }

  void run_queued() {
    std::vector<bool> done(works_.size(), false);
    for (std::size_t left = works_.size(); left > 0; --left) {
      std::vector<std::size_t> ready;
      for (std::size_t i = 0; i < works_.size(); ++i) {
        bool waits = done[i];
        for (std::size_t j = 0; j < i && !waits; ++j) waits = !done[j] && ordered(works_[j], works_[i]);
        if (!waits) ready.push_back(i);
      }
      const std::size_t next = ready[random_.below(ready.size())];
      out_.reordered += next != ready[0] ? 1 : 0;
      works_[next].run();
      done[next] = true;
    }
  }

  std::vector<unsigned char> contents(const dg::Span& span) {
    std::vector<dg::Span> parts;
    d_.map.written_parts(span, d_.call(), &parts);
    std::vector<dg::PointerWord> pointers;
    d_.map.pointer_words(span, d_.call(), &pointers);
    std::vector<unsigned char> bytes(span.bytes(), 0);
    for (const dg::Span& part : parts) {
      std::memcpy(bytes.data() + (part.begin - span.begin), d_.bytes(part.begin), part.bytes());
    }
    for (const dg::PointerWord& p : pointers) std::memset(bytes.data() + (p.address - span.begin), 0xff, 8);
    return bytes;
  }

  const Program& program_;
  Random random_;
  Device d_;
  std::map<std::size_t, dg::Span> live_;
  std::map<std::size_t, std::vector<Part>> table_;
  std::vector<Work> works_;
  Outcome out_;
};

}  // namespace

std::string program_roles() {
  return "simgpu-roles 1\n"
         "kernel fills\n param 0 out\n"
         "kernel reads2\n param 0 out\n param 1 in\n param 2 in\n"
         "kernel accumulates\n param 0 inout\n param 1 in\n"
         "kernel cats\n param 0 words grid.y in\n param 1 out\n"
         "kernel gathers\n table 0 u32:1@0 in\n param 2 out\n"
         "kernel tables\n addresses 0 from 1 step 2\n";
}

Program make_program(std::uint64_t seed) {
  return Maker(seed).make();
}

Outcome run_program(const Program& program, std::uint64_t seed, const dg::Stride& stride) {
  return Runner(program, seed, stride).run();
}

}  // namespace digest_test
