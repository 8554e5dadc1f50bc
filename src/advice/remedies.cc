#include "advice/remedies.h"

#include <algorithm>
#include <tuple>

#include <fmt/core.h>

#include "advice/factorings.h"
#include "advice/fit.h"
#include "base/error.h"
#include "base/shell.h"
#include "base/table.h"
#include "base/text.h"
#include "config/batch_words.h"
#include "forecast/report.h"

namespace moesh::advice {
namespace {

// What an offer costs besides the time of a token, the least first.
enum class Price : std::uint8_t { nothing, tokens, numbers, devices };

// The kind of a change; the best change of each kind is offered.
enum class Kind : std::uint8_t { pieces, remat, chunks, rules, axes, moments, host, together, passes, batch, types, machine };

struct Tried {
  Kind kind;
  Offer offer;
};

constexpr std::size_t kMostFactorings = 16;  // factorings that are planned, those with the least state
constexpr std::size_t kMostOffers = 5;
constexpr std::int64_t kMostTimesLarger = 64;
constexpr std::int64_t kMostMerged = 16;  // passes that are taken as one
constexpr int kMostMachines = 2;          // machines that are looked for: the smallest that fits, and the next if it is clearly faster
constexpr double kFasterFit = 1.2;        // the least speed-up, for each device, for which the next machine is offered too
constexpr double kAsFast = 0.98;          // the least speed, relative to that on more devices, for which more are not offered
constexpr int kTrialsOfLayouts = 40;      // if fewer trials are left, batches are tried before layouts

class Search {
 public:
  Search(const Request& request, const session::Session& session, const forecast::Forecast& forecast)
      : request_(request),
        session_(session),
        settings_(session.loaded.settings),
        unheld_(forecast.unheld),
        is_narrow_(forecast.fits()),
        least_(forecast.memory.peak),
        left_(most_trials(session)) {}

  Remedies run() {
    if (left_ >= kTrialsOfLayouts || settings_.boolean("scan_layers") || !try_what_helps_scanned()) try_all();
    return result();
  }

 private:
  void try_all() {
    if (is_narrow_) try_pieces();
    if (left_ < kTrialsOfLayouts) try_batches();
    try_layouts();
    if (!fits_here()) try_together();
    if (left_ > 0 && !has_batches()) try_batches();
    if (!fits_here()) try_types();
    try_machines();
  }

  // Where layers are not scanned, so that a plan takes long: tries only what helps the same model with scanned layers. False if that
  // model cannot be planned.
  bool try_what_helps_scanned() {
    const Keys scan{"scan_layers=true"};
    const std::optional<Planned> scanned = try_keys(request_, scan);
    if (!scanned) return false;
    const auto with = [&](const Keys& more) { return request_.with(joined(scan, more)); };
    const Request request = request_.is_translated() ? Request(request_.with(scan), with, request_.engine()) : Request(request_.with(scan));
    Search search(request, scanned->session, scanned->step.forecast);
    search.try_all();
    const Remedies found = search.result();
    std::vector<Offer> helpful = found.offers;
    if (found.nearest) helpful.push_back(*found.nearest);
    left_ = static_cast<int>(helpful.size());
    for (const Offer& offer : helpful) attempt(search.kind_of(offer), offer.keys);
    others_tried_ = std::max(0, found.tried - static_cast<int>(helpful.size()));
    return true;
  }

  Kind kind_of(const Offer& offer) const {
    return std::find_if(tried_.begin(), tried_.end(), [&](const Tried& tried) { return tried.offer.keys == offer.keys; })->kind;
  }

  // Nothing if no trial is left or the change cannot be planned, as when the machine does not exist or the axes do not divide the batch.
  std::optional<Offer> attempt(Kind kind, const Keys& keys) {
    if (left_ <= 0) return std::nullopt;
    std::optional<session::Session> session = lay_out_keys(request_, keys);
    if (!session) return std::nullopt;
    --left_;
    const std::optional<Planned> planned = try_plan(std::move(*session));
    if (!planned) return std::nullopt;
    tried_.push_back({kind, offer_of(keys, *planned)});
    tried_.back().offer.rounds = kind == Kind::types;
    return tried_.back().offer;
  }

  bool has_batches() const {
    return std::any_of(tried_.begin(), tried_.end(),
                       [](const Tried& tried) { return tried.kind == Kind::passes || tried.kind == Kind::batch; });
  }

