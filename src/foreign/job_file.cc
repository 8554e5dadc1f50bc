// Reads the TOML file of a torchtitan job.

#define TOML_HEADER_ONLY 1
#define TOML_ASSERT(expression) static_assert(true)  // no assertions: bad files are errors of the parser, not of the program
#include <toml++/toml.h>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "foreign/torchtitan.h"

namespace moesh::foreign {
namespace {

void add_values(const toml::node& node, std::vector<std::string>& values) {
  if (const auto* list = node.as_array()) {
    for (const toml::node& element : *list) add_values(element, values);
  } else if (const auto* text = node.as_string()) {
    values.push_back(text->get());
  } else if (const auto* number = node.as_integer()) {
    values.push_back(std::to_string(number->get()));
  } else if (const auto* real = node.as_floating_point()) {
    values.push_back(fmt::format("{}", real->get()));
  } else if (const auto* truth = node.as_boolean()) {
    values.emplace_back(truth->get() ? "true" : "false");
  }
}

void add_settings(const toml::table& table, const std::string& prefix, const std::string& where, std::vector<Flag>& settings) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const auto* inner = node.as_table()) {
      add_settings(*inner, name + ".", where, settings);
      continue;
    }
    Flag setting{name, {}, fmt::format("{}:{}: {}", where, node.source().begin.line, shorten(name, 60))};
    add_values(node, setting.values);
    settings.push_back(std::move(setting));
  }
}

}  // namespace

std::vector<Flag> job_settings(const std::string& text, const std::string& where) {
  std::vector<Flag> settings;
  try {
    add_settings(toml::parse(text), "", where, settings);
  } catch (const toml::parse_error& error) {
    refuse(fmt::format("no TOML: {}", shorten(as_utf8(error.description()), 120)), fmt::format("{}:{}", where, error.source().begin.line),
           "correct it there");
  }
  return settings;
}

}  // namespace moesh::foreign
