#include "train/reference_run.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <sys/stat.h>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace moesh::train {
namespace {

using Json = nlohmann::json;

constexpr std::streamoff kMostJson = 64 << 20;
constexpr int kMostDepth = 64;

bool is_file(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

Json read_json(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!is_file(path) || !file) refuse("no such file", path, "name the folder of a recorded run");
  if (file.tellg() > kMostJson) refuse("too large for the description of a run", path);
  file.seekg(0);
  std::ostringstream text;
  text << file.rdbuf();
  if (nests_deeper(text.view(), kMostDepth)) refuse(fmt::format("values nested more than {} deep", kMostDepth), path);
  Json json = Json::parse(text.view(), nullptr, false);
  if (json.is_discarded()) refuse("not readable as JSON", path);
  return json;
}

// JSON values as the command line spells them.
std::string word_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return "null";
  return value.dump();
}

template <typename T>
T member(const Json& object, const char* key, const std::string& where) {
  if (!object.is_object() || !object.contains(key)) refuse(fmt::format("'{}' is missing", key), where);
  try {
    return object[key].get<T>();
  } catch (const Json::exception&) {
    refuse(fmt::format("'{}' is {}, which is not of the type expected", key, shorten(object[key].dump(), 60)),
           where);
  }
}

std::vector<RecordedStep> read_curve(const std::string& path) {
  const Json json = read_json(path);
  if (!json.is_array() || json.empty()) refuse("a list of steps was expected", path);
  std::vector<RecordedStep> curve;
  for (const Json& entry : json) {
    curve.push_back({member<std::int64_t>(entry, "step", path), member<double>(entry, "loss", path),
                     member<double>(entry, "lm_loss", path), member<double>(entry, "moe_lb_loss", path),
                     member<double>(entry, "raw_grad_norm", path), member<double>(entry, "param_norm", path)});
  }
  return curve;
}

std::string parent_of(const std::string& folder) {
  const std::size_t slash = folder.find_last_of('/');
  return slash == std::string::npos ? "." : folder.substr(0, slash);
}

}  // namespace

std::string dotted(std::string path) {
  std::replace(path.begin(), path.end(), '/', '.');
  return path;
}

ReferenceRun read_reference_run(const std::string& given) {
  std::string folder = given;
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  const std::string config_path = folder + "/config.json";
  const Json config = read_json(config_path);
  ReferenceRun run;
  run.name = folder.substr(folder.find_last_of('/') + 1);
  run.request.push_back("model_name=" + member<std::string>(config, "model_name", config_path));
  const Json set = member<Json>(config, "set", config_path);
  for (const auto& [key, value] : set.items()) run.request.push_back(key + "=" + word_of(value));
  run.devices = member<std::int64_t>(config, "devices", config_path);
  const bool own = is_file(folder + "/params.safetensors");
  const std::string from = own ? folder : parent_of(folder) + "/" + member<std::string>(config, "params_from", config_path);
  run.parameters = read_safetensors(from + "/params.safetensors");
  run.batch = read_safetensors(folder + "/batch.safetensors");
  if (is_file(folder + "/expect.safetensors")) run.expect = read_safetensors(folder + "/expect.safetensors");
  run.curve = read_curve(folder + "/curve.json");
  return run;
}

}  // namespace moesh::train