  // Values that XLA would hold whole.
  void try_pieces() {
    if (unheld_.scores > 0) attempt(Kind::pieces, {"attention=flash"});
    if (unheld_.one_hot > 0) attempt(Kind::pieces, {"use_iota_embed=false"});
    if (unheld_.logits > 0) attempt(Kind::pieces, {fmt::format("num_vocab_tiling={}", 8 * settings_.integer("num_vocab_tiling"))});
  }

  void try_layouts() {
    if (settings_.text("remat_policy") != "full") attempt(Kind::remat, {"remat_policy=full"});
    if (!settings_.boolean("remat_gradients") && session_.mesh.devices() == 1) attempt(Kind::remat, {"remat_gradients=true"});
    try_chunks();
    const std::string& rules = settings_.text("custom_mesh_and_rule");
    for (const std::string& name : rule_sets_to_try()) {
      if (name != rules) attempt(Kind::rules, {"custom_mesh_and_rule=" + name});
    }
    if (!rules.empty()) attempt(Kind::rules, {"custom_mesh_and_rule="});
    std::size_t planned = 0;
    Freedom freedom;
    if (session_.target.slices > 1) freedom.growing_between = {"fsdp"};
    for (const Factoring& other : factorings(session_, freedom)) {
      if (planned == kMostFactorings) break;
      if (!takes_rows(session_.layout, other.mesh, session_.batch.micro_rows)) continue;
      attempt(Kind::axes, mesh::keys_between(session_.mesh, other.mesh));
      ++planned;
    }
    if (session_.mesh.size_of("data") > 1 && !settings_.boolean("shard_optimizer_over_data"))
      attempt(Kind::moments, {"shard_optimizer_over_data=true"});
    try_host();
  }

  // Offloading is tried only if it is known how fast the host's memory is reached.
  void try_host() {
    if (!session_.target.chip.host_bytes_per_second) return;
    if (!settings_.boolean("optimizer_memory_host_offload")) attempt(Kind::host, {"optimizer_memory_host_offload=true"});
    if (settings_.text("decoder_layer_input") != "offload") attempt(Kind::host, {"remat_policy=custom", "decoder_layer_input=offload"});
  }

  void try_chunks() {
    if (!session_.shape.is_moe() || session_.shape.moe.strategy != config::MoeStrategy::sparse) return;
    for (const std::int64_t chunks : {2, 4, 8}) {
      if (chunks > session_.shape.moe.token_chunks) attempt(Kind::chunks, {fmt::format("num_moe_token_chunks={}", chunks)});
    }
  }

  bool fits_here() const {
    return std::any_of(tried_.begin(), tried_.end(), [](const Tried& tried) { return tried.offer.fits_well(); });
  }

  // Adds the changes that save the most of each kind, one after the other, and keeps those that save more, until the step fits.
  void try_together() {
    std::vector<Offer> best;
    for (const Kind kind : {Kind::axes, Kind::rules, Kind::remat, Kind::chunks, Kind::moments, Kind::host}) {
      const Tried* found = nullptr;
      for (const Tried& tried : tried_) {
        const bool saves = tried.kind == kind && tried.offer.peak < least_;
        if (saves && (found == nullptr || tried.offer.peak < found->offer.peak)) found = &tried;
      }
      if (found != nullptr) best.push_back(found->offer);
    }
    std::sort(best.begin(), best.end(), [](const Offer& a, const Offer& b) { return a.peak < b.peak; });
    std::int64_t least = least_;
    for (const Offer& offer : best) {
      if (together_.empty()) {
        together_ = offer.keys;
        least = offer.peak;
        continue;
      }
      const Keys keys = joined(together_, offer.keys);
      const std::optional<Offer> made = attempt(Kind::together, keys);
      if (!made || made->peak >= least) continue;
      together_ = keys;
      least = made->peak;
      if (made->fits_well()) return;
    }
  }

  // Tries the same batch in fewer passes, which may save sums of gradients, in more, and smaller batches.
  void try_batches() {
    for (const Keys& merged : fewer_passes(settings_)) attempt(Kind::passes, merged);
    bool smaller_fits = false;
    for (const std::int64_t parts : parts_of_batch()) {
      const Keys passes = in_passes(parts);
      attempt(Kind::passes, passes);
      if (!together_.empty()) attempt(Kind::passes, joined(together_, passes));
      if (smaller_fits) continue;
      const std::optional<Offer> smaller = attempt(Kind::batch, {passes.front()});
      smaller_fits = smaller && smaller->fits_well();
    }
    if (fits_here()) return;
    for (const std::int64_t parts : parts_of_batch()) {
      if (together_.empty()) break;
      const std::optional<Offer> smaller = attempt(Kind::batch, joined(together_, {in_passes(parts).front()}));
      if (smaller && smaller->fits_well()) return;
    }
    try_shared_rows();
  }

