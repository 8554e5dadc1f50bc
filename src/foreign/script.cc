#include "foreign/script.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "foreign/words.h"

namespace moesh::foreign {
namespace {

constexpr std::int64_t kMostFactor = 1'000'000'000;

bool is_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string_view name_at(std::string_view text) {
  std::size_t size = 0;
  while (size < text.size() && is_of_name(text[size])) ++size;
  return size > 0 && std::isdigit(static_cast<unsigned char>(text[0])) == 0 ? text.substr(0, size) : std::string_view();
}

// Where the quote, the list or the $(...) that begins at `at` ends: behind its last character.
std::size_t end_of_part(std::string_view text, std::size_t at) {
  const char open = text[at];
  const bool is_list = open == '(';
  int depth = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    if (text[i] == '\\' && open != '\'') {
      ++i;
    } else if (is_list && (text[i] == '\'' || text[i] == '"')) {
      i = end_of_part(text, i) - 1;
    } else if (is_list && text[i] == '#' && is_blank(text[i - 1])) {
      i = std::min(text.find('\n', i), text.size());
    } else if (is_list ? text[i] == '(' : i == at) {
      ++depth;
    } else if (text[i] == (is_list ? ')' : open) && --depth == 0) {
      return i + 1;
    }
  }
  return text.size();
}

bool begins_part(std::string_view text, std::size_t at) {
  if (text[at] == '\'' || text[at] == '"') return true;
  return text[at] == '(' && at > 0 && (text[at - 1] == '=' || text[at - 1] == '$');
}

// The script's statements, without comments between them.
std::vector<std::string> statements_of(std::string_view text) {
  std::vector<std::string> all(1);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = begins_part(text, at) ? end_of_part(text, at) : text[at] == '\\' ? std::min(at + 2, text.size()) : at + 1;
    if (text[at] == '\n' || text[at] == ';') {
      all.emplace_back();
    } else if (text[at] == '#' && (at == 0 || is_blank(text[at - 1]) || text[at - 1] == ';')) {
      at = std::min(text.find('\n', at), text.size());
      continue;
    } else {
      all.back() += text.substr(at, end - at);
    }
    at = end;
  }
  for (std::string& statement : all) statement = trimmed(statement);
  std::erase(all, "");
  return all;
}

struct Assignment {
  std::string name;
  std::string value;  // as written
  bool adds = false, is_list = false;
  bool is_literal = false;  // in single quotes, within which $ means nothing
};

bool takes_word(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word) || text.size() == word.size() || !is_blank(text[word.size()])) return false;
  text = trimmed(text.substr(word.size()));
  return true;
}

// NAME=value, NAME=(...) or NAME+=..., if that is the whole statement.
std::optional<Assignment> assignment_of(std::string_view statement) {
  for (const char* word : {"then", "else", "do", "export", "readonly", "declare", "local"}) takes_word(statement, word);
  Assignment made{std::string(name_at(statement)), "", false, false, false};
  std::string_view rest = statement.substr(made.name.size());
  if (made.name.empty() || rest.empty()) return std::nullopt;
  made.adds = rest.starts_with("+=");
  if (!made.adds && rest.front() != '=') return std::nullopt;
  rest.remove_prefix(made.adds ? 2 : 1);
  made.is_list = rest.starts_with('(');
  for (std::size_t at = 0; at < rest.size();) {
    if (is_blank(rest[at])) return std::nullopt;  // a command behind it
    const bool is_part = begins_part(rest, at) || (at == 0 && made.is_list) || rest[at] == '{';
    at = !is_part ? at + 1 : rest[at] == '{' ? std::min(rest.find('}', at), rest.size() - 1) + 1 : end_of_part(rest, at);
  }
  if (made.is_list && rest.ends_with(')')) rest = rest.substr(1, rest.size() - 2);
  const bool is_quoted = rest.size() > 1 && (rest.front() == '"' || rest.front() == '\'') && end_of_part(rest, 0) == rest.size();
  made.is_literal = is_quoted && rest.front() == '\'';
  made.value = is_quoted && !made.is_list ? rest.substr(1, rest.size() - 2) : rest;
  return made;
}

// The product in $((2 * 4)); nothing for any other arithmetic.
std::optional<std::string> product_in(std::string_view text) {
  if (!text.starts_with("$((") || !text.ends_with("))")) return std::nullopt;
  std::int64_t all = 1;
  for (const std::string& factor : split(text.substr(3, text.size() - 5), '*')) {
    const std::optional<std::int64_t> number = parse_integer(trimmed(factor));
    if (!number || *number < 0 || *number > kMostFactor || all > kMostFactor) return std::nullopt;
    all *= *number;
  }
  return std::to_string(all);
}

struct Command {
  std::string written;
  std::string text;  // with the values of variables
};

class ScriptReader {
 public:
  explicit ScriptReader(const std::string& where) : where_(where) {}

  Script read(const std::vector<std::string>& statements) {
    for (const std::string& statement : statements) step(statement);
    const Command command = longest_command();
    std::erase_if(left_out_, [&](const std::string& name) {
      return command.written.find("$" + name) == std::string::npos && command.written.find("${" + name) == std::string::npos;
    });
    Script script{command.text, {}};
    if (!defaults_.empty()) script.assumed.push_back(fmt::format("the script's own defaults are taken for {}", names(defaults_)));
    if (!left_out_.empty()) {
      script.assumed.push_back(
          fmt::format("the script is not run: what it sets under if, for, while or case is left out, of {}", names(left_out_)));
    }
    return script;
  }

 private:
  static std::string names(const std::set<std::string>& all) { return join({all.begin(), all.end()}, ", "); }

