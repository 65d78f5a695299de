#include "tools/simgpu/driver/host_thread.h"

#include <csignal>
#include <system_error>
#include <thread>
#include <utility>

#include "tools/simgpu/driver/execute.h"

namespace simgpu {

bool HostThread::start() {
  if (started_) return true;
  sigset_t all;
  sigset_t before;
  // Signals are the program's: none of them may end up in this thread, but its own traps.
  ::sigfillset(&all);
  ::sigdelset(&all, SIGSEGV);
  ::sigdelset(&all, SIGBUS);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread([this] { serve(); }).detach();
    started_ = true;
  } catch (const std::system_error&) {
    // No thread is to be had now.
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started_;
}

void HostThread::run(const HostCall& call, std::function<void()> done) {
  job_ = Job{call, std::move(done)};
  if (start()) return handed_over_.notify_one();
  std::unique_lock lock(device_mutex_, std::adopt_lock);
  run_job(lock);
  lock.release();
}

void HostThread::run_job(std::unique_lock<std::mutex>& lock) {
  const HostCall call = job_->call;
  lock.unlock();
  run_host_function(call);
  lock.lock();
  const std::function<void()> done = std::move(job_->done);
  job_.reset();
  ++jobs_;
  done();
  ended_.notify_all();
}

void HostThread::serve() {
  std::unique_lock lock(device_mutex_);
  for (;;) {
    handed_over_.wait(lock, [this] { return job_.has_value(); });
    run_job(lock);
  }
}

void HostThread::wait(std::optional<std::chrono::milliseconds> patience) {
  if (!busy()) return;
  std::unique_lock lock(device_mutex_, std::adopt_lock);
  const auto over = [this, before = jobs_] { return jobs_ != before; };
  if (patience) {
    // The system's clock: ThreadSanitizer knows no wait by another.
    ended_.wait_until(lock, std::chrono::system_clock::now() + *patience, over);
  } else {
    ended_.wait(lock, over);
  }
  lock.release();
}

}  // namespace simgpu
