// Prepares what generation starts from: the request that opens a model by its path, the number of rows, and a prompt's tokens.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "config/keys.h"
#include "config/settings.h"
#include "session/session.h"
#include "tokenizer/tokenizer.h"

namespace moesh::decode {

inline constexpr std::string_view kWeights = "load_parameters_path=";

// What goes on with texts: a run, a checkpoint or a Hugging Face folder, and settings.
struct Source {
  std::string model;
  config::Keys settings;  // FILE.yml, key=value
};

// The model that a command line names, either by itself or, as in MaxText's commands, by load_parameters_path among the settings.
Source source_of(const std::string& model, const config::Keys& settings);

// Notes settings that only training reads.
void note_idle(const config::Keys& settings);

// The request that opens a Hugging Face folder with its tokenizer, or a run or checkpoint with the settings that it was saved under. They
// override those of a file among the given words; then come `usual` ones, and the other words override all. Decoding uses one device unless
// the words describe a mesh.
config::Keys request_of(const std::string& model, const config::Keys& words, const config::Keys& usual = {});

// Whether a run's setting matters to how its model goes on with texts: its batch, optimizer, data and the like do not, nor
// how the rows of its batches were sent to experts.
bool is_gone_on_with(const std::string& key);

// How many texts are generated at a time: as many as are `asked` for; else, if the user has set per_device_batch_size, what that says;
// else `usual`, rounded up to a multiple of the number of devices.
std::int64_t rows_for(const session::Session& session, std::optional<std::int64_t> asked, std::int64_t usual);

// The most tokens that a prompt and its text have: max_target_length, and no more than a Hugging Face model has positions, unless the
// user has set max_target_length. Notes it if `longest`, of what is asked for, goes beyond the positions.
std::int64_t slots_of(const config::Settings& settings, std::int64_t longest = std::numeric_limits<std::int64_t>::max());

// How a model's texts begin and end.
struct Bounds {
  tokenizer::Ids begin;      // the tokens before a prompt
  bool as_tokenizer = false;  // a prompt has the tokens that its tokenizer adds, but for those that would end it
  tokenizer::Ids ends;       // tokens that end a text
};

// A Hugging Face folder's texts begin as its tokenizer says, unless the user has set add_bos; others with the begin token if add_bos is set
// and the tokenizer has one. They end with the tokenizer's end token, and those that the folder names.
Bounds bounds_of(const tokenizer::Tokenizer& tokenizer, const config::Settings& settings);

tokenizer::Ids prompt_ids(const tokenizer::Tokenizer& tokenizer, const Bounds& bounds, std::string_view prompt);

// Refuses a token outside the vocabulary.
void check_ids(const tokenizer::Ids& ids, std::int64_t vocabulary, std::string_view where);

}  // namespace moesh::decode
