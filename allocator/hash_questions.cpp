#include "allocator/hash_questions.h"

#include <sys/mman.h>

#include <algorithm>

#include "allocator/support/content_hash_kernel.h"
#include "allocator/support/events.h"
#include "allocator/support/stats_page.h"

namespace tidepool::runtime {

HashQuestions::~HashQuestions() {
  if (page_ == nullptr) return;
  // A failure here leaves the page pinned until the process ends; there is nobody left to tell.
  (void)device_.unregister_host(page_);
  ::munmap(page_, sizeof(Page));
}

Status HashQuestions::open(DevicePtr memory) noexcept {
  Status status = device_.prepare_hash(memory);
  if (status.ok()) status = pin_page();
  if (status.ok()) status = open_stream(&stream_);
  if (status.ok()) status = open_stream(&control_);
  if (status.ok()) status = clear(memory);
  memory_ = memory;
  is_open_ = status.ok();
  return status;
}

Status HashQuestions::pin_page() noexcept {
  void* page = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return kOutOfMemory;
  (void)::madvise(page, sizeof(Page), MADV_DONTFORK);
  Status status = device_.register_host(page, Bytes(sizeof(Page)));
  if (!status.ok()) status = device_.register_host(page, Bytes(sizeof(Page)));  // one refusal is survived
  if (!status.ok()) {
    ::munmap(page, sizeof(Page));
    return status;
  }
  page_ = static_cast<Page*>(page);
  return kOk;
}

Status HashQuestions::open_stream(Stream** stream) noexcept {
  const DeviceResult<StreamHandle> handle = device_.create_stream();
  if (!handle.ok()) return handle.error();
  *stream = streams_.find(*handle);
  return *stream != nullptr ? kOk : kOutOfMemory;
}

// The page is zeros while nothing was written to it.
Status HashQuestions::clear(DevicePtr memory) noexcept {
  static_assert(sizeof(Page) == Device::kHashMemory.count());
  const Status status = device_.copy_to_device(memory, page_, Device::kHashMemory, stream_->handle());
  if (!status.ok()) return status;
  const Use cleared = stream_->draw();
  return streams_.order(*control_, cleared);
}

void HashQuestions::abandon() noexcept {
  if (page_ != nullptr) ::munmap(page_, sizeof(Page));
  page_ = nullptr;
  is_open_ = false;
}

bool HashQuestions::is_open() noexcept {
  if (!is_open_ || !streams_.passed(overdue_)) return false;
  overdue_ = {};
  return true;
}

HashQuestions::Place& HashQuestions::place_of(const ContentHash* answer) noexcept {
  return places_[static_cast<std::size_t>(answer - static_cast<const ContentHash*>(page_->answers))];
}

ContentHash* HashQuestions::take() noexcept {
  for (std::size_t looks = 0; looks < kLooks; ++looks) {
    const std::size_t i = next_;
    next_ = (next_ + 1) % kPlaces;
    if (places_[i].taken || !streams_.passed(places_[i].last)) continue;
    places_[i].taken = true;
    return &page_->answers[i];
  }
  return nullptr;
}

ContentHash* HashQuestions::ask(BlockId id, const Block& block, bool are_over) noexcept {
  if (!is_open()) return nullptr;
  if (!are_over && !streams_.order_after_uses(*stream_, block).ok()) return nullptr;
  ContentHash* const answer = take();
  if (answer == nullptr) return nullptr;
  Place& place = place_of(answer);
  place.block = id;
  place.number = ++newest_;
  Status status =
      device_.hash_to_host(answer, block.base, block.requested(), place.number, stream_->handle());
  // Also after an error: what of it did start is covered by a ticket that is drawn now.
  place.last = stream_->draw();
  if (status.ok()) {
    StatsPage::instance().add(Metric::hashes_total, 1);
    status = streams_.mark(*stream_);
  }
  if (status.ok()) return answer;
  place.taken = false;
  return nullptr;
}

HashQuestions::Answer HashQuestions::look(const ContentHash* answer) noexcept {
  if (page_ == nullptr) return Answer::kNever;
  const Place& place = place_of(answer);
  if (place.number <= given_up_) return Answer::kNever;
  return streams_.passed(place.last) ? Answer::kHere : Answer::kPending;
}

Use HashQuestions::use_of(const ContentHash* answer) const noexcept {
  if (answer == nullptr || page_ == nullptr) return {};
  return places_[static_cast<std::size_t>(answer - static_cast<const ContentHash*>(page_->answers))].last;
}

void HashQuestions::put(ContentHash* answer) noexcept {
  if (answer != nullptr && page_ != nullptr) place_of(answer).taken = false;
}

Use HashQuestions::reading(BlockId id) noexcept {
  Use newest;
  for (Place& place : places_) {
    if (place.block != id) continue;
    if (place.number <= quiet_ || streams_.passed(place.last)) {
      place.block = kNoBlock;
    } else if (place.last.ticket() > newest.ticket()) {
      newest = place.last;
    }
  }
  return newest;
}

Status HashQuestions::give_up() noexcept {
  if (page_ == nullptr || quiet_ == newest_) return kOk;
  emit<Ev::hashes_given_up>(newest_ - given_up_);
  // From here on the device may act on it, whatever comes of the calls.
  given_up_ = newest_;
  overdue_ = Use(stream_->index(), 0);
  for (const Place& place : places_) {
    if (place.last.ticket() > overdue_.ticket()) overdue_ = place.last;
  }
  page_->void_up_to = given_up_;
  const Status status =
      device_.copy_to_device(memory_ + Bytes(offsetof(HashControl, void_up_to)), &page_->void_up_to,
                             Bytes(sizeof page_->void_up_to), control_->handle());
  if (!status.ok()) return status;
  const Nanos deadline = monotonic_now() + kPatience;
  for (;;) {
    if (const Status asked = ask_who_reads(deadline); !asked.ok()) return asked;
    if (page_->left == page_->entered) break;
    if (monotonic_now() > deadline) return kNotReady;
  }
  quiet_ = given_up_;
  return kOk;
}

// First who has left, then who has entered: the other way round a block of threads could do both in between
// while another goes on.
Status HashQuestions::ask_who_reads(Nanos deadline) noexcept {
  struct {
    unsigned long long* to;
    std::size_t from;
  } const words[] = {{&page_->left, offsetof(HashControl, left)},
                     {&page_->entered, offsetof(HashControl, entered)}};
  Use last;
  for (const auto& word : words) {
    const Status status =
        device_.copy_to_host(word.to, memory_ + Bytes(word.from), Bytes(sizeof *word.to), control_->handle());
    if (!status.ok()) return status;
    last = control_->draw();
  }
  return streams_.wait_host_until(last, deadline);
}

}  // namespace tidepool::runtime
