#include "allocator/swap_engine.h"

#include <algorithm>

#include "allocator/support/events.h"
#include "allocator/support/stats_page.h"

namespace tidepool::runtime {

Status SwapEngine::open() noexcept {
  std::array<Stream**, kLanes + 1> streams{&in_};
  for (Lane lane = 0; lane < kLanes; ++lane) streams[lane + 1] = &out_[lane].stream;
  for (Stream** stream : streams) {
    const DeviceResult<StreamHandle> handle = device_.create_stream();
    if (!handle.ok()) return handle.error();
    *stream = streams_.find(*handle);
    if (*stream == nullptr) return kOutOfMemory;
  }
  return kOk;
}

SwapEngine::Lane SwapEngine::lane_for(const Block& block) noexcept {
  if (block.used_widely.load(std::memory_order_acquire)) return kReady;  // the device is waited for
  UserStreams users{};
  for (std::size_t i = 0; i < users.size(); ++i) {
    const Use use = Use::from_raw(block.uses[i].load(std::memory_order_acquire));
    if (!streams_.passed(use)) users[i] = use.stream();
  }
  if (users == UserStreams{}) return kReady;
  std::sort(users.begin(), users.end());
  Lane unused = kNone;
  for (Lane lane = kReady + 1; lane < kLanes; ++lane) {
    if (streams_.passed(out_[lane].last)) {
      unused = lane;
    } else if (out_[lane].after == users) {
      return lane;
    }
  }
  if (unused != kNone) out_[unused].after = users;
  return unused;
}

template <class Copy>
Status SwapEngine::for_each_piece(const Block& block, const HostSlot& slot, Copy&& copy) noexcept {
  // The program cannot have bytes behind what it asked for, so the last granule's rest does not travel.
  Bytes left = block.requested();
  DevicePtr at = block.base;
  for (const HostRun& run : slot) {
    for (Bytes done; done < run.size && left > Bytes();) {
      const Bytes piece = std::min({kPiece, run.size - done, left});
      if (const Status status = copy(at, run.base + done.count(), piece); !status.ok()) return status;
      at = at + piece;
      done += piece;
      left -= piece;
    }
  }
  return kOk;
}

DeviceResult<Use> SwapEngine::copy_out(const Block& block, const HostSlot& slot, Lane lane,
                                       Use* started) noexcept {
  const DeviceResult<Use> copied = to_host(block, slot, *out_[lane].stream, started);
  if (*started) out_[lane].last = *started;
  if (!copied.ok()) return copied;
  StatsPage::instance().add(Metric::swap_out_total, 1);
  StatsPage::instance().add(Metric::swap_out_bytes_total, block.requested().count());
  emit<Ev::block_out>(block.base.address(), block.requested());
  return copied;
}

DeviceResult<Use> SwapEngine::to_host(const Block& block, const HostSlot& slot, Stream& stream,
                                      Use* started) noexcept {
  const Status status = for_each_piece(block, slot, [&](DevicePtr at, std::byte* host, Bytes size) {
    const Status copied = device_.copy_to_host(host, at, size, stream.handle());
    if (copied.ok()) *started = stream.draw();
    return copied;
  });
  if (!status.ok()) return Err{status};
  if (const Status marked = streams_.mark(stream); !marked.ok()) return Err{marked};
  return *started;
}

DeviceResult<Use> SwapEngine::copy_in(Block& block, const HostSlot& slot, Use* started) noexcept {
  const Status status = for_each_piece(block, slot, [&](DevicePtr at, std::byte* host, Bytes size) {
    const Status copied = device_.copy_to_device(at, host, size, in_->handle());
    if (copied.ok()) *started = in_->draw();
    return copied;
  });
  if (!status.ok()) return Err{status};
  if (const Status marked = streams_.mark(*in_); !marked.ok()) return Err{marked};
  StatsPage::instance().add(Metric::swap_in_total, 1);
  StatsPage::instance().add(Metric::swap_in_bytes_total, block.requested().count());
  emit<Ev::block_in>(block.base.address(), block.requested());
  return *started;
}

}  // namespace tidepool::runtime
