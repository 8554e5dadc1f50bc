#include "serve/api_error.h"

#include "base/json.h"

namespace moesh::serve {

std::string to_json(const ApiError& error) {
  JsonWriter json;
  const auto text_or_null = [&](const char* key, const std::string& text) {
    json.key(key);
    if (text.empty()) json.null();
    else json.value(text);
  };
  json.begin_object().key("error").begin_object();
  json.key("message").value(error.what()).key("type").value(error.status < 500 ? "invalid_request_error" : "server_error");
  text_or_null("param", error.param);
  text_or_null("code", error.code);
  return json.end_object().end_object().text();
}

}  // namespace moesh::serve
