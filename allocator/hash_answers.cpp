#include "allocator/hash_answers.h"

#include <sys/mman.h>

namespace tidepool::runtime {

HashAnswers::~HashAnswers() {
  if (places_ == nullptr) return;
  // A failure here leaves the page pinned until the process ends; there is nobody left to tell.
  (void)device_.unregister_host(places_);
  ::munmap(places_, kPage);
}

Status HashAnswers::open() noexcept {
  void* page = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return kOutOfMemory;
  (void)::madvise(page, kPage, MADV_DONTFORK);
  Status status = device_.register_host(page, Bytes(kPage));
  if (!status.ok()) status = device_.register_host(page, Bytes(kPage));  // one refusal is survived
  if (!status.ok()) {
    ::munmap(page, kPage);
    return status;
  }
  places_ = static_cast<ContentHash*>(page);
  return kOk;
}

void HashAnswers::abandon() noexcept {
  if (places_ != nullptr) ::munmap(places_, kPage);
  places_ = nullptr;
}

ContentHash* HashAnswers::take() noexcept {
  if (places_ == nullptr) return nullptr;
  for (std::size_t looks = 0; looks < kLooks; ++looks) {
    const std::size_t i = next_;
    next_ = (next_ + 1) % kPlaces;
    if (taken_[i] || !streams_.passed(last_[i])) continue;
    taken_[i] = true;
    return &places_[i];
  }
  return nullptr;
}

void HashAnswers::put(ContentHash* place, Use last) noexcept {
  if (place == nullptr || places_ == nullptr) return;
  const auto i = static_cast<std::size_t>(place - places_);
  last_[i] = last;
  taken_[i] = false;
}

}  // namespace tidepool::runtime
