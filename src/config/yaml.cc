#include "config/yaml.h"

#include <fstream>
#include <istream>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <sys/stat.h>

#include <fmt/core.h>
#include <yaml.h>

#include "base/error.h"
#include "base/text.h"

namespace moesh::config {
namespace {

// The cost of copying a node.
struct Weight {
  std::size_t nodes = 0;
  std::size_t bytes = 0;
};

Weight weight_of(const YamlNode& node) {
  Weight weight{1, node.scalar.size() + node.key.size()};
  for (const YamlNode& item : node.items) {
    const Weight below = weight_of(item);
    weight.nodes += below.nodes;
    weight.bytes += below.bytes;
  }
  return weight;
}

// The place of a node: a line of a file, or one place for all.
struct Places {
  std::string name;
  bool lines = true;

  std::string at(const yaml_mark_t& mark) const { return lines ? name + ':' + std::to_string(mark.line + 1) : name; }
};

std::string text_of(const yaml_char_t* text) { return text == nullptr ? "" : reinterpret_cast<const char*>(text); }

// The spellings of null that Python's reader accepts.
bool is_null_scalar(const std::string& text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

// Builds the tree from the parser's events. Aliases are copied where they occur, so a cycle (an alias to a node that is still open) and an
// explosion of copies are both detected here, before they cost anything.
class TreeBuilder {
 public:
  TreeBuilder(Places places, const YamlLimits& limits) : places_(std::move(places)), limits_(limits) {}

  YamlNode take() { return std::move(root_); }

  void take_event(const yaml_event_t& event) {
    switch (event.type) {
      case YAML_DOCUMENT_START_EVENT:
        if (++documents_ > 1) refuse("a second document, one was expected", places_.name, "keep one");
        return;
      case YAML_ALIAS_EVENT: return copy(text_of(event.data.alias.anchor), place(event));
      case YAML_SCALAR_EVENT: return add(scalar_of(event), text_of(event.data.scalar.anchor));
      case YAML_SEQUENCE_START_EVENT:
        return open(YamlNode::Type::sequence, place(event), text_of(event.data.sequence_start.anchor));
      case YAML_MAPPING_START_EVENT:
        return open(YamlNode::Type::mapping, place(event), text_of(event.data.mapping_start.anchor));
      case YAML_SEQUENCE_END_EVENT:
      case YAML_MAPPING_END_EVENT: return close();
      default: return;
    }
  }

 private:
  struct Open {
    YamlNode node;
    std::string anchor;
    std::set<std::string> keys;
    bool has_key = false;
    std::string key;
  };

  std::string place(const yaml_event_t& event) const { return places_.at(event.start_mark); }

  YamlNode scalar_of(const yaml_event_t& event) const {
    const auto& scalar = event.data.scalar;
    YamlNode node;
    node.scalar.assign(reinterpret_cast<const char*>(scalar.value), scalar.length);
    node.where = place(event);
    node.quoted = scalar.style != YAML_PLAIN_SCALAR_STYLE || text_of(scalar.tag) == "!";
    node.type = YamlNode::Type::scalar;
    if (!node.quoted && scalar.tag == nullptr && is_null_scalar(node.scalar)) {
      node.type = YamlNode::Type::null;
      node.scalar = "null";
    }
    return node;
  }

  void copy(const std::string& anchor, const std::string& where) {
    const auto target = anchored_.find(anchor);
    if (target == anchored_.end()) refuse(fmt::format("no anchor '{}' stands before its alias", shorten(anchor, 80)), where);
    if (target->second.is_open) refuse("an alias points into itself, a tree was expected", where);
    spend(target->second.weight, where);
    add(target->second.node, "");
  }

  void spend(const Weight& weight, const std::string& where) {
    spent_.nodes += weight.nodes;
    spent_.bytes += weight.bytes;
    if (spent_.nodes > limits_.nodes || spent_.bytes > limits_.bytes) {
      const std::string most = spent_.nodes > limits_.nodes ? fmt::format("{} values", limits_.nodes)
                                                            : human_bytes(limits_.bytes);
      refuse(fmt::format("more than {}, aliases counted as often as they are used", most), where,
             "a configuration file is smaller than that; check which file this is");
    }
  }

  void open(YamlNode::Type type, std::string where, std::string anchor) {
    if (open_.size() == limits_.depth) {
      refuse(fmt::format("lists and mappings nested more than {} deep", limits_.depth), where,
             "a configuration file is flatter than that; check which file this is");
    }
    YamlNode node;
    node.type = type;
    node.where = std::move(where);
    if (!anchor.empty()) anchored_.insert_or_assign(anchor, Anchored{});
    open_.push_back({std::move(node), std::move(anchor), {}, false, {}});
  }

  void close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    add(std::move(done.node), done.anchor);
  }

  void add(YamlNode node, const std::string& anchor) {
    spend({1, 0}, node.where);
    if (!anchor.empty()) {
      const Weight weight = weight_of(node);
      spend(weight, node.where);
      anchored_.insert_or_assign(anchor, Anchored{node, weight, false});
    }
    if (open_.empty()) {
      root_ = std::move(node);
    } else if (open_.back().node.type == YamlNode::Type::sequence) {
      open_.back().node.items.push_back(std::move(node));
    } else {
      add_to_mapping(open_.back(), std::move(node));
    }
  }

  void add_to_mapping(Open& mapping, YamlNode node) {
    if (mapping.has_key) {
      node.key = std::move(mapping.key);
      mapping.node.items.push_back(std::move(node));
      mapping.has_key = false;
      return;
    }
    if (node.type != YamlNode::Type::scalar) refuse("a key that is no plain word", node.where);
    if (node.scalar == "<<" && !node.quoted)
      refuse("'<<' merges a mapping into another, which is not read here", node.where, "write out the keys that it would merge");
    if (!mapping.keys.insert(node.scalar).second) {
      refuse(fmt::format("key '{}' stands twice in one mapping", shorten(node.scalar, 80)), node.where,
             "keep one of them");
    }
    mapping.has_key = true;
    mapping.key = std::move(node.scalar);
  }

  struct Anchored {
    YamlNode node;
    Weight weight;
    bool is_open = true;
  };

  Places places_;
  YamlLimits limits_;
  YamlNode root_;
  int documents_ = 0;
  std::vector<Open> open_;
  std::map<std::string, Anchored> anchored_;
  Weight spent_;
};

// Runs the library's parser on a text.
class Parser {
 public:
  explicit Parser(std::string_view text) {
    if (yaml_parser_initialize(&parser_) == 0) throw std::bad_alloc();
    yaml_parser_set_encoding(&parser_, YAML_UTF8_ENCODING);
    const char* begin = text.empty() ? "" : text.data();  // the library does not accept null
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(begin), text.size());
  }
  ~Parser() { yaml_parser_delete(&parser_); }
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;

