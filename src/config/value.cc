// Turns YAML, or text of a command line, into a checked value of a key.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "config/settings.h"

namespace moesh::config {
namespace {

bool is_null_word(std::string_view text) {
  const std::string word = lower(text);
  return word.empty() || word == "null" || word == "none" || word == "~";
}

// MaxText takes None for these too, and does then what their defaults say. A key whose default is null is not among them.
constexpr std::array<std::string_view, 6> kNullIsDefault{"attn_logits_soft_cap",        "final_logits_soft_cap",
                                                         "experimental_sa_quant_q_fp8", "experimental_sa_quant_k_fp8",
                                                         "remat_policy",                "use_grpo"};
bool takes_null_as_default(const Key& key) {
  return std::find(kNullIsDefault.begin(), kNullIsDefault.end(), key.name) != kNullIsDefault.end();
}

// Whether the empty word is one of the key's choices, and no null.
bool has_empty_choice(const Key& key) { return key.name == "remat_policy"; }

std::optional<bool> parse_boolean(std::string_view text) {
  constexpr std::array<std::string_view, 4> kTrue{"true", "yes", "on", "1"};
  constexpr std::array<std::string_view, 4> kFalse{"false", "no", "off", "0"};
  const std::string word = lower(text);
  if (std::find(kTrue.begin(), kTrue.end(), word) != kTrue.end()) return true;
  if (std::find(kFalse.begin(), kFalse.end(), word) != kFalse.end()) return false;
  return std::nullopt;
}

// 1e6 and 4.0 are integers to the user who types them.
std::optional<std::int64_t> parse_integral(std::string_view text) {
  if (const auto integer = parse_integer(text)) return integer;
  const auto real = parse_real(text);
  if (!real || std::trunc(*real) != *real || std::abs(*real) > 9e15) return std::nullopt;
  return static_cast<std::int64_t>(*real);
}

[[noreturn]] void refuse_value(const Key& key, std::string_view text, const std::string& expected,
                               const std::string& where, std::string fix = {}) {
  refuse(fmt::format("{} is '{}', {} was expected", key.name, shorten(text, 60), expected), where, std::move(fix));
}

struct Bounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool below_high = false;  // `high` itself is out of range

