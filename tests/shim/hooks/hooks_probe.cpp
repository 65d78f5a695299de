// Every hook of hooks.def is called over the recording driver, with a block that was sent away at each place
// where the call can take an address, and is held to what its policy says: work finds the block there
// (kGate), the block stays from then on (kKeep), the driver is asked again once it could be given memory
// (these and kRoom, kTake). The others are held to other_hooks.cpp. Each call is made in a process of its
// own.
//
// And each call that reaches the driver fails once, at the 1st, the 10th and the 100th time: the program is
// told, the next call succeeds, and the block comes and goes as before.
//
//   hooks_probe [NAME]   all hooks, or one

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <set>
#include <string>

#include "tests/shim/hooks/arguments.h"
#include "tests/shim/hooks/other_hooks.h"
#include "tests/shim/hooks/witness.h"
#include "tests/shim/probe.h"

namespace tidepool::test {
namespace {

using shim::Hook;
using shim::Policy;

constexpr std::size_t kBlock = 4 * kMiB;

struct Row {
  const char* name;
  Policy policy;
  CUresult (*call)(Arguments& arguments);
};

template <Hook H>
CUresult call_hook(Arguments& arguments) {
  using Function = std::remove_pointer_t<typename HookType<H>::Function>;
  Function* const hook = find<Function>(HookType<H>::kName);
  EXPECT(is_hook(reinterpret_cast<void*>(hook)));
  return arguments.call(hook);
}

constexpr Row kRows[] = {
#define TP_ROW(name, policy) {#name, Policy::policy, &call_hook<Hook::name>},
#define TP_HOOK(name, policy) TP_ROW(name, policy)
#define TP_HOOK_PTSZ(name, policy) TP_ROW(name, policy) TP_ROW(name##_ptsz, policy)
#define TP_HOOK_PTDS(name, policy) TP_ROW(name, policy) TP_ROW(name##_ptds, policy)
#include "shim/hooks.def"
#undef TP_HOOK
#undef TP_HOOK_PTSZ
#undef TP_HOOK_PTDS
#undef TP_ROW
};

/// Which devices the program uses, and on which the work is that the hook is called for. The blocks are on
/// the first.
enum class Work { kOneDevice, kTwoDevices, kOnTheOther };

/// A program with more blocks than fit.
class Program {
 public:
  explicit Program(Work work = Work::kOneDevice) {
    Witness& witness = Witness::instance();
    home_ = objects_.context = start();
    stream_ = objects_.stream = make_stream();
    CUmodule module = nullptr;
    EXPECT(DRIVER(cuModuleLoadData)(&module, "") == CUDA_SUCCESS);
    EXPECT(DRIVER(cuModuleGetFunction)(&objects_.function, module, "kernel") == CUDA_SUCCESS);
    CUlibrary library = nullptr;
    EXPECT(DRIVER(cuLibraryLoadData)(&library, "", nullptr, nullptr, 0, nullptr, nullptr, 0) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuLibraryGetKernel)(&objects_.kernel, library, "kernel") == CUDA_SUCCESS);
    block_ = allocate();
    use(block_);
    for (CUdeviceptr& other : others_) other = allocate();
    if (work != Work::kOneDevice) use_second_device(work == Work::kOnTheOther);
    witness.set_program_stream(objects_.stream);
  }

  [[nodiscard]] const Objects& objects() const { return objects_; }
  [[nodiscard]] Block block() const { return {block_, kBlock}; }
  [[nodiscard]] bool is_there() const { return Witness::instance().is_mapped(block_, kBlock); }

  /// Uses the other blocks until the one has left, or would have if it could.
  void push_out() {
    for (int round = 0; round < 3; ++round) {
      for (const CUdeviceptr other : others_) use(other);
    }
  }
  /// All that is left fits.
  void shrink() {
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT(DRIVER(cuMemFree_v2)(std::exchange(others_[i], 0)) == CUDA_SUCCESS);
  }
  void grow() {
    for (CUdeviceptr& other : others_) {
      if (other == 0) other = allocate();
    }
  }