  // Tries narrower types of moments and weights, by themselves and, unless that is enough, with what saves the most; then
  // narrower weights with smaller batches.
  void try_types() {
    for (const Keys& types : {Keys{"mu_dtype=bfloat16"}, Keys{"weight_dtype=bfloat16"}}) {
      const std::optional<Offer> made = attempt(Kind::types, types);
      if (!together_.empty() && !(made && made->fits_well())) attempt(Kind::types, joined(together_, types));
    }
    if (fits_here()) return;
    for (const std::int64_t parts : parts_of_batch()) {
      const std::optional<Offer> smaller = attempt(Kind::types, {"weight_dtype=bfloat16", in_passes(parts).front()});
      if (smaller && smaller->fits_well()) return;
    }
  }

  std::vector<std::int64_t> parts_of_batch() const { return config::parts_of_rows(settings_.real("per_device_batch_size")); }
  Keys in_passes(std::int64_t parts) const { return config::in_passes(settings_, parts); }

  // Tries machines of the same kind with more devices, over which parameters are sharded, and more slices of this one: first what the
  // request has several of.
  void try_machines() {
    if (!has_target(session_)) return;
    if (session_.target.slices > 1) try_slices();
    if (machines_that_fit_ == 0) try_larger_slices();
    if (machines_that_fit_ == 0 && session_.target.slices == 1) try_slices();
  }

  void try_larger_slices() {
    const std::string name(mesh::meant_by(session_.target.name));
    const std::size_t number = name.find_last_not_of("0123456789") + 1;
    const std::optional<std::int64_t> size = parse_integer(name.substr(number));
    for (std::int64_t times = 2; size && times <= kMostTimesLarger; times *= 2) {
      const std::string larger = fmt::format("compile_topology={}{}", name.substr(0, number), *size * times);
      const bool grows_by_itself = request_.is_translated() && try_machine({larger}, times);
      const bool fits = grows_by_itself || try_machine(joined({larger}, spread_over(times)), times);
      if (fits && ++machines_that_fit_ == kMostMachines) return;
    }
  }

  void try_slices() {
    const auto fsdp = session_.mesh.find("fsdp");
    for (std::int64_t times = 2; fsdp && times <= kMostTimesLarger && machines_that_fit_ == 0; times *= 2) {
      const Keys keys{fmt::format("compile_topology_num_slices={}", session_.target.slices * times),
                      fmt::format("dcn_fsdp_parallelism={}", session_.mesh.axis(*fsdp).dcn * times)};
      if (try_machine(keys, times)) ++machines_that_fit_;
    }
  }

  // Tries a machine that is so many times larger with nothing else changed; then with full rematerialisation; then with as many rows as
  // before; then with the batch in parts; then with devices that share rows.
  bool try_machine(const Keys& keys, std::int64_t times) {
    const auto fits = [&](const Keys& more) {
      const std::optional<Offer> made = attempt(Kind::machine, joined(keys, more));
      return made && made->fits_well();
    };
    if (fits({})) return true;
    const bool is_there = !tried_.empty() && tried_.back().kind == Kind::machine && tried_.back().offer.keys == keys;
    if (!is_there) return false;  // there is no such machine, or no trial is left
    const bool remats = settings_.text("remat_policy") != "full";
    if (remats && fits({"remat_policy=full"})) return true;
    const Keys same_rows{in_passes(times).front()};
    if (fits(same_rows) || (remats && fits(joined(same_rows, {"remat_policy=full"})))) return true;
    for (const std::int64_t parts : parts_of_batch()) {
      if (fits(in_passes(parts))) return true;
    }
    return fits_with_split_activations(keys, fits);
  }

  // If the tokens of a device take too much memory, moves devices from fsdp to axes that split activations, with as many rows per device
  // as before or with a part of them.
  template <typename Fits>
  bool fits_with_split_activations(const Keys& machine, const Fits& fits) {
    const std::optional<session::Session> there = lay_out_keys(request_, machine);
    if (!there) return false;
    for (const Split& split : splits_of(there->mesh)) {
      if (fits(split.keys) || fits(joined(split.keys, in_passes(split.parts)))) return true;
    }
    return false;
  }

  struct Split {
    Keys keys;
    std::int64_t parts = 1;  // by which the devices along fsdp are divided
  };