  void run(TreeBuilder& builder, const Places& places) {
    for (bool ended = false; !ended;) {
      yaml_event_t event;
      if (yaml_parser_parse(&parser_, &event) == 0) refuse_problem(places);
      const std::unique_ptr<yaml_event_t, decltype(&yaml_event_delete)> held(&event, yaml_event_delete);
      builder.take_event(event);
      ended = event.type == YAML_STREAM_END_EVENT;
    }
  }

 private:
  [[noreturn]] void refuse_problem(const Places& places) const {
    if (parser_.error == YAML_MEMORY_ERROR) throw std::bad_alloc();
    const std::string problem = parser_.problem == nullptr ? "unknown" : parser_.problem;
    const std::string context = parser_.context == nullptr ? "" : fmt::format(" {}", parser_.context);
    refuse(fmt::format("not readable as YAML: {}{}", problem, context), places.at(parser_.problem_mark));
  }

  yaml_parser_t parser_;
};

YamlNode parse(std::string_view text, const Places& places, const YamlLimits& limits) {
  const std::string& name = places.name;
  if (text.size() > limits.bytes) {
    refuse(fmt::format("{} of YAML, at most {} are read", human_bytes(text.size()),
                       human_bytes(limits.bytes)),
           name, "check which file this is");
  }
  if (!is_valid_utf8(text)) refuse("not valid UTF-8", name, "save the file as UTF-8 text");
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  if (text.find('\0') != std::string_view::npos) refuse("a zero byte, text was expected", name);
  TreeBuilder builder(places, limits);
  Parser(text).run(builder, places);
  return builder.take();
}

std::string number_text(const YamlNode& node, std::string_view what) {
  std::string text = yaml_text(node, what);
  if (has_leading_zeros(text)) {
    refuse(fmt::format("{} is '{}', {} was expected", what, shorten(text, 60), kWithoutLeadingZeros), node.where, std::string(kOctal));
  }
  return text;
}

}  // namespace

const YamlNode* YamlNode::find(std::string_view name) const {
  if (type != Type::mapping) return nullptr;
  for (const YamlNode& item : items) {
    if (item.key == name) return &item;
  }
  return nullptr;
}

YamlNode parse_yaml(std::string_view text, const std::string& name, const YamlLimits& limits) {
  return parse(text, {name, true}, limits);
}

YamlNode parse_yaml_value(std::string_view text, const std::string& where) { return parse(text, {where, false}, {}); }

YamlNode read_yaml(const std::string& path, const YamlLimits& limits) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) refuse("no such file", path, "check the path");
  if (!S_ISREG(status.st_mode)) refuse("not a regular file", path, "name a YAML file");
  if (static_cast<std::size_t>(status.st_size) > limits.bytes) {
    refuse(fmt::format("a file of {}, at most {} are read", human_bytes(status.st_size),
                       human_bytes(limits.bytes)),
           path, "check which file this is");
  }
  std::ifstream file(path, std::ios::binary);
  file.peek();
  if (!file.is_open() || file.bad()) refuse("the file cannot be read", path, "check its permissions");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return parse_yaml(text, path, limits);
}

std::string yaml_text(const YamlNode& node, std::string_view what) {
  if (node.type != YamlNode::Type::scalar) refuse(fmt::format("{}: text was expected", what), node.where);
  return node.scalar;
}

bool has_leading_zeros(std::string_view text) {
  const std::size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  const std::string_view digits = text.substr(sign);
  return digits.size() > 1 && digits.front() == '0' && digits.find_first_not_of("0123456789_") == std::string_view::npos;
}

double yaml_real(const YamlNode& node, std::string_view what) {
  const std::string text = number_text(node, what);
  const auto value = parse_real(text);
  if (!value) refuse(fmt::format("{} is '{}', a finite number was expected", what, text), node.where);
  return *value;
}

}  // namespace moesh::config