 private:
  static CUstream make_stream() {
    CUstream stream = nullptr;
    EXPECT(DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    return stream;
  }
  static CUdeviceptr allocate_here() {
    CUdeviceptr at = 0;
    EXPECT(DRIVER(cuMemAlloc_v2)(&at, kBlock) == CUDA_SUCCESS);
    return at;
  }
  CUdeviceptr allocate() const {
    CUcontext before = nullptr;
    EXPECT(DRIVER(cuCtxGetCurrent)(&before) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuCtxSetCurrent)(home_) == CUDA_SUCCESS);
    const CUdeviceptr at = allocate_here();
    EXPECT(DRIVER(cuCtxSetCurrent)(before) == CUDA_SUCCESS);
    return at;
  }
  void use(CUdeviceptr at) const { EXPECT(DRIVER(cuMemsetD8Async)(at, 1, kBlock, stream_) == CUDA_SUCCESS); }
  void use_second_device(bool for_work) {
    CUcontext other = nullptr;
    EXPECT(DRIVER(cuDevicePrimaryCtxRetain)(&other, 1) == CUDA_SUCCESS && other != home_);
    EXPECT(DRIVER(cuCtxSetCurrent)(other) == CUDA_SUCCESS);
    const CUstream stream = make_stream();
    const CUdeviceptr block = allocate_here();
    EXPECT(DRIVER(cuMemsetD8Async)(block, 1, kBlock, stream) == CUDA_SUCCESS);
    int device = -1;
    EXPECT(DRIVER(cuPointerGetAttribute)(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, block) ==
           CUDA_SUCCESS);
    EXPECT(device == 1);  // managed: this driver does not say
    if (for_work) {
      objects_.context = other;
      objects_.stream = stream;
    } else {
      EXPECT(DRIVER(cuCtxSetCurrent)(home_) == CUDA_SUCCESS);
    }
  }

  CUcontext home_ = nullptr;
  CUstream stream_ = nullptr;  // of the first device
  Objects objects_{};
  CUdeviceptr block_ = 0;
  std::array<CUdeviceptr, 5> others_{};
};

// The entries of CUDA 3 say nothing of what they launch: everything has to be there.
bool names_anything(std::string_view hook) {
  return hook == "cuLaunch" || hook == "cuLaunchGrid" || hook == "cuLaunchGridAsync";
}

bool names_memory(const Row& row) {
  return row.policy == Policy::kGate || row.policy == Policy::kKeep;
}

/// Does the memory at that place of the arguments stay afterwards?
bool stays(const Row& row, int place) {
  // The word that is stored: it names the block from then on, as a table does.
  const bool is_stored = place == 1 && std::string_view(row.name).starts_with("cuStreamBatchMemOp");
  return row.policy == Policy::kKeep || is_stored;
}

void expect_let_through(const Row& row, int place, Work work) {
  Program program(work);
  program.push_out();
  EXPECT(!program.is_there());
  if (names_anything(row.name)) program.shrink();
  Witness& witness = Witness::instance();
  witness.watch(row.name, program.block().at, kBlock);
  Arguments arguments(row.name, program.objects(), program.block().at, place);
  EXPECT(row.call(arguments) == CUDA_SUCCESS);
  EXPECT(witness.calls() == 1 && witness.was_mapped());
  if (names_anything(row.name)) program.grow();
  program.push_out();
  EXPECT(program.is_there() == stays(row, place));
}

// `address`: the block at the first place, or none at any.
void expect_room(const Row& row, Work work, bool has_address) {
  Program program(work);
  program.push_out();
  if (names_anything(row.name)) program.shrink();
  Witness& witness = Witness::instance();
  const bool is_watched = has_address && !names_anything(row.name);
  witness.watch(row.name, program.block().at, is_watched ? kBlock : 0, CUDA_ERROR_OUT_OF_MEMORY);
  Arguments arguments(row.name, program.objects(), has_address ? program.block().at : 0,
                      has_address ? 0 : -1);
  EXPECT(row.call(arguments) == CUDA_SUCCESS);
  EXPECT(witness.calls() == 2 && witness.returns() > 0);
  EXPECT(!is_watched || witness.was_mapped());
}

bool gives_room(const Row& row) {
  return names_memory(row) || row.policy == Policy::kRoom || row.policy == Policy::kTake;
}

void expect_passed(const Row& row) {
  Program program;
  Witness& witness = Witness::instance();
  witness.watch(row.name, 0, 0, CUDA_ERROR_UNKNOWN);
  Arguments fails(row.name, program.objects(), 0, -1);
  EXPECT(row.call(fails) == CUDA_ERROR_UNKNOWN);
  EXPECT(witness.calls() == 1);
  witness.watch(row.name, 0, 0);
  Arguments succeeds(row.name, program.objects(), 0, -1);
  EXPECT(row.call(succeeds) == CUDA_SUCCESS);
  EXPECT(witness.calls() == 1);
}

/// The nth of many calls fails.
void expect_told(const Row& row, int nth) {
  Program program;
  program.push_out();
  if (names_anything(row.name)) program.shrink();
  Witness& witness = Witness::instance();
  const bool names_block = names_memory(row);
  witness.watch(row.name, program.block().at, names_block ? kBlock : 0, CUDA_ERROR_UNKNOWN, nth);
  for (int i = 1; i <= nth + 1; ++i) {
    Arguments arguments(row.name, program.objects(), names_block ? program.block().at : 0, 0);
    EXPECT(row.call(arguments) == (i == nth ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS));
  }
  EXPECT(witness.calls() == nth + 1 && (!names_block || witness.was_mapped()));
  if (names_anything(row.name)) program.grow();
  program.push_out();
  if (names_block) EXPECT(program.is_there() == stays(row, 0));
}

void expect_refused(const Row& row) {
  Program program;
  program.push_out();
  Witness& witness = Witness::instance();
  witness.watch(row.name, 0, 0);
  Arguments arguments(row.name, program.objects(), program.block().at, 0);
  EXPECT(row.call(arguments) == CUDA_ERROR_INVALID_VALUE);
  EXPECT(witness.calls() == 0 && !program.is_there());
}

void expect_other(const Row& row) {
  Program program;
  program.push_out();
  expect_special(row.name, program.objects(), program.block());
}

/// At how many places the call can take an address. Calls nothing managed, and leaves no trace behind: it has
/// a process of its own.
int places_of(const Row& row) {
  if (names_anything(row.name)) return 0;
  int ends[2];
  EXPECT(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    Program program;
    Arguments arguments(row.name, program.objects(), 0, -1);
    (void)row.call(arguments);
    const int places = arguments.places();
    _exit(write(ends[1], &places, sizeof places) == sizeof places ? 0 : 1);
  }
  (void)close(ends[1]);
  int places = -1;
  if (read(ends[0], &places, sizeof places) != sizeof places) places = -1;
  (void)close(ends[0]);
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child);
  return status == 0 ? places : -1;
}

