#include <array>
#include <charconv>
#include <initializer_list>

#include "allocator/support/edit_distance.h"
#include "tools/simgpu/digest/role_file.h"

namespace simgpu::digest {
namespace {

constexpr std::string_view kHeader = "simgpu-roles 1";
constexpr std::uint32_t kMaxParams = 4096;
constexpr std::uint32_t kMaxParamBytes = 32764;  ///< the most that a launch can carry
constexpr std::uint32_t kMaxCount = 1 << 20;

using Words = std::vector<std::string_view>;

Words split(std::string_view line) {
  Words words;
  for (std::size_t i = 0; i < line.size();) {
    if (line[i] == ' ' || line[i] == '\t') {
      ++i;
      continue;
    }
    const std::size_t end = std::min(line.find_first_of(" \t", i), line.size());
    words.push_back(line.substr(i, end - i));
    i = end;
  }
  return words;
}

/// Reads one file line by line; the first error ends it.
class Parser {
 public:
  explicit Parser(const std::string& name) : name_(name) {}

  ParsedRoles parse(std::string_view text) {
    bool header = false;
    while (!text.empty() && out_.error.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      ++number_;
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      const Words words = split(line);
      if (words.empty() || words[0][0] == '#') continue;
      if (!header) {
        if (line != kHeader) fail("the first line must be '" + std::string(kHeader) + "'");
        header = true;
      } else if (words[0] == "kernel") {
        start_rule(line, words);
      } else if (out_.file.rules.empty()) {
        fail("'" + std::string(words[0]) + "' before any kernel; start with 'kernel PATTERN'");
      } else {
        statement(words, &out_.file.rules.back());
      }
    }
    if (out_.error.empty() && !header) fail("empty; the first line must be '" + std::string(kHeader) + "'");
    if (!out_.error.empty()) out_.file.rules.clear();
    return std::move(out_);
  }

 private:
  void fail(const std::string& what) {
    if (out_.error.empty()) out_.error = name_ + ":" + std::to_string(number_) + ": " + what;
  }

  /// For a word that is none of those that may stand here.
  void unknown(std::string_view word, std::initializer_list<std::string_view> choices) {
    std::string text = "'" + std::string(word) + "' where one of";
    const char* separator = " ";
    for (const std::string_view choice : choices) {
      text += separator + std::string(choice);
      separator = ", ";
    }
    text += " is wanted";
    const std::string_view* const near =
        tidepool::nearest_item(word, choices, [](std::string_view c) { return c; });
    if (near != nullptr) text += " (did you mean '" + std::string(*near) + "'?)";
    fail(text);
  }

  void start_rule(std::string_view line, const Words& words) {
    if (words.size() < 2) return fail("'kernel' needs a pattern, as in 'kernel *softmax_warp_forward<*'");
    // Names have spaces and '#' in them: all that follows is the pattern.
    const auto start = static_cast<std::size_t>(words[1].data() - line.data());
    Rule rule;
    rule.pattern = line.substr(start, line.find_last_not_of(" \t") + 1 - start);
    rule.line = number_;
    out_.file.rules.push_back(std::move(rule));
  }

  std::uint32_t read_number(std::string_view word, std::uint32_t limit, const char* what) {
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc{} || end != word.data() + word.size() || value > limit) {
      fail("'" + std::string(word) + "' where " + what + " from 0 to " + std::to_string(limit) +
           " is wanted");
      return 0;
    }
    return value;
  }

  Place read_place(std::string_view word, bool* whole = nullptr) {
    const std::size_t at = word.find('@');
    if (whole != nullptr) *whole = at == std::string_view::npos;
    Place place;
    place.param = read_number(word.substr(0, at), kMaxParams, "a parameter's number");
    if (at != std::string_view::npos) {
      word.remove_prefix(at + 1);
      place.from_end = word.starts_with('-');
      if (place.from_end) word.remove_prefix(1);
      place.offset = read_number(word, kMaxParamBytes, "a byte's offset in the parameter");
    }
    return place;
  }

  Access read_role(std::string_view word) {
    if (word == "in") return Access::kIn;
    if (word == "out") return Access::kOut;
    if (word == "inout") return Access::kInOut;
    if (word != "none") unknown(word, {"in", "out", "inout", "none"});
    return Access::kNone;
  }

  Count read_count(std::string_view word) {
    struct Named {
      std::string_view name;
      Count::Kind kind;
    };
    constexpr std::array<Named, 4> kPlain = {{{"grid.x", Count::Kind::kGridX},
                                              {"grid.y", Count::Kind::kGridY},
                                              {"grid.z", Count::Kind::kGridZ},
                                              {"all", Count::Kind::kAll}}};
    constexpr std::array<Named, 4> kPlaced = {{{"u32", Count::Kind::kU32},
                                               {"u64", Count::Kind::kU64},
                                               {"max8", Count::Kind::kMax8},
                                               {"max16", Count::Kind::kMax16}}};
    Count count;
    for (const Named& named : kPlain) {
      count.kind = named.kind;
      if (word == named.name) return count;
    }
    const std::size_t colon = word.find(':');
    if (colon != std::string_view::npos) {
      for (const Named& named : kPlaced) {
        if (word.substr(0, colon) != named.name) continue;
        count.kind = named.kind;
        count.place = read_place(word.substr(colon + 1));
        return count;
      }
    }
    if (word.empty() || word[0] < '0' || word[0] > '9') {
      unknown(word, {"NUMBER", "all", "grid.x", "grid.y", "grid.z", "u32:N@BYTE", "u64:N@BYTE", "max8:N@BYTE",
                     "max16:N@BYTE"});
    }
    count.kind = Count::Kind::kNumber;
    count.number = read_number(word, kMaxCount, "a count");
    return count;
  }

