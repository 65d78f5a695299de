#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "tools/probe/child.h"
#include "tools/probe/faults.h"
#include "tools/probe/memory.h"

namespace tidepool::probe {
namespace {

/// A context that work can be done in.
struct Place {
  CUcontext context;
  Kernels kernels;
};

constexpr Word kWritten = 42;

/// Writes and reads a little in the place's context, on a thread of its own that no earlier error clings to.
/// "" or what the driver refused; `seen` is what was read.
std::string try_work_in(const Place& place, Word* seen) {
  std::string problem;
  std::thread([&] {
    try {
      TP_CU(cuCtxSetCurrent, place.context);
      CUdeviceptr at = 0;
      TP_CU(cuMemAlloc_v2, &at, sizeof *seen);
      place.kernels.write_one({}, reinterpret_cast<Word*>(at), kWritten);
      TP_CU(cuMemcpyDtoH_v2, static_cast<void*>(seen), at, sizeof *seen);
      TP_CU(cuMemFree_v2, at);
    } catch (const DriverError& failure) {
      problem = failure.what();
    }
  }).join();
  return problem;
}

/// "" or what went wrong.
std::string work_in(const Place& place) {
  Word seen = 0;
  const std::string problem = try_work_in(place, &seen);
  if (!problem.empty() || seen == kWritten) return problem;
  return "a kernel's word was read as " + std::to_string(seen);
}

Place create_place(CUdevice device) {
  Place place{};
  TP_CU(cuCtxCreate_v2, &place.context, 0U, device);
  place.kernels = load_kernels();
  return place;
}

/// One case from set-up to recovery. Everything is done in the context that will be lost, except what says
/// so.
class FaultRun {
 public:
  FaultRun(const Gpu& gpu, const FaultCase& c, Records& out) : gpu_(gpu), case_(c), out_(out) {}

  void run() {
    Place primary{gpu_.context(), gpu_.kernels()};
    Place created = create_place(gpu_.device());
    Place& lost = case_.own_context ? created : primary;
    Place& other = case_.own_context ? primary : created;
    TP_CU(cuCtxSetCurrent, lost.context);
    for (const Place* place : {&lost, &other}) {
      Word seen = 0;
      const std::string before = try_work_in(*place, &seen);
      if (!before.empty()) return out_.skipped(case_.name, "before the fault: " + before);
      // A driver that computes nothing still answers the rest.
      if (seen != kWritten) answer("kernels_compute", "a kernel's word was read as " + std::to_string(seen));
    }
    const CUresult error = fault(lost);
    if (error == CUDA_SUCCESS) return;
    stickiness(error);
    answer("other_context_works", work_in(other));
    answer_switch(other);
    recover(lost);
    answer("other_context_works_after_recovery", work_in(other));
  }

 private:
  void answer(const std::string& what, const std::string& problem) {
    out_.answer(name(what), {}, problem.empty(), problem);
  }
  [[nodiscard]] std::string name(const std::string& what) const { return case_.name + ("_" + what); }

  /// An address as the case wants it.
  CUdeviceptr bad_address(const Place& place) {
    window_.emplace(gpu_, 3, kGranule);
    if (case_.place == FaultPlace::kUnmapped) return window_->at(1);
    handle_.create(gpu_, kGranule);
    window_->map(0, handle_);
    window_->set_access(0);
    place.kernels.write_one({}, window_->pointer<Word>(), Word{1});
    TP_CU(cuCtxSynchronize);
    if (case_.place == FaultPlace::kPastMapping) return window_->at(1);
    window_->unmap(0);
    return window_->at(0);
  }

