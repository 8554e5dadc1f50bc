#include "forecast/decoding.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "base/table.h"
#include "base/text.h"
#include "forecast/forecast.h"
#include "forecast/report.h"
#include "sharding/report.h"

namespace moesh::forecast {
namespace {

std::int64_t parameter_bytes(const Forecast& f) { return f.memory.of(Component::parameters); }

double bytes_a_row(const Decoding& of) { return static_cast<double>(of.cache_bytes()) / static_cast<double>(of.rows); }

std::string room_words(const Forecast& f) {
  const std::optional<MostRows>& most = f.decoding->most;
  if (!most) return "";
  if (most->rows == 0) {
    return fmt::format("Not a single row fits: the weights take {} a device, and the KV cache of a row {}.\n",
                       human_bytes(parameter_bytes(f)), human_bytes(bytes_a_row(*f.decoding)));
  }
  return fmt::format("At most {} {}: per_device_batch_size={}.\n", counted(most->rows, "row"), most->rows == 1 ? "fits" : "fit",
                     most->per_device_batch_size);
}

// Tensors that are alike and have the same name, in layers that are not scanned.
struct Alike {
  const CacheTensor* first;
  std::int64_t count;
};

std::string_view last_name(const CacheTensor& tensor) { return std::string_view(tensor.path).substr(tensor.path.rfind('/') + 1); }

bool are_alike(const CacheTensor& a, const CacheTensor& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.spec == b.spec && last_name(a) == last_name(b);
}

std::vector<Alike> alike_tensors(const Decoding& of) {
  std::vector<Alike> all;
  for (const CacheTensor& tensor : of.cache) {
    const auto known = std::find_if(all.begin(), all.end(), [&](const Alike& alike) { return are_alike(*alike.first, tensor); });
    if (known != all.end())
      ++known->count;
    else
      all.push_back({&tensor, 1});
  }
  return all;
}

}  // namespace

std::int64_t Decoding::cache_bytes() const {
  std::int64_t bytes = 0;
  for (const CacheTensor& tensor : cache) bytes += tensor.bytes;
  return bytes;
}

Decoding decoding_of(const sharding::Layout& layout, std::int64_t rows, std::int64_t new_tokens, std::int64_t slots) {
  Decoding made{rows, new_tokens, slots, {}, {}};
  for (const sharding::LaidTensor& tensor : layout.states) {
    made.cache.push_back({tensor.path, tensor.dtype, tensor.shape, sharding::spec_words(tensor.spec, layout.mesh),
                          bytes_per_device(tensor, layout.mesh), replicas(tensor, layout.mesh)});
  }
  std::stable_sort(made.cache.begin(), made.cache.end(), [](const CacheTensor& a, const CacheTensor& b) { return a.bytes > b.bytes; });
  return made;
}

std::string step_words(const Forecast& f) { return !f.decoding ? "a step" : f.decoding->is_prompt() ? "a prompt" : "a token"; }

std::string_view option_words(const Forecast& f) { return !f.decoding ? "" : f.decoding->is_prompt() ? "--prefill " : "--decode "; }

std::string rate_words(double tokens_per_second) {
  return tokens_per_second < 100 ? fmt::format("{:.1f}", tokens_per_second) : with_commas(std::llround(tokens_per_second));
}

std::string most_rows_words(const Decoding& of) {
  if (!of.most) return "";
  return of.most->rows == 0 ? "none" : with_commas(of.most->rows);
}

std::string decoding_words(const Forecast& f) {
  const Decoding& of = *f.decoding;
  const std::string what = of.is_prompt() ? fmt::format("A prompt of {}", counted(of.new_tokens, "token")) : "A token";
  const double all = static_cast<double>(of.rows * of.new_tokens) / f.seconds;
  return room_words(f) +
         fmt::format("{} for {}{} takes {}: {} tokens/s, {} a device.\n", what, of.rows == 1 ? "" : "each of ", counted(of.rows, "row"),
                     human_seconds(f.seconds), rate_words(all), rate_words(f.tokens_per_second_per_device)) +
         fmt::format("Kernels run for {} of it; {} are communication that they wait for.\n", human_seconds(f.kernels),
                     human_seconds(f.exposed));
}

std::string cache_table(const Decoding& of, int width) {
  Table table({{"KV cache", false, Room::cut_start},
               {"tensors", true, Room::none, 2},
               {"of shape", false, Room::none, 1},
               {"spec"},
               {"a device", true},
               {"copies", true}});
  for (const Alike& alike : alike_tensors(of)) {
    const CacheTensor& first = *alike.first;
    table.add({first.path, with_commas(alike.count), fmt::format("{}{}", moesh::name_of(first.dtype), to_string(first.shape)), first.spec,
               human_bytes(alike.count * first.bytes), with_commas(first.copies)});
  }
  const std::string copies = of.cache.front().copies == 1 ? "" : fmt::format("; {} devices hold the same part", of.cache.front().copies);
  return table.text(width) + wrapped(fmt::format("The KV cache takes {} a device, {} for each row{}.\n", human_bytes(of.cache_bytes()),
                                                 human_bytes(bytes_a_row(of)), copies),
                                     width, 2);
}

void write_decoding(const Forecast& f, JsonWriter& json) {
  const Decoding& of = *f.decoding;
  json.begin_object().key("rows").value(of.rows).key("new_tokens").value(of.new_tokens).key("cache_slots").value(of.slots);
  json.key("tokens_per_second").value(static_cast<double>(of.rows * of.new_tokens) / f.seconds);
  if (of.most) json.key("most_rows").value(of.most->rows).key("most_per_device_batch_size").value(of.most->per_device_batch_size);
  json.line().key("kv_cache").begin_object().key("bytes_per_device").value(of.cache_bytes());
  json.key("bytes_per_device_and_row").value(bytes_a_row(of)).key("tensors").begin_array();
  for (const CacheTensor& tensor : of.cache) {
    json.line().begin_object().key("path").value(tensor.path).key("dtype").value(moesh::name_of(tensor.dtype));
    json.key("shape").values(tensor.shape).key("spec").value(tensor.spec).key("bytes_per_device").value(tensor.bytes);
    json.key("copies").value(tensor.copies).end_object();
  }
  json.line().end_array().end_object().end_object();
}

}  // namespace moesh::forecast
