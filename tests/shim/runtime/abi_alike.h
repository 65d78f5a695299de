#pragma once

#include <type_traits>

namespace tidepool::shim {

/// True if the calling convention makes no difference between the types: pointers, numbers of one size,
/// structures of one size that are copied byte by byte.
template <class Ours, class Theirs>
constexpr bool is_passed_alike() {
  if constexpr (std::is_pointer_v<Theirs>) return std::is_pointer_v<Ours>;
  if constexpr (std::is_class_v<Theirs>) {
    return std::is_class_v<Ours> && std::is_trivially_copyable_v<Ours> && sizeof(Ours) == sizeof(Theirs) &&
           alignof(Ours) == alignof(Theirs);
  }
  const bool is_number = std::is_integral_v<Theirs> || std::is_enum_v<Theirs>;
  return is_number && std::is_integral_v<Ours> && sizeof(Ours) == sizeof(Theirs);
}

/// The same for all arguments and the result of two functions.
template <class Ours, class Theirs>
struct Alike : std::false_type {};
template <class R, class... A, class S, class... B>
requires(sizeof...(A) == sizeof...(B)) struct Alike<R(A...), S(B...)>
    : std::bool_constant<is_passed_alike<R, S>() && (is_passed_alike<A, B>() && ...)> {
};

}  // namespace tidepool::shim