  /// Touches it; says which call told first.
  CUresult fault(const Place& place) {
    CUdeviceptr out = 0;
    TP_CU(cuMemAlloc_v2, &out, sizeof(Word));
    CUstream stream = nullptr;
    TP_CU(cuStreamCreate, &stream, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
    auto* at = reinterpret_cast<Word*>(bad_address(place));
    const Launch how{stream};
    CUresult result = CUDA_SUCCESS;
    const char* call = "cuLaunchKernel";
    try {
      if (case_.write) {
        place.kernels.write_one(how, at, Word{1});
      } else {
        place.kernels.read_one(how, at, reinterpret_cast<Word*>(out));
      }
      call = "cuStreamSynchronize";
      result = cu().cuStreamSynchronize(stream);
    } catch (const DriverError& failure) {
      result = failure.result();
    }
    out_.answer(name("error"), {}, result_name(result), std::string("from ") + call);
    return result;
  }

  void stickiness(CUresult error) {
    CUdeviceptr at = 0;
    std::size_t free = 0;
    std::size_t total = 0;
    const std::pair<const char*, CUresult> later[] = {
        {"cuStreamQuery", cu().cuStreamQuery(nullptr)},
        {"cuCtxSynchronize", cu().cuCtxSynchronize()},
        {"cuMemAlloc", cu().cuMemAlloc_v2(&at, kMiB)},
    };
    const CUresult amounts = cu().cuMemGetInfo_v2(&free, &total);
    bool sticky = true;
    std::string detail;
    for (const auto& [call, result] : later) {
      sticky = sticky && result == error;
      detail += (detail.empty() ? "" : "; ") + std::string(call) + ": " + result_name(result);
    }
    // Asking for amounts is no work in the context: what it says decides nothing.
    out_.answer(name("sticky"), {}, sticky, detail + "; cuMemGetInfo: " + result_name(amounts));
  }

  /// Whether the thread that saw the error can go over to the other context and back.
  void answer_switch(const Place& other) {
    CUcontext lost = nullptr;
    (void)cu().cuCtxGetCurrent(&lost);
    const CUresult to_other = cu().cuCtxSetCurrent(other.context);
    out_.answer(name("thread_can_switch_context"), {}, to_other == CUDA_SUCCESS,
                "cuCtxSetCurrent: " + result_name(to_other));
    if (to_other == CUDA_SUCCESS && lost != nullptr) (void)cu().cuCtxSetCurrent(lost);
  }

  /// Gives up the lost context and makes it, or another, anew.
  void recover(const Place& lost) {
    const CUdevice device = gpu_.device();
    out_.answer(name("recovery_begins"), {}, true);  // if nothing follows, the next call did not return
    const CUresult ended =
        case_.own_context ? cu().cuCtxDestroy_v2(lost.context) : cu().cuDevicePrimaryCtxReset_v2(device);
    const char* call = case_.own_context ? "cuCtxDestroy: " : "cuDevicePrimaryCtxReset: ";
    out_.answer(name("lost_context_can_be_ended"), {}, ended == CUDA_SUCCESS, call + result_name(ended));
    std::string problem;
    std::thread([&] {
      try {
        Place anew{};
        if (case_.own_context) {
          anew = create_place(device);
        } else {
          TP_CU(cuDevicePrimaryCtxRetain, &anew.context, device);
          TP_CU(cuCtxSetCurrent, anew.context);
          anew.kernels = load_kernels();
        }
        problem = work_in(anew);
      } catch (const DriverError& failure) {
        problem = failure.what();
      }
    }).join();
    answer("works_again_in_a_new_context", problem);
  }

  const Gpu& gpu_;
  const FaultCase& case_;
  Records& out_;
  Handle handle_;
  std::optional<Window> window_;
};

}  // namespace

/// faults DEVICE CASE: runs one case of kFaultCases and writes its records.
int faults_child(std::span<char* const> words) {
  if (words.size() != 2) return EXIT_FAILURE;
  for (const FaultCase& c : kFaultCases) {
    if (std::string_view(c.name) != words[1]) continue;
    const Gpu gpu(std::atoi(words[0]));
    Records out(stdout, "faults");
    FaultRun(gpu, c, out).run();
    return EXIT_SUCCESS;
  }
  return EXIT_FAILURE;
}

}  // namespace tidepool::probe