  bool hold(double value) const { return value >= low && (below_high ? value < high : value <= high); }
};

Bounds bounds_of(const Key& key) {
  Bounds bounds;
  const std::size_t dots = key.range.find("..");
  if (dots == std::string_view::npos) return bounds;
  if (const auto low = parse_real(key.range.substr(0, dots))) bounds.low = *low;
  bounds.below_high = key.range.substr(dots + 2).starts_with('<');
  if (const auto high = parse_real(key.range.substr(dots + (bounds.below_high ? 3 : 2)))) bounds.high = *high;
  return bounds;
}

std::string describe_range(const Key& key) {
  const std::size_t dots = key.range.find("..");
  const std::string_view low = key.range.substr(0, dots);
  const std::string_view high = key.range.substr(dots + 2);
  if (high.empty()) return fmt::format("{} of at least {}", name_of(key.kind), low);
  if (high.starts_with('<')) return fmt::format("{} from {} to below {}", name_of(key.kind), low, high.substr(1));
  if (low.empty()) return fmt::format("{} of at most {}", name_of(key.kind), high);
  return fmt::format("{} from {} to {}", name_of(key.kind), low, high);
}

void check_range(const Key& key, double value, std::string_view text, const std::string& where) {
  if (!bounds_of(key).hold(value)) refuse_value(key, text, describe_range(key), where);
}

std::string read_choice(const Key& key, const std::string& text, const std::string& where) {
  std::vector<std::string> offered;
  for (const Choice& choice : choices(key)) {
    const bool meant = choice.word == text || (!choice.word.empty() && lower(choice.word) == lower(text));
    if (meant) return std::string(choice.word);
    if (!choice.refused) offered.push_back(choice.word.empty() ? "''" : std::string(choice.word));
  }
  const std::vector<std::string> close = nearest(text, offered, 1);
  refuse_value(key, text, "one of " + join(offered, ", "), where,
               close.empty() ? "" : fmt::format("{}={}", key.name, close.front()));
}

void check_leading_zeros(const Key& key, std::string_view text, const std::string& where) {
  if (has_leading_zeros(text)) refuse_value(key, text, std::string(kWithoutLeadingZeros), where, std::string(kOctal));
}

Value read_scalar(const Key& key, const std::string& text, const std::string& where) {
  switch (key.kind) {
    case Kind::boolean: {
      const auto value = parse_boolean(text);
      if (!value) refuse_value(key, text, "true or false", where);
      return *value;
    }
    case Kind::integer: {
      check_leading_zeros(key, text, where);
      const auto value = parse_integral(text);
      if (!value) refuse_value(key, text, "an integer", where);
      check_range(key, static_cast<double>(*value), text, where);
      return *value;
    }
    case Kind::real: {
      check_leading_zeros(key, text, where);
      const auto value = parse_real(text);
      if (!value) refuse_value(key, text, "a finite number", where);
      check_range(key, *value, text, where);
      return *value;
    }
    case Kind::choice: return read_choice(key, text, where);
    default: return text;
  }
}

// ['a', 'b'], or a single word for a list of one.
std::vector<std::string> read_words(const Key& key, const YamlNode& node) {
  if (node.type == YamlNode::Type::scalar) return {node.scalar};
  if (node.type != YamlNode::Type::sequence) refuse_value(key, "a mapping", "a list of words", node.where);
  std::vector<std::string> words;
  for (const YamlNode& item : node.items) {
    if (item.type == YamlNode::Type::sequence) {
      for (std::string& word : read_words(key, item)) words.push_back(std::move(word));
    } else if (item.type == YamlNode::Type::scalar) {
      words.push_back(item.scalar);
    } else {
      refuse(fmt::format("{} holds something that is no word", key.name), item.where);
    }
  }
  return words;
}

constexpr std::size_t kMostAxesOfARule = 64;

AxisRule read_rule(const Key& key, const YamlNode& node) {
  const bool is_pair = node.type == YamlNode::Type::sequence && node.items.size() == 2 &&
                       node.items[0].type == YamlNode::Type::scalar;
  if (!is_pair) refuse(fmt::format("{} holds an entry that is not [label, [axis, ...]]", key.name), node.where);
  AxisRule rule{node.items[0].scalar, {}, node.where};
  if (rule.label.empty()) refuse(fmt::format("{} holds a rule without a label", key.name), node.where);
  const YamlNode& axes = node.items[1];
  if (axes.type != YamlNode::Type::null && !(axes.type == YamlNode::Type::scalar && is_null_word(axes.scalar))) {
    rule.axes = read_words(key, axes);
  }
  const std::string label = shorten(rule.label, 80);
  if (rule.axes.size() > kMostAxesOfARule) {
    refuse(fmt::format("rule '{}' names {} axes, at most {} are held", label, rule.axes.size(), kMostAxesOfARule),
           node.where);
  }
  for (std::size_t i = 0; i < rule.axes.size(); ++i) {
    if (rule.axes[i].empty()) refuse(fmt::format("rule '{}' names an empty axis", label), node.where);
    if (std::find(rule.axes.begin(), rule.axes.begin() + static_cast<std::ptrdiff_t>(i), rule.axes[i]) !=
        rule.axes.begin() + static_cast<std::ptrdiff_t>(i)) {
      refuse(fmt::format("rule '{}' names axis '{}' twice", label, shorten(rule.axes[i], 80)), node.where,
             "name it once");
    }
  }
  return rule;
}

std::vector<AxisRule> read_rules(const Key& key, const YamlNode& node) {
  if (node.type == YamlNode::Type::null) return {};
  if (node.type != YamlNode::Type::sequence) {
    refuse_value(key, node.scalar, "a list of [label, [axis, ...]]", node.where);
  }
  std::vector<AxisRule> rules;
  for (const YamlNode& item : node.items) rules.push_back(read_rule(key, item));
  return rules;
}

std::vector<std::int64_t> read_integers(const Key& key, const YamlNode& node) {
  std::vector<std::int64_t> values;
  for (const std::string& word : read_words(key, node)) {
    check_leading_zeros(key, word, node.where);
    const auto value = parse_integral(word);
    if (!value) refuse_value(key, word, "a list of integers", node.where);
    values.push_back(*value);
  }
  return values;
}

YamlNode scalar_node(std::string text, bool quoted, const std::string& where) {
  YamlNode node;
  node.type = text.empty() && !quoted ? YamlNode::Type::null : YamlNode::Type::scalar;
  node.quoted = quoted;
  node.scalar = std::move(text);
  node.where = where;
  return node;
}

bool is_list(Kind kind) {
  return kind == Kind::texts || kind == Kind::integers || kind == Kind::rules || kind == Kind::nested;
}

std::string flow(const YamlNode& node) {
  std::vector<std::string> parts;
  if (node.type == YamlNode::Type::null) return "null";
  if (node.type == YamlNode::Type::scalar) return node.scalar;
  const bool mapping = node.type == YamlNode::Type::mapping;
  for (const YamlNode& item : node.items) parts.push_back(mapping ? item.key + ": " + flow(item) : flow(item));
  const std::string inside = join(parts, ", ");
  return mapping ? "{" + inside + "}" : "[" + inside + "]";
}

// Whether a mapping says itself that the rest of it counts for nothing.
bool is_switched_off(const Key& key, const YamlNode& node) {
  if (key.name != "lora" || node.type != YamlNode::Type::mapping) return false;
  const YamlNode* on = node.find("enable_lora");
  return on == nullptr || parse_boolean(on->scalar) == false;
}

}  // namespace

