#include "config/assignments.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <unistd.h>

#include <fmt/core.h>

#include "base/error.h"
#include "base/system.h"
#include "base/text.h"
#include "config/builtin.h"

namespace moesh::config {
namespace {

constexpr std::string_view kBaseKey = "base_config";

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

// configs/NAME.yml stands for the built-in file of that name if there is no such file on disk.
constexpr std::string_view kFolder = "configs/";
bool stands_for_builtin(const std::string& path) {
  return !is_there(path) && path.starts_with(kFolder) && path != "configs/base.yml" && find_builtin(path.substr(kFolder.size())) != nullptr;
}

YamlNode read_own_or_builtin(const std::string& path) {
  return stands_for_builtin(path) ? parse_builtin(path.substr(kFolder.size())) : read_yaml(path);
}

bool has_file_name(const std::string& path, const std::string& name) { return path == name || path.ends_with("/" + name); }

std::string builtin_base_instead(const std::string& path) { return path + " is not there; the built-in base.yml is used"; }

// A copy of the built-in base file holds no settings of the user's own.
bool is_base_file(const std::string& path) {
  const std::string_view base = find_builtin("base.yml")->text;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error) || std::filesystem::file_size(path, error) != base.size()) return false;
  std::ifstream file(path, std::ios::binary);
  return std::string{std::istreambuf_iterator<char>(file), {}} == base;
}

// The file of that name in the nearest folder called `configs` that holds the file at `path`, as MaxText's files name others; empty if
// there is none.
std::string path_in_configs(const std::string& path, const std::string& name) {
  std::filesystem::path folder = std::filesystem::absolute(path).lexically_normal().parent_path();
  while (folder.has_relative_path() && folder.filename() != "configs") folder = folder.parent_path();
  const std::string found = (folder / name).string();
  return folder.filename() == "configs" && is_there(found) ? found : "";
}

class InheritingReader {
 public:
  InheritingReader(Source source, std::vector<std::string>& notices) : source_(source), notices_(notices) {}

  Assignments read(const std::string& path) {
    Assignments all;
    read(path, 0, all);
    return all;
  }

 private:
  void read(const std::string& path, int depth, Assignments& into) {
    if (depth > 16) refuse("base_config leads through more than 16 files", path, "break the circle");
    if (source_ == Source::file && is_base_file(path)) return;
    const YamlNode root = read_own_or_builtin(path);
    if (const YamlNode* base = root.find(kBaseKey)) read_base(*base, path, depth, into);
    for (Assignment& assignment : assignments_of(root, source_)) into.push_back(std::move(assignment));
  }

  void read_base(const YamlNode& base, const std::string& path, int depth, Assignments& into) {
    const std::string name = yaml_text(base, kBaseKey);
    const bool is_base = has_file_name(name, "base.yml");
    if (is_base && stands_for_builtin(path)) return;  // a built-in file inherits from a built-in one, whatever lies here
    const std::string beside = name.starts_with('/') ? name : folder_of(path) + name;
    if (is_there(beside)) return read(beside, depth + 1, into);
    const std::string in_configs = path_in_configs(path, name);
    if (!in_configs.empty()) return read(in_configs, depth + 1, into);
    if (!is_base) {
      refuse(fmt::format("base_config '{}' is not there", shorten(name, 80)), base.where,
             "name a file beside this one, or in the folder `configs` around it");
    }
    notices_.push_back(builtin_base_instead(beside));
  }

  Source source_;
  std::vector<std::string>& notices_;
};

// What stands before the first dot if it is a key that holds others, as in lora.enable_lora.
const Key* parent_of(std::string_view name) {
  const std::size_t dot = name.find('.');
  const Key* key = dot == std::string_view::npos ? nullptr : find_key(name.substr(0, dot));
  return key != nullptr && key->kind == Kind::nested ? key : nullptr;
}

// Values inside keys that hold others, of which a command line gives one at a time.
class InnerValues {
 public:
  void add(const Key& parent, std::string_view path, const std::string& text) {
    YamlNode& mapping = mappings_[&parent];
    mapping.type = YamlNode::Type::mapping;
    mapping.where = kCommandLine;
    const std::string name(path);
    std::erase_if(mapping.items, [&](const YamlNode& item) { return item.key == name; });
    mapping.items.push_back(text.empty() ? YamlNode{} : parse_yaml_value(text, kCommandLine));
    mapping.items.back().key = name;
  }

  Assignments all() const {
    Assignments made;
    for (const auto& [key, mapping] : mappings_) made.push_back({key, read_value(*key, mapping), {Source::command_line, kCommandLine}});
    return made;
  }

 private:
  std::map<const Key*, YamlNode> mappings_;
};

constexpr std::string_view kVariables = "M_";

