#pragma once

#include <optional>
#include <utility>
#include <variant>

namespace tidepool {

/// Marks an error value on its way into a Result: `return Err{Status::kOutOfMemory};`.
template <class E>
struct Err {
  E value;
};
template <class E>
Err(E) -> Err<E>;

/// A value or an error, never both. No exception crosses the guest process, so code that runs inside an
/// intercepted call returns this. E is a small copyable type (an enum, a status).
///
/// Hook-safe: allocates nothing itself. Reading the side that is not there is undefined, as with
/// std::expected, which this stands in for until the compilers we support have it.
template <class T, class E>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Result(Err<E> err) : state_(std::in_place_index<1>, std::move(err.value)) {}  // NOLINT

  [[nodiscard]] bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  [[nodiscard]] T& value() & noexcept { return *std::get_if<0>(&state_); }
  [[nodiscard]] const T& value() const& noexcept { return *std::get_if<0>(&state_); }
  [[nodiscard]] T&& value() && noexcept { return std::move(*std::get_if<0>(&state_)); }
  [[nodiscard]] const E& error() const noexcept { return *std::get_if<1>(&state_); }

  T& operator*() & noexcept { return value(); }
  const T& operator*() const& noexcept { return value(); }
  T* operator->() noexcept { return std::get_if<0>(&state_); }
  const T* operator->() const noexcept { return std::get_if<0>(&state_); }

 private:
  std::variant<T, E> state_;
};

/// Success without a value, or an error.
template <class E>
class [[nodiscard]] Result<void, E> {
 public:
  Result() = default;
  Result(Err<E> err) : error_(std::move(err.value)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const noexcept { return !error_.has_value(); }
  explicit operator bool() const noexcept { return ok(); }
  [[nodiscard]] const E& error() const noexcept { return *error_; }

 private:
  std::optional<E> error_;
};

}  // namespace tidepool