Value read_value(const Key& key, const YamlNode& node) {
  if (key.kind == Kind::nested) return is_switched_off(key, node) ? std::string(key.initial) : flow(node);
  const bool scalar = node.type == YamlNode::Type::scalar;
  // In quotes, too, none is None to MaxText; here a text in quotes is that text.
  const bool is_none = node.quoted ? key.kind != Kind::text && lower(node.scalar) == "none" : is_null_word(node.scalar);
  const bool null = node.type == YamlNode::Type::null || (scalar && is_none);
  const bool takes_null = key.initial == "null";
  if (scalar && node.quoted && node.scalar.empty() && has_empty_choice(key)) return read_scalar(key, "", node.where);
  if ((null || (scalar && is_null_word(node.scalar))) && takes_null_as_default(key)) return read_value(key, key.initial, node.where);
  if (null && takes_null) return Null{};
  if (is_list(key.kind) && null) {
    YamlNode empty;
    empty.type = YamlNode::Type::sequence;
    return read_value(key, empty);
  }
  if (key.kind == Kind::texts) return read_words(key, node);
  if (key.kind == Kind::integers) return read_integers(key, node);
  if (key.kind == Kind::rules) return read_rules(key, node);
  if (null && (key.kind == Kind::text || key.kind == Kind::choice)) return read_scalar(key, "", node.where);
  if (!scalar && !null) refuse_value(key, flow(node), std::string(name_of(key.kind)), node.where);
  return read_scalar(key, node.scalar, node.where);
}

Value read_value(const Key& key, std::string_view text, const std::string& where) {
  if (!is_valid_utf8(text)) refuse(fmt::format("the value of {} is not valid UTF-8", key.name), where);
  // Free text stays as typed: a colon or a bracket in it is not YAML.
  const bool verbatim = !is_list(key.kind) && text.find_first_of("'\"") == std::string_view::npos;
  if (verbatim) {
    return read_value(key, scalar_node(std::string(text), text.empty() && has_empty_choice(key), where));
  }
  YamlNode node;
  if (key.kind == Kind::text) {
    const bool in_quotes =
        text.size() >= 2 && text.front() == text.back() && (text.front() == '\'' || text.front() == '"');
    node = scalar_node(std::string(in_quotes ? text.substr(1, text.size() - 2) : text), true, where);
  } else {
    node = parse_yaml_value(text, where);
  }
  return read_value(key, node);
}

namespace {

// A word of a list as YAML reads it back.
std::string list_word(const std::string& word) {
  constexpr std::string_view kPlainBegin = "_./(^\\", kPlain = "_./(^\\-+=)$<";
  const auto is_plain = [](char c, std::string_view marks) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || marks.find(c) != std::string_view::npos;
  };
  const bool is_all_plain = std::all_of(word.begin(), word.end(), [&](char c) { return is_plain(c, kPlain); });
  if (!is_null_word(word) && is_plain(word.front(), kPlainBegin) && is_all_plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "''" : std::string(1, c);
  return quoted + "'";
}

std::string list_of(const std::vector<std::string>& words) {
  std::vector<std::string> written;
  for (const std::string& word : words) written.push_back(list_word(word));
  return "[" + join(written, ", ") + "]";
}

// Whether a text would be read back as another one: as nothing, or without its quotes.
bool is_read_otherwise(const std::string& text) {
  const bool is_in_quotes = text.size() >= 2 && text.front() == text.back() && (text.front() == '\'' || text.front() == '"');
  return text.empty() || text == "~" || text == "null" || is_in_quotes;
}

}  // namespace

std::string to_string(const Value& value) {
  struct Writer {
    std::string operator()(Null) const { return "null"; }
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(std::int64_t i) const { return std::to_string(i); }
    std::string operator()(double d) const { return fmt::format("{}", d); }
    std::string operator()(const std::string& s) const { return is_read_otherwise(s) ? "'" + s + "'" : s; }
    std::string operator()(const std::vector<std::string>& words) const { return list_of(words); }
    std::string operator()(const std::vector<std::int64_t>& values) const {
      std::vector<std::string> words;
      for (const std::int64_t v : values) words.push_back(std::to_string(v));
      return "[" + join(words, ", ") + "]";
    }
    std::string operator()(const std::vector<AxisRule>& rules) const {
      std::vector<std::string> words;
      for (const AxisRule& rule : rules) words.push_back("[" + list_word(rule.label) + ", " + list_of(rule.axes) + "]");
      return "[" + join(words, ", ") + "]";
    }
  };
  return std::visit(Writer{}, value);
}

}  // namespace moesh::config