  /// True if the statement has `n` words; says how it is written if not.
  bool shaped(const Words& words, std::size_t n, const char* form) {
    if (words.size() == n) return true;
    fail(std::string("'") + std::string(words[0]) + "' is written '" + form + "'");
    return false;
  }

  void keep(RoleLine line, Rule* rule) const {
    line.line = number_;
    rule->lines.push_back(std::move(line));
  }

  void param_statement(const Words& words, Rule* rule) {
    if (words.size() < 3)
      return fail("'param' is written 'param N ROLE...' or 'param N@BYTE words COUNT ROLE'");
    RoleLine line;
    bool whole = false;
    line.place = read_place(words[1], &whole);
    std::size_t next = 2;
    if (words[2] == "words") {
      if (!shaped(words, 5, "param N@BYTE words COUNT ROLE")) return;
      line.kind = RoleLine::Kind::kWords;
      line.count = read_count(words[3]);
      next = 4;
    } else if (!whole) {
      if (!shaped(words, 3, "param N@BYTE ROLE")) return;
      line.kind = RoleLine::Kind::kWords;
      line.count.number = 1;
    }
    for (; next < words.size(); ++next) line.roles.push_back(read_role(words[next]));
    keep(std::move(line), rule);
  }

  void lists_statement(const Words& words, Rule* rule) {
    if (words.size() < 4) return fail("'tensor-lists' is written 'tensor-lists N DEPTH ROLE...'");
    RoleLine line;
    line.kind = RoleLine::Kind::kTensorLists;
    line.place.param = read_number(words[1], kMaxParams, "a parameter's number");
    line.count.number = read_number(words[2], 5, "a depth");
    for (std::size_t i = 3; i < words.size(); ++i) line.roles.push_back(read_role(words[i]));
    keep(std::move(line), rule);
  }

  void table_statement(const Words& words, Rule* rule) {
    if (!shaped(words, 4, "table N@BYTE COUNT ROLE")) return;
    RoleLine line;
    line.kind = RoleLine::Kind::kTable;
    line.place = read_place(words[1]);
    line.count = read_count(words[2]);
    line.roles.push_back(read_role(words[3]));
    keep(std::move(line), rule);
  }

  void value_statement(const Words& words, Rule* rule) {
    RoleLine line;
    line.kind = RoleLine::Kind::kValue;
    if (words.size() == 3) {
      line.bytes = read_number(words[2], kMaxParamBytes, "a number of bytes");
      if (line.bytes == 0) fail("a value of 0 bytes; leave it out");
    } else if (!shaped(words, 2, "value N or value N@BYTE BYTES")) {
      return;
    }
    bool whole = false;
    line.place = read_place(words[1], &whole);
    if (!whole && words.size() == 2) fail("'value N@BYTE' needs the number of bytes behind it");
    keep(std::move(line), rule);
  }

  void addresses_statement(const Words& words, Rule* rule) {
    constexpr const char* kForm = "addresses N@BYTE from N@BYTE step N@BYTE";
    if (!shaped(words, 6, kForm)) return;
    if (words[2] != "from" || words[4] != "step") return fail(std::string("written '") + kForm + "'");
    RoleLine line;
    line.kind = RoleLine::Kind::kAddresses;
    line.place = read_place(words[1]);
    line.from = read_place(words[3]);
    line.step = read_place(words[5]);
    line.roles.push_back(Access::kOut);
    keep(std::move(line), rule);
  }

  void when_statement(const Words& words, Rule* rule) {
    if (words.size() == 4 && words[1] == "size") {
      rule->sizes.push_back({read_number(words[2], kMaxParams, "a parameter's number"),
                             read_number(words[3], kMaxParamBytes, "a number of bytes")});
    } else if (words.size() == 3 && words[1] == "params") {
      rule->param_count = read_number(words[2], kMaxParams, "a number of parameters");
    } else {
      fail("'when' is written 'when size N BYTES' or 'when params COUNT'");
    }
  }

  void statement(const Words& words, Rule* rule) {
    const std::string_view verb = words[0];
    if (verb == "param") return param_statement(words, rule);
    if (verb == "tensor-lists") return lists_statement(words, rule);
    if (verb == "table") return table_statement(words, rule);
    if (verb == "value") return value_statement(words, rule);
    if (verb == "addresses") return addresses_statement(words, rule);
    if (verb == "when") return when_statement(words, rule);
    if (verb == "other") {
      if (shaped(words, 2, "other ROLE")) rule->other = read_role(words[1]);
    } else if (verb == "mutable") {
      if (shaped(words, 2, "mutable ROLE")) rule->mutable_means = read_role(words[1]);
    } else if (verb == "packed") {
      if (shaped(words, 1, "packed")) rule->packed = true;
    } else if (verb == "needs-body") {
      if (shaped(words, 1, "needs-body")) rule->needs_body = true;
    } else {
      unknown(verb, {"kernel", "param", "tensor-lists", "table", "value", "addresses", "when", "other",
                     "mutable", "packed", "needs-body"});
    }
  }

  const std::string& name_;
  std::uint32_t number_ = 0;
  ParsedRoles out_;
};

}  // namespace

ParsedRoles parse_roles(std::string_view text, const std::string& name) {
  return Parser(name).parse(text);
}

}  // namespace simgpu::digest