void expect(const Row& row, int place, Work work) {
  if (names_memory(row)) return expect_let_through(row, place, work);
  switch (treatment_of(row.name)) {
    case Treatment::kPassed:
      return expect_passed(row);
    case Treatment::kRefused:
      return expect_refused(row);
    case Treatment::kSpecial:
      return expect_other(row);
    case Treatment::kUnknown:
      break;
  }
  std::fprintf(stderr, "nothing says what to expect of it: add it to other_hooks.cpp\n");
  _exit(1);
}

/// In a process of its own: its wait status, 0 if it did as expected.
template <class Body>
int status_of(Body&& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    body();
    _exit(0);
  }
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child);
  return status;
}

bool does_as_expected(const Row& row, int place, Work work) {
  const int status = status_of([&] {
    if (!gives_room(row) || names_memory(row)) expect(row, place, work);
  });
  if (status != 0)
    std::fprintf(stderr, "%s, place %d, work %d: status %x\n", row.name, place, static_cast<int>(work),
                 status);
  return status == 0;
}

bool has_room(const Row& row, Work work, bool has_address) {
  const int status = status_of([&] { expect_room(row, work, has_address); });
  if (status != 0)
    std::fprintf(stderr, "%s, out of memory, work %d, %s address: status %x\n", row.name,
                 static_cast<int>(work), has_address ? "with" : "without", status);
  return status == 0;
}

bool is_told(const Row& row, int nth) {
  const int status = status_of([&] { expect_told(row, nth); });
  if (status != 0) std::fprintf(stderr, "%s, failing at call %d: status %x\n", row.name, nth, status);
  return status == 0;
}

/// True for what the driver is asked each time, whatever Tidepool makes of it.
bool reaches_the_driver(const Row& row) {
  return gives_room(row) || treatment_of(row.name) == Treatment::kPassed;
}

int run(std::string_view only) {
  int calls = 0;
  int failures = 0;
  std::set<std::string_view> others;
  for (const Row& row : kRows) {
    if (!only.empty() && row.name != only) continue;
    const int places = names_memory(row) ? places_of(row) : 1;
    if (places < 0 || (places == 0 && !names_anything(row.name))) {
      std::fprintf(stderr, "%s: %s\n", row.name, places < 0 ? "failed" : "takes no address that we know of");
      ++failures;
    }
    for (int place = 0; place < std::max(places, 1); ++place) {
      for (Work work : {Work::kOneDevice, Work::kTwoDevices, Work::kOnTheOther}) {
        if (work != Work::kOneDevice && !names_memory(row)) continue;
        failures += does_as_expected(row, place, work) ? 0 : 1;
        ++calls;
      }
    }
    for (const Work work : {Work::kOneDevice, Work::kTwoDevices, Work::kOnTheOther}) {
      for (const bool has_address : {false, true}) {
        const bool is_meant =
            has_address || work == Work::kOneDevice ? names_memory(row) || !has_address : false;
        if (!gives_room(row) || !is_meant) continue;
        failures += has_room(row, work, has_address) ? 0 : 1;
        ++calls;
      }
    }
    for (const int nth : {1, 10, 100}) {
      if (!reaches_the_driver(row)) continue;
      failures += is_told(row, nth) ? 0 : 1;
      ++calls;
    }
    if (treatment_of(row.name) != Treatment::kUnknown) {
      std::string_view base = row.name;
      if (base.ends_with("_ptsz")) base.remove_suffix(5);
      others.insert(base);
    }
  }
  if (only.empty() && others.size() != treatments()) {
    std::fprintf(stderr, "other_hooks.cpp names hooks that are none, or that their policy speaks for\n");
    ++failures;
  }
  std::printf("%d calls, %d failures\n", calls, failures);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tidepool::test

int main(int argc, char** argv) {
  return tidepool::test::run(argc > 1 ? argv[1] : "");
}