// A variable that is likely to be a key's name with a mistake in it; empty if `name`, in small letters, is not. Variables of other programs
// may begin alike, so a part of a key's name is no reason to speak of it.
std::string variable_meant_by(const std::string& name) {
  constexpr std::size_t kLeast = 5, kFarthest = 2;
  for (const std::string& key : name.size() < kLeast ? std::vector<std::string>{} : nearest_keys(name)) {
    if (key.size() > name.size() + kFarthest) continue;
    std::string meant(kVariables);
    for (const char c : key) meant += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return meant;
  }
  return "";
}

}  // namespace

const Key& known_key(std::string_view name, const std::string& where) {
  if (const Key* key = find_key(name)) return *key;
  const std::vector<std::string> close = nearest_keys(name);
  refuse(fmt::format("unknown key '{}'", shorten(name, 60)), where,
         close.empty() ? "`moesh help keys` lists all keys" : "did you mean " + join(close, ", ") + "?");
}

namespace {

// Each rule has the source of its list, as later sources may replace some rules of it.
Assignment assigned(const Key& key, Value value, Origin origin) {
  if (auto* rules = std::get_if<std::vector<AxisRule>>(&value)) {
    for (AxisRule& rule : *rules) rule.source = origin.source;
  }
  return {&key, std::move(value), std::move(origin)};
}

}  // namespace

Assignments assignments_of(const YamlNode& root, Source source) {
  if (root.type == YamlNode::Type::null) return {};
  if (root.type != YamlNode::Type::mapping) refuse("a mapping of keys to values was expected", root.where);
  Assignments all;
  for (const YamlNode& node : root.items) {
    if (node.key == kBaseKey) continue;
    const Key& key = known_key(node.key, node.where);
    all.push_back(assigned(key, read_value(key, node), {source, node.where}));
  }
  return all;
}

// Parsed once, because a caller that plans thousands of steps loads settings as often.
const YamlNode& parse_builtin(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, YamlNode> parsed;
  const std::lock_guard lock(mutex);
  if (const auto found = parsed.find(path); found != parsed.end()) return found->second;
  const BuiltinFile* file = find_builtin(path);
  if (file == nullptr) fail("a built-in file is missing: " + path);
  return parsed.emplace(path, parse_yaml(file->text, "configs/" + path)).first->second;
}

Assignments read_inherited(const std::string& path, Source source, std::vector<std::string>& notices) {
  return InheritingReader(source, notices).read(path);
}

Assignments read_own_file(const std::string& path, std::vector<std::string>& notices) {
  if (is_there(path) || stands_for_builtin(path)) return read_inherited(path, Source::file, notices);
  if (!has_file_name(path, "configs/base.yml") && path != "base.yml")
    refuse("no such file", path, "name a YAML file, or leave it out to use the built-in defaults");
  notices.push_back(builtin_base_instead(path));
  return {};
}

CommandLine read_command_line(const std::vector<std::string>& arguments) {
  CommandLine line;
  InnerValues inner;
  for (const std::string& argument : arguments) {
    const std::size_t equals = argument.find('=');
    if (equals == std::string::npos) {
      if (line.file) {
        refuse(fmt::format("a second file, '{}', after '{}'", shorten(argument, 80), shorten(*line.file, 80)), kCommandLine,
               "name one FILE.yml, then key=value");
      }
      line.file = argument;
      continue;
    }
    const std::string name = argument.substr(0, equals), text = argument.substr(equals + 1);
    if (name == kBaseKey) refuse("base_config belongs in a file", kCommandLine, "name FILE.yml");
    if (const Key* parent = parent_of(name)) {
      inner.add(*parent, name.substr(parent->name.size() + 1), text);
      continue;
    }
    const Key& key = known_key(name, kCommandLine);
    line.overrides.push_back(assigned(key, read_value(key, text, kCommandLine), {Source::command_line, kCommandLine}));
  }
  for (Assignment& assignment : inner.all()) line.overrides.push_back(std::move(assignment));
  return line;
}

Assignments read_environment(std::vector<std::string>& notices) {
  Assignments all;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    if (!text.starts_with(kVariables)) continue;
    const std::size_t equals = text.find('=');
    const std::string name(text.substr(0, equals));
    if (name == "M_BASE_CONFIG") refuse("base_config belongs in a file", name, "unset it, and name FILE.yml");
    const std::string key_name = lower(name.substr(kVariables.size()));
    if (const Key* key = find_key(key_name)) {
      all.push_back(assigned(*key, read_value(*key, std::string(text.substr(equals + 1)), name), {Source::environment, name}));
    } else if (const std::string meant = variable_meant_by(key_name); !meant.empty()) {
      notices.push_back(fmt::format("{} in the environment names no key; did you mean {}?", shorten(name, 60), meant));
    }
  }
  return all;
}

const Assignment* last_of(const Assignments& all, std::string_view name) {
  const auto found = std::find_if(all.rbegin(), all.rend(), [&](const Assignment& a) { return a.key->name == name; });
  return found == all.rend() ? nullptr : &*found;
}

Assignments last_of_each(const Assignments& all) {
  Assignments last;
  for (const Assignment& assignment : all) {
    if (last_of(all, assignment.key->name) == &assignment) last.push_back(assignment);
  }
  return last;
}

}  // namespace moesh::config