  void step(const std::string& statement) {
    const std::string_view first = name_at(statement);
    const auto is_one_of = [&](std::initializer_list<std::string_view> words) {
      return std::find(words.begin(), words.end(), first) != words.end();
    };
    const std::optional<Assignment> assignment = assignment_of(statement);
    if (is_one_of({"if", "for", "while", "until", "case"})) {
      ++depth_;
    } else if (is_one_of({"fi", "done", "esac"})) {
      depth_ = std::max(0, depth_ - 1);
    } else if (depth_ > 0) {
      if (assignment) left_out_.insert(assignment->name);
    } else if (assignment) {
      const std::string added = assignment->is_literal ? assignment->value : expanded(assignment->value);
      std::string& value = values_[assignment->name];
      if (!assignment->adds) value.clear();
      if (assignment->adds && assignment->is_list) value += ' ';
      value += added;
    } else {
      commands_.push_back({statement, expanded(statement)});
    }
  }

  // The longest of those that start a program, or all of them if none does.
  Command longest_command() const {
    const Command* longest = nullptr;
    Command all;
    for (const Command& one : commands_) {
      const bool starts = std::any_of(std::begin(kPrograms), std::end(kPrograms),
                                      [&](const char* program) { return one.text.find(program) != std::string::npos; });
      if (starts && (longest == nullptr || one.text.size() > longest->text.size())) longest = &one;
      all.written += one.written + "\n";
      all.text += one.text + "\n";
    }
    return longest == nullptr ? all : *longest;
  }

  // The text with the values of the variables that are known; the others stay as they are.
  std::string expanded(std::string_view text) {
    std::string made;
    bool is_quoted = false;
    for (std::size_t at = 0; at < text.size();) {
      std::size_t size = 1;
      std::optional<std::string> value;
      const bool is_list_in_quotes = text[at] == '"' && text.substr(at).starts_with("\"${");
      if (text[at] == '\\' && at + 1 < text.size()) {
        size = 2;
      } else if (text[at] == '\'' && !is_quoted) {
        size = end_of_part(text, at) - at;
      } else if (text.substr(at).starts_with("$((") && !is_product_) {
        size = end_of_part(text, at + 1) - at;
        is_product_ = true;
        const std::string whole = "$((" + expanded(text.substr(at + 3, size - 3));
        is_product_ = false;
        value = product_in(whole).value_or(whole);
      } else if (text[at] == '$') {
        value = variable(text.substr(at), size);
      } else if (is_list_in_quotes) {
        std::size_t inner = 0;
        value = variable(text.substr(at + 1), inner);
        const bool ends_there =
            text.substr(at + 1, inner).find("[@]") != std::string_view::npos && text.substr(at + 1 + inner).starts_with('"');
        if (!ends_there) value.reset();
        if (value) size = inner + 2;
      }
      if (text[at] == '"' && !value) is_quoted = !is_quoted;
      const std::size_t before = made.size();
      made += value ? *value : std::string(text.substr(at, size));
      at += size;
      spent_ += static_cast<std::int64_t>(made.size() - before);
      if (spent_ > kMostSpent)
        refuse(fmt::format("a script whose variables make more than {}", human_bytes(kMostSpent)), where_, "give the command alone");
    }
    return made;
  }

  // The value of $NAME, ${NAME}, ${NAME[@]} or ${NAME:-default} at the beginning of the text, whose length is `size`.
  std::optional<std::string> variable(std::string_view text, std::size_t& size) {
    const bool is_braced = text.starts_with("${");
    const std::string name(name_at(text.substr(is_braced ? 2 : 1)));
    if (name.empty()) return std::nullopt;
    const auto known = values_.find(name);
    const std::optional<std::string> value = known == values_.end() ? std::nullopt : std::optional(known->second);
    if (!is_braced) {
      if (value) size = 1 + name.size();
      return value;
    }
    const std::size_t end = text.substr(0, kLongest).find('}');
    if (end == std::string_view::npos) return std::nullopt;
    std::string_view rest = text.substr(2 + name.size(), end - 2 - name.size());
    const bool has_default = rest.starts_with(":-") || rest.starts_with(":=");
    if (!rest.empty() && !has_default && rest != "[@]" && rest != "[*]") return std::nullopt;
    if (!value && !has_default) return std::nullopt;
    size = end + 1;
    if (value && !(has_default && value->empty())) return value;
    defaults_.insert(name);
    std::string otherwise(rest.substr(2));
    std::erase(otherwise, '"');
    return expanded(otherwise);
  }

  static constexpr std::size_t kLongest = 1024;  // of ${...}
  static constexpr std::int64_t kMostSpent = 4 * kMostBytes;
  static constexpr const char* kPrograms[] = {".py", "run_train.sh", "torchtitan.train"};

  const std::string& where_;
  std::map<std::string, std::string> values_;
  std::vector<Command> commands_;
  std::set<std::string> defaults_, left_out_;
  std::int64_t spent_ = 0;   // bytes that were put together so far
  bool is_product_ = false;  // within $((...)), which are not nested
  int depth_ = 0;            // of if, for, while and case
};

}  // namespace

Script read_script(std::string_view text, const std::string& where) {
  if (static_cast<std::int64_t>(text.size()) > kMostBytes) return {std::string(text), {}};
  const std::vector<std::string> statements = statements_of(text);
  const bool assigns =
      std::any_of(statements.begin(), statements.end(), [](const std::string& one) { return assignment_of(one).has_value(); });
  return assigns && statements.size() > 1 ? ScriptReader(where).read(statements) : Script{std::string(text), {}};
}

}  // namespace moesh::foreign