  // The ways to move devices from fsdp to axes along which they share rows: tensor, along the model, or context, along the sequence.
  static std::vector<Split> splits_of(const mesh::Mesh& mesh) {
    std::vector<Split> splits;
    const auto fsdp = mesh.find("fsdp");
    for (const std::int64_t parts : {2, 4, 8, 16}) {
      for (const char* name : {"tensor", "context"}) {
        const auto axis = mesh.find(name);
        if (!axis || !fsdp || mesh.axis(*fsdp).ici % parts != 0) continue;
        splits.push_back({mesh::keys_between(mesh, mesh::with_moved(mesh, *fsdp, *axis, parts)), parts});
      }
    }
    return splits;
  }

  // Tries one row for several devices, if a row for each is too much.
  void try_shared_rows() {
    for (const Split& split : splits_of(session_.mesh)) {
      const Keys passes = joined(split.keys, in_passes(split.parts));
      const std::optional<Offer> same = attempt(Kind::passes, passes);
      if (same && same->fits_well()) return;
      attempt(Kind::batch, joined(split.keys, {in_passes(split.parts).front()}));
    }
  }

  // The keys that multiply the devices along fsdp. Sizes of other axes that the request leaves open, or that follow from the machine, are
  // fixed at what they are.
  Keys spread_over(std::int64_t times) const {
    Keys keys;
    bool is_open = false;
    for (const mesh::Axis& axis : session_.mesh.axes()) {
      const std::string key = mesh::key_for(mesh::Level::ici, axis.name);
      const bool open = settings_.integer(key) < 0;
      if (axis.name == "fsdp") {
        is_open = open;
      } else if ((open && axis.ici > 1) || (request_.is_translated() && (axis.ici > 1 || axis.name == "data"))) {
        keys.push_back(fmt::format("{}={}", key, axis.ici));
      }
    }
    if (!session_.mesh.find("fsdp") || (is_open && keys.empty())) return keys;
    keys.push_back(fmt::format("ici_fsdp_parallelism={}", session_.mesh.axis(*session_.mesh.find("fsdp")).ici * times));
    return keys;
  }

  Price price_of(const Offer& offer) const {
    if (offer.devices > session_.mesh.devices()) return Price::devices;
    if (offer.rounds) return Price::numbers;
    return offer.tokens < tokens() ? Price::tokens : Price::nothing;
  }

  std::int64_t tokens() const { return session_.batch.rows_to_train * settings_.integer("max_target_length"); }

  bool is_better(const Offer& a, const Offer& b) const {
    return std::make_tuple(a.is_narrow, price_of(a), a.devices, -a.tokens_per_second_per_device) <
           std::make_tuple(b.is_narrow, price_of(b), b.devices, -b.tokens_per_second_per_device);
  }

  // Whether `a` is at least as good in everything, so that nobody would take `b`.
  bool beats(const Offer& a, const Offer& b) const {
    if (a.is_narrow > b.is_narrow) return false;
    const double speed = a.tokens_per_second_per_device / b.tokens_per_second_per_device;
    const bool spares_devices = price_of(a) == Price::nothing && price_of(b) == Price::devices && speed >= kAsFast;
    const bool is_smaller = price_of(a) <= price_of(b) && a.devices <= b.devices && a.tokens >= b.tokens && a.peak <= b.peak;
    return spares_devices || (is_smaller && speed >= 1);
  }

  // A larger machine than the smallest that fits, if a device is clearly faster there.
  const Offer* next_machine() const {
    const Offer* smallest = nullptr;
    const Offer* next = nullptr;
    for (const Tried& tried : tried_) {
      if (tried.kind != Kind::machine || !tried.offer.fits()) continue;
      if (smallest == nullptr) smallest = &tried.offer;
      const double speed = tried.offer.tokens_per_second_per_device;
      const bool is_faster = speed > kFasterFit * smallest->tokens_per_second_per_device;
      if (tried.offer.devices > smallest->devices && is_faster && (next == nullptr || speed > next->tokens_per_second_per_device))
        next = &tried.offer;
    }
    return next;
  }

