// The fuzz targets, one function each. The regression tests pass the inputs that were found to the same functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_reader.h"
#include "base/log.h"
#include "config/hugging_face.h"
#include "config/load.h"
#include "config/schema.h"
#include "config/yaml.h"
#include "data/json_lines.h"
#include "data/megatron.h"
#include "foreign/import.h"
#include "foreign/torchtitan.h"
#include "fuzz/harness.h"
#include "graph/parse.h"
#include "graph/print.h"
#include "mesh/hardware.h"
#include "mesh/topology.h"
#include "plan/arena.h"
#include "plan/compare.h"
#include "plan/file.h"
#include "plan/json.h"
#include "plan/print.h"
#include "serve/api_error.h"
#include "serve/completion.h"
#include "session/session.h"
#include "sharding/diff.h"
#include "sharding/dump.h"
#include "sharding/lint.h"
#include "sharding/report.h"
#include "sharding/why.h"
#include "store/index.h"
#include "store/safetensors.h"
#include "tokenizer/bytes.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/unicode.h"

namespace moesh::fuzz {

// A broken invariant ends the run as a crash does.
inline void require(bool holds) {
  if (!holds) std::abort();
}

inline std::size_t read_everything(const config::YamlNode& node) {
  accept_errors([&] { config::yaml_text(node, "a value"); });
  accept_errors([&] { config::yaml_real(node, "a value"); });
  std::size_t nodes = 1;
  for (const config::YamlNode& item : node.items) nodes += read_everything(item);
  return nodes;
}

// The input is a YAML document. It must be read into a tree within the limits.
inline void fuzz_yaml(std::string_view input) {
  accept_errors([&] {
    const config::YamlLimits limits;
    require(read_everything(config::parse_yaml(input, "fuzz.yml", limits)) <= limits.nodes);
  });
}

// Each device holds one shard of every tensor, so the number of shards times the number of replicas is the number of devices.
inline void require_sound(const sharding::Layout& layout) {
  for (const auto* tensors : {&layout.parameters, &layout.activations, &layout.moments}) {
    for (const sharding::LaidTensor& tensor : *tensors) {
      require(tensor.spec.dims.size() == tensor.shape.size());
      require(sharding::shards(tensor.spec, layout.mesh) * sharding::replicas(tensor, layout.mesh) ==
              layout.mesh.devices());
      require(sharding::bytes_per_device(tensor, layout.mesh) >= 0);
    }
  }
}

// Makes every report about a layout. `why` explains only the first tensors, since it would be by far the slowest on a large model.
inline void tell_everything(const session::Session& session) {
  constexpr std::size_t kMostExplained = 64;
  const sharding::Layout& layout = session.layout;
  require_sound(layout);
  session::headline(session);
  sharding::to_json(layout);
  sharding::report(layout, {"", true, 100});
  const std::vector<sharding::Finding> findings = sharding::lint(layout, {session.batch.micro_rows});
  sharding::to_text(findings);
  sharding::to_json(findings);
  for (const auto* tensors : {&layout.parameters, &layout.activations}) {
    for (std::size_t i = 0; i < tensors->size() && i < kMostExplained; ++i) {
      sharding::why(layout, (*tensors)[i]);
      sharding::why_json(layout, (*tensors)[i]);
    }
  }
}

// The input is a command line, one word per line. Half of the inputs are opened as by `lint`, which reports what other commands refuse.
inline void fuzz_overrides(std::string_view input) {
  std::vector<std::string> words;
  for (std::string& word : split(input, '\n')) {
    if (names_a_file(word)) return;
    if (!word.empty()) words.push_back(std::move(word));
  }
  const session::Evenness evenness = input.size() % 2 == 0 ? session::Evenness::demanded : session::Evenness::reported;
  accept_errors([&] {
    const session::Session session = session::open(words, evenness);
    graph::to_text(session.graph);
    tell_everything(session);
  });
}

// A small model, so that a run spends its time on the rules.
inline std::vector<std::string> small_request() {
  return {"base_num_decoder_layers=2", "base_emb_dim=64", "base_mlp_dim=128", "base_num_query_heads=8",
          "base_num_kv_heads=4",       "head_dim=16",     "vocab_size=256",   "max_target_length=32",
          "compile_topology=cpu-8",    "attention=dot_product"};
}

// The layout under the default rules, cached while inputs have the same words.
inline const sharding::Layout& default_layout(const std::vector<std::string>& words) {
  static std::vector<std::string> kept_words;
  static std::unique_ptr<const session::Session> kept;
  if (kept == nullptr || words != kept_words) {
    kept = std::make_unique<const session::Session>(session::open(words, session::Evenness::reported));
    kept_words = words;
  }
  return kept->layout;
}

// The input is a file of rules. Its comments may add key=value words: axis sizes, a model with experts.
inline void fuzz_rules(std::string_view input) {
  static const ScratchFile file(".yml");
  std::vector<std::string> words = small_request();
  for (const std::string& line : split(input, '\n')) {
    if (!line.starts_with("#")) continue;
    for (std::string& word : split(line, ' ')) {
      if (names_a_file(word)) return;
      if (word.find('=') != std::string::npos) words.push_back(std::move(word));
    }
  }
  accept_errors([&] {
    const sharding::Layout& before = default_layout(words);
    file.write(input);
    words.push_back("custom_mesh_and_rule=" + file.path());
    const session::Session after = session::open(words, session::Evenness::reported);
    tell_everything(after);
    const sharding::LayoutDiff changes = sharding::diff(before, after.layout);
    sharding::to_text(changes, {true, 100});
    sharding::to_json(changes);
  });
}

// The first line of the input is a topology's name, perhaps with a number of slices. The rest is a hardware file, to which the name
// ":SIZE" refers.
inline void fuzz_hardware(std::string_view input) {
  static const ScratchFile file(".yml");
  const std::vector<std::string> asked = split(first_line(input), ' ');
  const std::string_view text = after_first_line(input);
  const bool of_file = asked[0].empty() || asked[0].starts_with(':');
  if (!of_file && names_a_file(asked[0])) return;
  accept_errors([&] { mesh::load_chip(config::parse_yaml(text, "fuzz.yml"), "fuzz"); });
  accept_errors([&] {
    if (of_file) file.write(text);
    const std::int64_t slices = asked.size() > 1 ? parse_integer(asked[1]).value_or(1) : 1;
    const mesh::Topology topology = mesh::find_topology((of_file ? file.path() : "") + asked[0], slices);
    require(topology.devices() >= 1 && topology.grid.size() == topology.wrap.size());
  });
}

// The input is a printed graph. If it can be read, printing it gives text that reads as the same graph.
inline void fuzz_graph(std::string_view input) {
  accept_errors([&] {
    const auto print = [](const graph::ParsedGraph& parsed) { return graph::to_text(parsed.graph, parsed.mesh ? &*parsed.mesh : nullptr); };
    const std::string text = print(graph::parse_graph(std::string(input)));
    require(print(graph::parse_graph(text)) == text);
  });
}

// The plan with the right hash and the version of this program, without which every input would be refused.
inline std::string with_good_head(std::string_view plan) {
  const std::string blank = plan::file_text({}, {});
  const std::string version(first_line(after_first_line(blank)));
  return plan::with_hash(version + "\n" + std::string(after_first_line(after_first_line(plan))));
}

// The input is a saved plan. If it can be read, it can be saved as a file that reads the same, and it can be compared and printed.
inline void fuzz_plan(std::string_view input) {
  accept_errors([&] { plan::parse_file(std::string(input), "fuzz"); });
  accept_errors([&] {
    const plan::SavedPlan saved = plan::parse_file(with_good_head(input), "fuzz");
    const std::string text = plan::file_text(saved.plan, saved.origin);
    const plan::SavedPlan again = plan::parse_file(text, "fuzz");
    require(plan::file_text(again.plan, again.origin) == text && again.origin == saved.origin);
    require(plan::first_difference(saved.plan, again.plan).empty());
    plan::to_text(saved.plan);
    plan::to_json(saved.plan);
  });
}

// The input is a safetensors file, read from memory and from disk. Every tensor lies within it, so reading all of them costs at most a
// few times its bytes, unless tensors share bytes.
inline void fuzz_safetensors(std::string_view input) {
  static const ScratchFile scratch(".safetensors");
  const auto* data = reinterpret_cast<const std::byte*>(input.data());
  accept_errors([&] {
    const auto tensors = store::parse_safetensors(data, input.size(), "fuzz");
    for (const auto& [name, tensor] : tensors) {
      require(tensor.bytes >= 0 && elements(tensor.shape) * size_of(tensor.type) == tensor.bytes);
      require(tensor.data >= data && tensor.bytes <= data + input.size() - tensor.data);
      require(tensor.values().size() == static_cast<std::size_t>(elements(tensor.shape)));
    }
  });
  accept_errors([&] {
    scratch.write(input);
    const store::TensorFile file = store::read_safetensors(scratch.path());
    for (const auto& [name, tensor] : file.tensors) require(file.at(name).data == tensor.data);
    file.at("a");
  });
}

// The input is the config.json of a Hugging Face folder. It either gives a model with a shape or is refused.
inline void fuzz_hugging_face(std::string_view input) {
  accept_errors([&] {
    config::Settings settings;
    for (const config::HuggingFaceKey& given : config::hugging_face_keys_in(std::string(input), "fuzz")) {
      const config::Key* key = config::find_key(given.key);
      require(key != nullptr);
      settings.set(given.key, config::read_value(*key, given.value, given.where), {config::Source::preset, given.where});
    }
    const config::ModelShape shape = config::model_shape(settings);
    require(shape.layers_per_cycle() > 0 && shape.layers > 0);
  });
}

// The input is the index of a checkpoint, also with the right hash added, so that the fuzzer gets past that check. An index that is
// accepted keeps all rules that readers rely on, and is written as it was read.
inline void fuzz_index(std::string_view input) {
  accept_errors([&] { store::parse_index(input, "fuzz"); });
  accept_errors([&] {
    const store::Index index = store::parse_index(store::sealed(input), "fuzz");
    for (const auto& [name, tensor] : index.tensors) {
      std::int64_t held = 0;
      for (const store::Piece& piece : tensor.pieces) {
        require(piece.file < index.files.size());
        const store::Chunks chunks(piece.block, tensor.dtype);
        require(chunks.count() == static_cast<std::int64_t>(piece.hashes.size()));
        if (chunks.count() > 0) {
          const std::int64_t last = chunks.count() - 1;
          require(piece.offset + chunks.offset(last) + chunks.bytes(last) <= index.files[piece.file].bytes);
        }
        held += store::elements_of(piece.block);
      }
      require(held == elements(tensor.shape));
    }
    const std::string text = store::to_json(index);
    require(store::to_json(store::parse_index(text, "fuzz")) == text);
  });
}

// Checks the tokens of a text: the ids are those of the pieces, whose bytes lie within the text, and they decode to valid UTF-8.
inline void require_sound(const tokenizer::Tokenizer& tokenizer, std::string_view text) {
  using tokenizer::Special;
  for (const Special special : {Special::added, Special::left_out}) {
    const tokenizer::Ids ids = tokenizer.encode(text, special);
    const std::vector<tokenizer::Piece> pieces = tokenizer.pieces(text, special);
    require(ids.size() == pieces.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      require(ids[i] == pieces[i].id && ids[i] >= 0 && ids[i] < tokenizer.size());
      require(pieces[i].begin >= 0 && pieces[i].begin <= pieces[i].end && pieces[i].end <= static_cast<std::int64_t>(text.size()));
    }
    require(is_valid_utf8(tokenizer.decode(ids, special)));
  }
}

// The input is a line of text, then a tokenizer.json.
inline void fuzz_tokenizer(std::string_view input) {
  accept_errors([&] {
    const auto tokenizer = tokenizer::read_tokenizer_json(parse_json(after_first_line(input), "fuzz"), "fuzz");
    require_sound(*tokenizer, first_line(input));
  });
}

// The tokenizers that texts are tried on, chosen to cover all kinds of parts. `folder` contains them.
inline std::vector<std::unique_ptr<tokenizer::Tokenizer>> tokenizers_of(const std::string& folder) {
  std::vector<std::unique_ptr<tokenizer::Tokenizer>> all;
  for (const char* name : {"bytelevel-gpt2", "bytelevel-llama3", "spm-bpe", "spm-unigram", "bert-uncased", "t5", "uni-bytes", "llama-spm",
                           "added", "old-bpe", "edges", "nmt"}) {
    all.push_back(tokenizer::open(folder + "/" + name));
  }
  return all;
}

// The input is any bytes as a text. The first tokenizer loses nothing but invalid UTF-8.
inline void fuzz_text(std::string_view input, const std::vector<std::unique_ptr<tokenizer::Tokenizer>>& tokenizers) {
  for (const auto& tokenizer : tokenizers) require_sound(*tokenizer, input);
  const tokenizer::Ids ids = tokenizers.front()->encode(input, tokenizer::Special::added);
  require(tokenizers.front()->decode(ids, tokenizer::Special::added) == tokenizer::repaired(input));
}

// The input is a request to /v1/completions. If it is accepted, it keeps the server's limits; if it is refused, the refusal is JSON.
inline void fuzz_completion(std::string_view input) {
  static const std::unique_ptr<tokenizer::Tokenizer> tokenizer = tokenizer::bytes();
  static const serve::Served served{"m", *tokenizer, {}, {}, {}, 32, 200, 20, 8};
  try {
    const serve::Completion asked = serve::parse_completion(input, served);
    require(asked.texts() >= 1 && asked.texts() <= 8);
    for (const serve::AskedPrompt& prompt : asked.prompts) {
      require(!prompt.ids.empty() && prompt.most_tokens >= 1 && prompt.most_tokens <= 20);
      require(static_cast<std::int64_t>(prompt.ids.size()) + prompt.most_tokens <= 32);
      for (const std::int32_t id : prompt.ids) require(id >= 0 && id < 200);
    }
  } catch (const serve::ApiError& error) {
    require(error.status >= 400 && error.status < 500 && !parse_json(serve::to_json(error), "fuzz")["error"]["message"].empty());
  }
}

// Checks that all documents of a data set lie within its tokens, one after the other.
inline void require_sound(const data::DocumentReader& reader) {
  data::Documents documents;
  for (std::int64_t block = 0; block < reader.blocks(); ++block) reader.read(block, documents);
  require(std::is_sorted(documents.begins.begin(), documents.begins.end()));
  require(documents.begins.empty() == documents.tokens.empty() && (documents.begins.empty() || documents.begins.back() < documents.size()));
  require(std::cmp_less_equal(documents.begins.size(), documents.seen));
}

// The input is JSON Lines, read as texts and as token ids.
inline void fuzz_lines(std::string_view input) {
  static const ScratchFile file(".jsonl");
  static const config::Settings settings = config::load({"vocab_size=300"}).settings;
  static const auto tokens = std::make_shared<const data::DocumentTokens>(settings);
  if (input.empty()) return;
  file.write(input);
  for (const auto& of : {tokens, std::shared_ptr<const data::DocumentTokens>()}) {
    accept_errors([&] { require_sound(*data::read_json_lines(data::DataFiles(file.path()), {"text", of}, settings)); });
  }
}

// The input is a byte that sets the length of a file of token ids, then the index of that file.
inline void fuzz_megatron(std::string_view input) {
  static const ScratchFile index(".idx");
  static const std::string stem = index.path().substr(0, index.path().size() - 4);
  static const config::Settings settings = config::load({"vocab_size=300"}).settings;
  if (input.size() < 2) return;
  index.write(input.substr(1));
  std::ofstream(stem + ".bin", std::ios::binary) << std::string(1 + static_cast<unsigned char>(input[0]), '\0');
  accept_errors([&] { require_sound(*data::read_megatron(stem, {}, settings)); });
  std::filesystem::remove(stem + ".bin");
}

// The input is a byte that chooses the program, then its command or job; commands that name a file are skipped. Every key of the
// translation exists.
inline void fuzz_foreign(std::string_view input) {
  if (input.size() < 2) return;
  const std::string text(input.substr(1));
  std::vector<std::string> keys;
  accept_errors([&] {
    if (input[0] % 3 == 2) {
      for (const foreign::Flag& setting : foreign::job_settings(text, "job.toml")) require(!setting.where.empty());
    } else if (text[0] != '@' && text.find(".toml") == std::string::npos) {
      keys = foreign::from_program(input[0] % 3 == 0 ? "megatron" : "torchtitan", text, {}).keys;
    }
  });
  for (const std::string& word : keys) require(config::find_key(word.substr(0, word.find('='))) != nullptr);
  accept_errors([&] { config::load(keys); });
}

}  // namespace moesh::fuzz
