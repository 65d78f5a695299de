#pragma once

#include <type_traits>

namespace tidepool::shim {

/// A function that outlives the call it is given to. Not for keeping.
template <class Signature>
class FunctionRef;
template <class Result, class... A>
class FunctionRef<Result(A...)> {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): as a lambda is given to a template
  template <class F>
  requires(!std::is_same_v<std::remove_const_t<F>, FunctionRef>) FunctionRef(F& function)
  noexcept
      : object_(&function), call_([](const void* object, A... args) -> Result {
          return (*static_cast<F*>(const_cast<void*>(object)))(args...);
        }) {}
  Result operator()(A... args) const { return call_(object_, args...); }

 private:
  const void* object_;
  Result (*call_)(const void* object, A... args);
};

}  // namespace tidepool::shim
