#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>

namespace tidepool {

/// How many edits still pass as a slip of the pen.
inline constexpr std::size_t kMostEdits = 3;

/// The number of insertions, deletions and replacements of one character, and of swaps of two neighbours,
/// between two words. Words longer than 64 characters are not compared: their distance is 64 to everything.
/// Hook-safe.
constexpr std::size_t edit_distance(std::string_view a, std::string_view b) noexcept {
  constexpr std::size_t kLongest = 64;
  if (a.size() > kLongest || b.size() > kLongest) return kLongest;
  std::size_t rows[3][kLongest + 1] = {};  // of the last characters of `a`, by their number modulo 3
  for (std::size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t* const row = rows[i % 3];
    const std::size_t* const above = rows[(i - 1) % 3];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swap) row[j] = std::min(row[j], rows[(i - 2) % 3][j - 2] + 1);
    }
  }
  return rows[a.size() % 3][b.size()];
}

/// The item whose text, `text_of(item)`, `word` was most likely meant to be: the fewest edits away, at most
/// kMostEdits and a third of the word. Null if none is. Hook-safe.
template <class Items, class TextOf>
constexpr auto* nearest_item(std::string_view word, Items& items, TextOf text_of) noexcept {
  decltype(&*std::begin(items)) nearest = nullptr;
  std::size_t best = std::min(kMostEdits, (word.size() + 1) / 3) + 1;
  for (auto& item : items) {
    const std::size_t distance = edit_distance(word, text_of(item));
    if (distance >= best) continue;
    best = distance;
    nearest = &item;
  }
  return nearest;
}

}  // namespace tidepool
