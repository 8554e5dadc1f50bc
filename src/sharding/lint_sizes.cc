#include <algorithm>
#include <set>

#include <fmt/core.h>

#include "base/rounding.h"
#include "base/text.h"
#include "config/batch_words.h"
#include "sharding/labels.h"
#include "sharding/lint_checks.h"
#include "sharding/report.h"

namespace moesh::sharding {
namespace {

// Dims of one size on the same axes, which the same changes fix.
struct Uneven {
  std::int64_t size = 0;
  AxisList axes;
  Severity severity = Severity::warning;
  std::set<std::string> labels;
  std::vector<std::string> places;

  std::string key(const mesh::Mesh& mesh) const { return fmt::format("{} over {}", size, axis_names(axes, mesh)); }
};

constexpr double kIdleWorthSaying = 1.1;  // the least ratio of an activation's padded size to its size that is reported

bool is_worth_saying(std::int64_t size, std::int64_t blocks) {
  const std::int64_t block = divide_up(size, blocks);
  return static_cast<double>(block * blocks) >= kIdleWorthSaying * static_cast<double>(size);
}

bool is_of_rows(const LaidTensor& tensor, std::size_t dim, const LintOptions& options) {
  return labels::is_batch(tensor.labels()[dim]) && tensor.shape[dim] == options.rows;
}

// Rows of a pass and of the batch are the matter of find_small_batch.
std::vector<Uneven> uneven_dims(const Layout& layout, const LintOptions& options) {
  std::map<std::string, Uneven> found;
  const auto see = [&](const LaidTensor& tensor, Severity severity, std::size_t first_dim = 0) {
    for (std::size_t dim = first_dim; dim < tensor.shape.size(); ++dim) {
      const std::int64_t size = tensor.shape[dim], blocks = shards(tensor.spec.dims[dim], layout.mesh);
      const std::string& label = tensor.labels()[dim];
      if (size % blocks == 0 || is_of_rows(tensor, dim, options)) continue;
      if (severity == Severity::warning && !is_worth_saying(size, blocks)) continue;
      const Spec slim = without_size_one({{tensor.spec.dims[dim]}, {}}, layout.mesh);
      Uneven one{size, slim.dims[0], severity, {}, {}};
      Uneven& known = found.try_emplace(one.key(layout.mesh), one).first->second;
      known.severity = std::min(known.severity, severity);
      known.labels.insert(label);
      if (known.severity == severity) known.places.push_back(tensor.path);
    }
  };
  see(layout.input, Severity::error, 1);
  for (const LaidTensor& tensor : layout.parameters) see(tensor, Severity::error);
  for (const LaidTensor& tensor : layout.activations) see(tensor, tensor.must_divide ? Severity::error : Severity::warning);
  std::vector<Uneven> all;
  for (const auto& [key, one] : found) all.push_back(one);
  return all;
}

constexpr std::int64_t kMostDivisors = 64;

std::string divisors_of(std::int64_t size) {
  std::vector<std::string> words;
  for (std::int64_t d = 1; d <= std::min(size, kMostDivisors); ++d) {
    if (size % d == 0) words.push_back(std::to_string(d));
  }
  return join(words, ", ") + (size > kMostDivisors ? ", ..." : "");
}

// First each axis shrunk to the largest size that divides the dim, then other rule sets, then rules that leave the dim unsharded.
std::vector<Keys> ways_to_divide(const Uneven& one, const Layout& layout, const LintOptions& options) {
  const mesh::Mesh& mesh = layout.mesh;
  const std::int64_t blocks = shards(one.axes, mesh);
  std::vector<Keys> tries;
  for (const AxisIndex axis : one.axes) {
    const std::int64_t ici = mesh.axis(axis).ici;
    for (std::int64_t size = ici - 1; size >= 1; --size) {
      if (ici % size != 0 || one.size % (blocks / ici * size) != 0) continue;
      add_tries(given_away(layout, axis, size), tries);
      break;
    }
  }
  add_tries(other_sets(options.sets), tries);
  Rules whole;
  for (const std::string& label : one.labels) whole[label] = {{}};
  add_try(with_rules(layout, whole), tries);
  return tries;
}

std::string labels_of(const Uneven& one) {
  std::vector<std::string> labels(one.labels.begin(), one.labels.end());
  return join(labels, ", ");
}

}  // namespace

void find_uneven(const Layout& layout, const LintOptions& options, Findings& findings) {
  for (const Uneven& one : uneven_dims(layout, options)) {
    const std::int64_t blocks = shards(one.axes, layout.mesh);
    const std::int64_t block = divide_up(one.size, blocks);
    const std::int64_t used = divide_up(one.size, block);
    Finding f{one.severity, Check::uneven, one.key(layout.mesh),
              fmt::format("{} of size {} does not divide over {} ({}); it divides over {}", labels_of(one), one.size,
                          counted(blocks, "shard"), axis_names(one.axes, layout.mesh), divisors_of(one.size)),
              few_of(one.places),
              one.severity == Severity::error
                  ? "it cannot be laid out so"
                  : fmt::format("blocks of {}: {} of {} shards hold anything", block, used, blocks),
              "choose axis sizes that divide it"};
    f.tries = ways_to_divide(one, layout, options);
    findings.push_back(std::move(f));
  }
}

namespace {

// First fewer devices for the batch and more for the length or the model, then other rule sets, then other batch sizes.
std::vector<Keys> ways_to_feed(const Layout& layout, const LintOptions& options, const AxisList& axes) {
  const mesh::Mesh& mesh = layout.mesh;
  const std::int64_t blocks = shards(axes, mesh);
  std::vector<Keys> tries;
  for (const AxisIndex axis : axes) {
    const std::int64_t ici = mesh.axis(axis).ici;
    for (std::int64_t size = ici - 1; size >= 1; --size) {
      if (ici % size != 0 || options.rows % (blocks / ici * size) != 0) continue;
      for (const char* name : {"context", "tensor"}) {
        const auto to = mesh.find(name);
        if (!to) continue;
        add_try(moved(mesh, axis, size, *to), tries);
      }
      break;
    }
  }
  add_tries(other_sets(options.sets), tries);
  const std::int64_t more = round_up(std::max(options.rows, layout.input.shape.front()), blocks);
  const std::int64_t fewer = options.rows / blocks * blocks;
  if (fewer > 0) tries.push_back({config::batch_key(config::rows_a_device(fewer, mesh.devices()))});
  tries.push_back({config::batch_key(config::rows_a_device(more, mesh.devices()))});
  return tries;
}

// The axes of the rows of a pass that must divide over them and do not; nothing if there are none.
const AxisList* strict_axes(const Layout& layout, const LintOptions& options) {
  for (const LaidTensor& tensor : layout.activations) {
    for (std::size_t dim = 0; dim < tensor.shape.size() && tensor.must_divide; ++dim) {
      const AxisList& axes = tensor.spec.dims[dim];
      if (is_of_rows(tensor, dim, options) && options.rows % shards(axes, layout.mesh) != 0) return &axes;
    }
  }
  return nullptr;
}

}  // namespace

void find_small_batch(const Layout& layout, const LintOptions& options, Findings& findings) {
  const bool is_loaded_evenly = layout.input.shape.front() % shards(layout.input.spec.dims.front(), layout.mesh) == 0;
  const AxisList* strict = is_loaded_evenly ? strict_axes(layout, options) : nullptr;
  const AxisList& axes = strict != nullptr ? *strict : layout.input.spec.dims.front();
  const std::int64_t blocks = shards(axes, layout.mesh);
  const std::string on = axis_names(axes, layout.mesh);
  Finding f;
  f.check = Check::small_batch;
  f.about = "the batch";
  f.where = fmt::format("{}, over {}", strict != nullptr ? "the rows that experts take" : "the input", on);
  if (!is_loaded_evenly || strict != nullptr) {
    f.severity = Severity::error;
    f.what =
        strict != nullptr
            ? fmt::format("a pass of {} does not divide over the {} shards of the experts' batch", counted(options.rows, "row"), blocks)
            : fmt::format("a batch of {} does not divide over {} shards", counted(layout.input.shape.front(), "row"), blocks);
    f.cost = "it cannot be laid out so";
  } else if (options.rows % blocks != 0 && is_worth_saying(options.rows, blocks)) {
    const std::int64_t block = divide_up(options.rows, blocks);
    const std::int64_t used = divide_up(options.rows, block);
    f.what = options.rows < blocks
                 ? fmt::format("a pass of {} is smaller than the {} shards of its batch", counted(options.rows, "row"), blocks)
                 : fmt::format("a pass of {} does not divide over the {} shards of its batch", counted(options.rows, "row"), blocks);
    f.cost = used < blocks ? fmt::format("{} of {} shards get no row", blocks - used, blocks)
                           : fmt::format("the last of {} shards has {} where the others have {}", blocks,
                                         counted(options.rows - (used - 1) * block, "row"), block);
  } else {
    return;
  }
  f.fix = "raise per_device_batch_size, or let an axis carry the length instead";
  f.tries = ways_to_feed(layout, options, axes);
  findings.push_back(std::move(f));
}

}  // namespace moesh::sharding
