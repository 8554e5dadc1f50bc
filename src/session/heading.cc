#include "session/heading.h"

#include <fmt/core.h>

#include "base/text.h"
#include "config/batch_words.h"

namespace moesh::session {
namespace {

std::int64_t length_of(const Session& session) { return session.loaded.settings.integer("max_target_length"); }

// "a token for each of 8 rows, 1 a device; the KV cache has room for 2,048 tokens a row"
std::string decoding_words(const Session& session) {
  const std::int64_t rows = session.batch.rows_to_train, length = session.decodes->new_tokens;
  const std::string what = length == 1 ? "a token" : fmt::format("a prompt of {}", counted(length, "token"));
  return fmt::format("{} for {}{}, {:.4g} a device; the KV cache has room for {} a row", what, rows == 1 ? "" : "each of ",
                     counted(rows, "row"), static_cast<double>(rows) / static_cast<double>(session.mesh.devices()),
                     counted(session.decodes->cache_slots, "token"));
}

}  // namespace

std::string heading(const Session& session) {
  return headline(session) + "\n" +
         (session.decodes ? decoding_words(session) : config::batch_words(session.batch, length_of(session), session.mesh.devices()));
}

std::string batch_json(const Session& session) {
  if (session.decodes) return config::batch_json(session.batch, session.decodes->new_tokens, session.mesh.devices());
  return config::batch_json(session.batch, length_of(session), session.mesh.devices());
}

}  // namespace moesh::session
