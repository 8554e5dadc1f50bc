#include "config/yaml.h"

#include <cmath>
#include <fstream>
#include <istream>
#include <map>
#include <set>
#include <sstream>
#include <streambuf>
#include <sys/stat.h>

#include <fmt/core.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include "base/error.h"
#include "base/text.h"

namespace moesh::config {
namespace {

// What a copy of a node costs.
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

// Where a node stands: a line of a file, or one place for all.
struct Places {
  std::string name;
  bool lines = true;

  std::string at(const YAML::Mark& mark) const { return lines ? fmt::format("{}:{}", name, mark.line + 1) : name; }
};

// Builds the tree from the parser's events. Aliases are copied as they are met, so a cycle (an alias to a node that
// is still open) and an explosion of copies are both seen here, before they cost anything.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(Places places, const YamlLimits& limits) : places_(std::move(places)), limits_(limits) {}

  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    YamlNode node;
    node.scalar = "null";
    node.where = place(mark);
    add(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto target = anchored_.find(anchor);
    if (target == anchored_.end()) refuse("an alias points into itself, a tree was expected", place(mark));
    spend(target->second.second, place(mark));
    add(target->second.first, 0);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode node;
    node.type = YamlNode::Type::scalar;
    node.quoted = tag == "!";
    node.scalar = value;
    node.where = place(mark);
    add(std::move(node), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(YamlNode::Type::sequence, mark, anchor);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(YamlNode::Type::mapping, mark, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YamlNode node;
    YAML::anchor_t anchor;
    std::set<std::string> keys;
    bool has_key = false;
    std::string key;
  };

  std::string place(const YAML::Mark& mark) const { return places_.at(mark); }

  void spend(const Weight& weight, const std::string& where) {
    spent_.nodes += weight.nodes;
    spent_.bytes += weight.bytes;
    if (spent_.nodes > limits_.nodes || spent_.bytes > limits_.bytes) {
      const std::string most = spent_.nodes > limits_.nodes ? fmt::format("{} values", limits_.nodes)
                                                            : human_bytes(static_cast<double>(limits_.bytes));
      refuse(fmt::format("more than {}, aliases counted as often as they are used", most), where,
             "a configuration file is smaller than that; check which file this is");
    }
  }

  void open(YamlNode::Type type, const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (open_.size() == limits_.depth) {
      refuse(fmt::format("lists and mappings nested more than {} deep", limits_.depth), place(mark),
             "a configuration file is flatter than that; check which file this is");
    }
    YamlNode node;
    node.type = type;
    node.where = place(mark);
    open_.push_back({std::move(node), anchor, {}, false, {}});
  }

  void close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    add(std::move(done.node), done.anchor);
  }

  void add(YamlNode node, YAML::anchor_t anchor) {
    spend({1, 0}, node.where);
    if (anchor != 0) {
      const Weight weight = weight_of(node);
      spend(weight, node.where);
      anchored_.insert_or_assign(anchor, std::pair(node, weight));
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
    if (!mapping.keys.insert(node.scalar).second) {
      refuse(fmt::format("key '{}' stands twice in one mapping", shorten(node.scalar, 80)), node.where,
             "keep one of them");
    }
    mapping.has_key = true;
    mapping.key = std::move(node.scalar);
  }

  Places places_;
  YamlLimits limits_;
  YamlNode root_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, std::pair<YamlNode, Weight>> anchored_;
  Weight spent_;
};

// Lets the parser read the caller's bytes without a copy.
class ViewBuffer : public std::streambuf {
 public:
  explicit ViewBuffer(std::string_view text) {
    char* begin = const_cast<char*>(text.data());
    setg(begin, begin, begin + text.size());
  }
};

YamlNode parse(std::string_view text, const Places& places, const YamlLimits& limits) {
  const std::string& name = places.name;
  if (text.size() > limits.bytes) {
    refuse(fmt::format("{} of YAML, at most {} are read", human_bytes(static_cast<double>(text.size())),
                       human_bytes(static_cast<double>(limits.bytes))),
           name, "check which file this is");
  }
  if (!is_valid_utf8(text)) refuse("not valid UTF-8", name, "save the file as UTF-8 text");
  if (text.find('\0') != std::string_view::npos) refuse("a zero byte, text was expected", name);
  ViewBuffer buffer(text);
  std::istream stream(&buffer);
  TreeBuilder builder(places, limits);
  try {
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    if (parser.HandleNextDocument(builder)) refuse("a second document, one was expected", name, "keep one");
  } catch (const YAML::Exception& e) {
    refuse("not readable as YAML: " + e.msg, places.at(e.mark));
  }
  return builder.take();
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
    refuse(fmt::format("a file of {}, at most {} are read", human_bytes(static_cast<double>(status.st_size)),
                       human_bytes(static_cast<double>(limits.bytes))),
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

double yaml_real(const YamlNode& node, std::string_view what) {
  const std::string text = yaml_text(node, what);
  const auto value = parse_real(text);
  if (!value) refuse(fmt::format("{} is '{}', a finite number was expected", what, text), node.where);
  return *value;
}

long long yaml_integer(const YamlNode& node, std::string_view what) {
  const std::string text = yaml_text(node, what);
  const auto value = parse_integer(text);
  if (!value) refuse(fmt::format("{} is '{}', an integer was expected", what, text), node.where);
  return *value;
}

}  // namespace moesh::config
