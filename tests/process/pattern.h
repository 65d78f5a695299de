#pragma once

#include <string_view>

namespace tidepool::test {

/// True where `pattern` describes the whole of `text`. In a pattern, `*` is any text within a line (also
/// none), `#` is a number in digits, `%` is one digit, `?` is one letter, digit or underscore, and `@` is a
/// span of time as messages show it (350us, 12ms, 1.2s); any other character is itself.
///
/// Not std::regex: that takes ten seconds to compile under the sanitizers, in each file that uses it.
bool matches(std::string_view text, std::string_view pattern);

}  // namespace tidepool::test
