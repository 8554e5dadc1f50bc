// A small YAML tree with the place of every node, read within limits so that hostile files end in an error.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace moesh::config {

struct YamlNode {
  enum class Type { null, scalar, sequence, mapping };

  Type type = Type::null;
  bool quoted = false;           // scalar: written in quotes, so always text
  std::string scalar;            // scalar: its text; null: its word in messages
  std::vector<YamlNode> items;   // sequence; mapping, in the file's order
  std::string key;               // of an item of a mapping
  std::string where;             // "file:line"

  const YamlNode* find(std::string_view name) const;  // null if this is not a mapping or lacks the key
};

struct YamlLimits {
  std::size_t bytes = 4u << 20;
  std::size_t nodes = 200'000;  // aliases count as often as they are used
  std::size_t depth = 256;      // of nested lists and mappings
};

// Parses one document. `name`: the source, for messages. An empty document is a null node.
YamlNode parse_yaml(std::string_view text, const std::string& name, const YamlLimits& limits = {});

// Parses a value that is not in a file: `where` is the place of all its nodes.
YamlNode parse_yaml_value(std::string_view text, const std::string& where);

// Reads and parses a file of the file system.
YamlNode read_yaml(const std::string& path, const YamlLimits& limits = {});

// Whether a path ends in .yml or .yaml.
inline bool is_yaml_path(std::string_view path) { return path.ends_with(".yml") || path.ends_with(".yaml"); }

// Whether the text is an integer with a leading zero, which YAML 1.1 reads as octal: 0400 is 256.
bool has_leading_zeros(std::string_view text);
inline constexpr std::string_view kWithoutLeadingZeros = "a number without leading zeros";
inline constexpr std::string_view kOctal = "leave the zeros out, which YAML takes for an octal number: 0400 is 256";

// These refuse other nodes, with the node's place and what was expected.
std::string yaml_text(const YamlNode& node, std::string_view what);
double yaml_real(const YamlNode& node, std::string_view what);

}  // namespace moesh::config
