#include "tests/sim/storm/generate.h"

#include "tests/sim/storm/generator.h"

namespace storm {

void Generator::act() {
  const unsigned what = draw(100);
  // At first memory fills up.
  if (step_ < kSlots && live_ + options_.largest_bytes < options_.live_bytes) {
    Slot* empty = find([](const Slot& slot) { return slot.buffer == kNone; });
    if (empty != nullptr) return allocate(*empty);
  }
  if (what % 20 == 7 && has(Feature::k_await)) return await_value();
  if (what < 18) {
    Slot* of_table = has(Feature::k_retable) && chance(35)
                         ? find([&](const Slot& slot) { return is_of_table(slot); })
                         : nullptr;
    return churn(of_table != nullptr ? *of_table : any_slot());
  }
  if (what < 50) return launch();
  if (what < 56) {
    Slot* slot = has(Feature::k_memset) ? find_any(device_) : nullptr;
    return slot != nullptr ? memset(*slot) : void();
  }
  if (what < 72) return has(Feature::k_copy) ? copy() : void();
  if (what < 77) return has(Feature::k_copy2d) ? copy_rows() : void();
  if (what < 81) return fill_host();
  if (what < 85) {
    unsigned& made = streams_[draw(static_cast<unsigned>(streams_.size()))];
    if (!has(Feature::k_churn) || made == kNone) return;
    if (!has(Feature::k_share))
      thread_ = static_cast<unsigned>(&made - streams_.data()) / options_.devices / options_.streams;
    emit(operation(Kind::kStreamDestroy, made));
    made = kNone;
    return;
  }
  if (what < 88) {
    if (!has(Feature::k_hostsync)) return;
    // While one thread captures, no other may wait for the whole device.
    const bool whole = chance(50) && !(has(Feature::k_graph) && options_.threads > 1);
    emit(operation(Kind::kSynchronize, whole ? kNone : stream(device_)));
    return;
  }
  if (what < 90) {
    Slot* slot = has(Feature::k_query) ? find_any(device_) : nullptr;
    if (slot == nullptr) return;
    Operation ask = operation(Kind::kAsk);
    ask.from = {part(*slot, 4)};
    return emit(std::move(ask));
  }
  if (what < 94) return has(Feature::k_graph) ? graph() : void();
  if (Slot* slot = find_defined(device_)) check(part(*slot, 4), device_);
}

void Generator::churn(Slot& slot) {
  const bool again = chance(60);
  if (slot.graph != kNone && has(Feature::k_renew) && chance(80)) return renew(slot);
  if (slot.graph == kNone && is_of_table(slot) && chance(80)) return renew(slot);
  if (slot.buffer != kNone) {
    release(slot);
    if (!again) return;
  }
  allocate(slot);
}

void Generator::allocate(Slot& slot, unsigned in) {
  const std::size_t bytes = size();
  const unsigned way = draw(100);
  Home home = Home::kMalloc;
  if (way < 30 && has(Feature::k_async)) home = Home::kAsync;
  if (way >= 30 && way < 45 && has(Feature::k_pool))
    home = way % 2 == 0 ? Home::kOwnPool : Home::kDefaultPool;
  const unsigned made_in = in != kNone ? in : stream(device_);
  const bool now = chance(85);
  if (live_ + weight(bytes) > options_.live_bytes) return;
  live_ += weight(bytes);
  program_.peak_bytes = std::max(program_.peak_bytes, live_);
  slot = {.buffer = add_buffer({home, device_, bytes})};
  Operation made = operation(Kind::kAllocate, home == Home::kMalloc ? kNone : made_in);
  made.to = whole(slot);
  emit(std::move(made));
  if (in != kNone) return fill(slot, in);
  if (now) initialise(slot);
}

void Generator::release(Slot& slot) {
  if (slot.graph != kNone) drop_graph(slot.graph);
  drop_tables_of(slot);
  free(slot);
  live_ -= weight(buffer(slot).bytes);
  slot = Slot{};
}

void Generator::free(const Slot& slot) {
  const Buffer& old = buffer(slot);
  const bool stream_ordered = old.home != Home::kMalloc;
  const bool asynchronous = stream_ordered ? !chance(20) : has(Feature::k_async) && chance(10);
  Operation made = operation(Kind::kFree, asynchronous ? stream(old.device) : kNone);
  made.asynchronous = asynchronous;
  made.to = whole(slot);
  emit(std::move(made));
}

void Generator::renew(Slot& slot) {
  free(slot);
  const Buffer& same = buffer(slot);
  Operation made = operation(Kind::kAllocate, same.home == Home::kMalloc ? kNone : stream(same.device));
  made.to = whole(slot);
  emit(std::move(made));
  if (slot.table == kNone) fill(slot);
  write_tables_again(slot);
  if (slot.graph == kNone) return;
  // Made anew only if the address is another one.
  Operation capture = operation(Kind::kCapture);
  capture.graph = slot.graph;
  capture.nodes = program_.operations[program_.captures[slot.graph]].nodes;
  emit(std::move(capture));
}

void Generator::initialise(Slot& slot) {
  if (has(Feature::k_memset) && chance(20)) return memset(slot);
  fill(slot);
}

void Generator::fill(Slot& slot, unsigned in) {
  Operation made = operation(Kind::kFill, in != kNone ? in : stream(buffer(slot).device));
  made.to = whole(slot);
  made.salt = static_cast<std::uint32_t>(random_()) | 1;
  made.grid = 1 + draw(8);
  emit(std::move(made));
  define(slot);
}

void Generator::finish() {
  for (unsigned i = 0; i < kSlots; ++i) {
    Slot& slot = slots_[i];
    if (slot.buffer == kNone) continue;
    thread_ = i % options_.threads;
    if (slot.defined) check(whole(slot), buffer(slot).device);
    release(slot);
  }
  while (!graphs_.empty()) drop_graph(graphs_.back());
  for (unsigned i = 0; i < streams_.size(); ++i) {
    if (streams_[i] == kNone) continue;
    thread_ = i / options_.devices / options_.streams;
    emit(operation(Kind::kStreamDestroy, streams_[i]));
  }
  for (const unsigned stream : loose_) emit(operation(Kind::kStreamDestroy, stream));
}

Program generate(const Options& options) {
  return Generator(options).run();
}

}  // namespace storm