  Remedies result() const {
    Remedies remedies;
    remedies.tried = static_cast<int>(tried_.size()) + others_tried_;
    for (int k = 0; k <= static_cast<int>(Kind::machine); ++k) {
      const Offer* best = nullptr;
      for (const Tried& tried : tried_) {
        if (tried.kind != static_cast<Kind>(k) || !tried.offer.fits()) continue;
        if (best == nullptr || is_better(tried.offer, *best)) best = &tried.offer;
      }
      if (best != nullptr) remedies.offers.push_back(*best);
    }
    if (const Offer* next = next_machine()) remedies.offers.push_back(*next);
    std::stable_sort(remedies.offers.begin(), remedies.offers.end(), [&](const Offer& a, const Offer& b) { return is_better(a, b); });
    drop_beaten(remedies.offers);
    remedies.fits_here =
        std::any_of(remedies.offers.begin(), remedies.offers.end(), [&](const Offer& offer) { return price_of(offer) != Price::devices; });
    if (remedies.offers.size() > kMostOffers) remedies.offers.resize(kMostOffers);
    for (const Tried& tried : tried_) {
      if (remedies.fits_here || price_of(tried.offer) == Price::devices || tried.offer.peak >= least_) continue;
      if (!remedies.nearest || tried.offer.peak < remedies.nearest->peak) remedies.nearest = tried.offer;
    }
    return remedies;
  }

  void drop_beaten(std::vector<Offer>& offers) const {
    std::vector<Offer> kept;
    for (const Offer& offer : offers) {
      if (std::none_of(kept.begin(), kept.end(), [&](const Offer& other) { return beats(other, offer); })) kept.push_back(offer);
    }
    offers = std::move(kept);
  }

  const Request& request_;
  const session::Session& session_;
  const config::Settings& settings_;
  forecast::Unheld unheld_;  // of the request as it is
  bool is_narrow_;           // whether the request fits, but narrowly
  std::int64_t least_;       // peak bytes of the request as it is
  std::vector<Tried> tried_;
  Keys together_;
  int machines_that_fit_ = 0;
  int others_tried_ = 0;  // with scanned layers alone
  int left_ = 0;          // plans that may still be made
};

}  // namespace

std::vector<Keys> fewer_passes(const config::Settings& settings) {
  const std::int64_t passes = settings.integer("gradient_accumulation_steps");
  std::vector<Keys> all;
  for (std::int64_t times = 2; times <= std::min(passes, kMostMerged); ++times) {
    if (passes % times != 0) continue;
    all.push_back({config::batch_key(settings.real("per_device_batch_size") * static_cast<double>(times)),
                   fmt::format("gradient_accumulation_steps={}", passes / times)});
  }
  return all;
}

Offer offer_of(const Keys& keys, const session::Session& session, const forecast::Forecast& forecast) {
  const std::int64_t tokens_of_row = session.decodes ? session.decodes->new_tokens : session.loaded.settings.integer("max_target_length");
  return {keys,
          session.mesh.devices(),
          session.batch.rows_to_train * tokens_of_row,
          forecast.memory.peak,
          forecast.usable_memory,
          forecast.seconds,
          forecast.tokens_per_second_per_device,
          forecast.fits_narrowly()};
}

std::string speed_words(const Offer& offer) { return forecast::rate_words(offer.tokens_per_second_per_device); }

std::string change_words(const Offer& offer) {
  std::vector<std::string> remarks;
  if (offer.is_narrow) remarks.emplace_back("fits narrowly");
  if (offer.rounds) remarks.emplace_back("the losses differ");
  return shell_line(offer.keys) + (remarks.empty() ? "" : " (" + join(remarks, "; ") + ")");
}

Remedies remedies_of(const Request& request, const session::Session& session, const forecast::Forecast& forecast) {
  return Search(request, session, forecast).run();
}

std::string nearest_words(const Remedies& remedies) {
  if (!remedies.nearest) return fmt::format("None of {} changes makes it fit on as many devices, or smaller", remedies.tried);
  const Offer& offer = *remedies.nearest;
  return fmt::format("None of {} changes makes it fit on as many devices; the nearest comes {}, by {} too large: {}", remedies.tried,
                     human_bytes(offer.peak), human_bytes(offer.peak - offer.usable), shell_line(offer.keys));
}

std::string to_text(const Remedies& remedies, int width) {
  std::string text;
  if (!remedies.offers.empty()) {
    Table table({{"what makes it fit", false, Room::wrap}, {"a device", true}, {"a step", true}, {"tokens/s a device", true}});
    for (const Offer& offer : remedies.offers)
      table.add({change_words(offer), human_bytes(offer.peak), human_seconds(offer.seconds), speed_words(offer)});
    text += table.text(width);
  }
  if (!remedies.fits_here) text += wrapped(nearest_words(remedies) + "\n", width, 2);
  return text;
}

}  // namespace moesh::advice
