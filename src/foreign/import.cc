#include "foreign/import.h"

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "base/whole_file.h"
#include "config/hugging_face.h"
#include "foreign/megatron.h"
#include "foreign/script.h"
#include "foreign/torchtitan.h"

namespace moesh::foreign {
namespace {

std::string text_of(const std::string& text) {
  if (!text.starts_with('@')) return text;
  return read_file(text.substr(1), "the command", kMostBytes, "name a file with the command, or give it in quotes");
}

}  // namespace

Imported from_program(const std::string& program, const std::string& text, const std::vector<std::string>& own) {
  const bool is_megatron = program == "megatron";
  if (!is_megatron && program != "torchtitan") {
    refuse(fmt::format("--from {}: megatron or torchtitan was expected", shorten(program, 40)), kCommandLine,
           "--from megatron \"--num-layers 32 ...\"");
  }
  const std::string where = "--from " + program;
  const Script script = read_script(text_of(text), where);
  const std::vector<ShellWord> words = shell_words(script.command, where);
  if (words.empty()) refuse("no command", where, "give it in quotes, or @FILE with it");
  Imported made = is_megatron ? from_megatron(words, own) : from_torchtitan(words, own);
  for (const std::string& assumed : script.assumed) made.notes.insert(made.notes.begin(), {Note::Kind::assumed, assumed});
  return made;
}

Imported from_hugging_face(const std::string& path, const std::vector<std::string>& own) {
  if (!config::is_hugging_face(path))
    refuse(fmt::format("'{}' has no description of a model", shorten(path, 80)), "--hf", "name a folder with a Hugging Face config.json");
  Translation translation(own);
  translation.give("model_name", path);
  return translation.take();
}

}  // namespace moesh::foreign
