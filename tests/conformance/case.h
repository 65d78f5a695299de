#pragma once

#include <initializer_list>
#include <sstream>
#include <string>
#include <vector>

/// A conformance case: one promise of the CUDA documentation, and the code that sees whether a driver keeps
/// it.
///
/// @code
///   CASE("vmm.offset_must_be_zero", "CUDA Driver API, Virtual Memory Management: cuMemMap") {
///     use_device();
///     ...
///     REFUSES(CU(cuMemMap)(base, bytes, bytes, handle, 0), CUDA_ERROR_INVALID_VALUE);
///   }
/// @endcode
///
/// A body runs in a process of its own. It returns if the promise is kept; the first expectation that does
/// not hold, in any thread, ends the process with a verdict.
namespace conformance {

enum Traits : unsigned {
  kPlain = 0,
  kOrder = 1,  ///< depends on the order of work: it is run several times, on a simulated device under several
               ///< seeds
  kAlone = 2,  ///< counts the device's free memory: nothing else may run beside it
  kOnce = 4,   ///< with kOrder: the body starts a second process and can run once only
};

struct Case {
  const char* name;     ///< area.what_is_promised
  const char* section;  ///< page of the documentation and the section that promises it
  unsigned traits;
  void (*body)();
};

/// All cases, by name.
const std::vector<Case>& cases();

/// Runs one case in this process and writes its verdict to the descriptor: "pass", "fail TEXT" or "skip
/// TEXT", a line each; the first line counts. Does not return.
[[noreturn]] void run_case(const Case& chosen, int verdict_fd);

/// Ends the case. Thread-safe, also in a child that the case has forked.
[[noreturn]] void fail(const char* file, int line, const std::string& what);
/// Ends the case without a verdict on the driver: it needs what this machine does not have.
[[noreturn]] void skip(const std::string& why);
/// Says what the driver did where the documentation leaves it open: it stands in the detail of the verdict,
/// whatever that is, and decides nothing. Thread-safe.
void remark(const std::string& what);
/// The same for a call: "CALL gives N". Gives the result on.
template <class R>
R remark_result(R got, const char* call) {
  remark(std::string(call) + " gives " + std::to_string(static_cast<long>(got)));
  return got;
}

bool enroll(const char* name, const char* section, unsigned traits, void (*body)());

void check_result(long got, std::initializer_list<long> wanted, const char* call, const char* wanted_text,
                  const char* file, int line);
/// Any error will do, but "not supported" and those that break the context.
void check_fails(long got, const char* call, const char* file, int line);

template <class A, class B>
void check_equal(const A& got, const B& want, const char* text, const char* file, int line) {
  if (got == want) return;
  std::ostringstream out;
  out << text << " is " << got << ", not " << want;
  fail(file, line, out.str());
}

}  // namespace conformance

#define TP_JOIN_(a, b) a##b
#define TP_JOIN(a, b) TP_JOIN_(a, b)
#define TP_CASE(id, name, section, traits)                               \
  static void TP_JOIN(case_, id)();                                      \
  [[maybe_unused]] static const bool TP_JOIN(enrolled_, id) =            \
      ::conformance::enroll(name, section, traits, &TP_JOIN(case_, id)); \
  static void TP_JOIN(case_, id)()

#define CASE(name, section) TP_CASE(__LINE__, name, section, ::conformance::kPlain)
#define CASE_ORDER(name, section) TP_CASE(__LINE__, name, section, ::conformance::kOrder)
#define CASE_ORDER_ONCE(name, section) \
  TP_CASE(__LINE__, name, section, ::conformance::kOrder | ::conformance::kOnce)
#define CASE_ALONE(name, section) TP_CASE(__LINE__, name, section, ::conformance::kAlone)

/// The call succeeds.
#define OK(call) ::conformance::check_result((call), {0}, #call, "success", __FILE__, __LINE__)
/// The call gives one of these results.
#define REFUSES(call, ...) \
  ::conformance::check_result((call), {__VA_ARGS__}, #call, #__VA_ARGS__, __FILE__, __LINE__)
/// The documentation does not say what the call gives; what it gives is noted.
#define REMARK(call) ::conformance::remark_result((call), #call)
/// The call fails; the documentation does not say with which error.
#define FAILS(call) ::conformance::check_fails((call), #call, __FILE__, __LINE__)
#define EXPECT(condition) \
  ((condition) ? static_cast<void>(0) : ::conformance::fail(__FILE__, __LINE__, "not so: " #condition))
#define EXPECT_EQ(got, want) ::conformance::check_equal((got), (want), #got, __FILE__, __LINE__)
