// What texts are made of: a model by its path, what is asked of it, and a prompt's tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings.h"
#include "session/session.h"
#include "tokenizer/tokenizer.h"

namespace moesh::decode {

// The request that opens a Hugging Face folder with its tokenizer, or a run or checkpoint under the settings that it was saved with,
// and on top the words that are given. One device decodes where these name no mesh.
std::vector<std::string> request_of(const std::string& model, const std::vector<std::string>& words);

// How many texts go on at a time: as many as are wanted, or a few more that the devices share evenly; where per_device_batch_size is
// given it says so.
std::int64_t rows_for(const session::Session& session, std::int64_t wanted);

// The tokens of a prompt, with the one that begins texts where add_bos asks for it.
tokenizer::Ids prompt_ids(const tokenizer::Tokenizer& tokenizer, const config::Settings& settings, std::string_view prompt);

// The tokens that end a text, where it does not go on all the same.
tokenizer::Ids end_ids(const tokenizer::Tokenizer& tokenizer, bool ignores_end);

}  // namespace moesh::decode
