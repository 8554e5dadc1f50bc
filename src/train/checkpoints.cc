#include "train/checkpoints.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <unordered_map>

#include <fmt/core.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/system.h"
#include "base/text.h"
#include "config/hugging_face.h"
#include "sharding/spec.h"
#include "store/checkpoint.h"
#include "store/disk.h"
#include "store/newest.h"
#include "train/hugging_face.h"
#include "train/restore.h"

namespace moesh::train {
namespace {

std::int64_t parameters_in(const Trainer& trainer) {
  std::int64_t count = 0;
  for (const Trained& trained : trainer.parameters()) count += elements(trained.shape);
  return count;
}

store::About about(const config::Settings& settings, const Trainer& trainer, const Batches& batches, std::int64_t step) {
  store::About made{MOESH_VERSION, local_time(), step, batches.first_row(step + 1), settings.text("opt_type"),
                    parameters_in(trainer), {}, given_settings(settings), batches.place(step + 1), trainer.recent().numbers()};
  for (const mesh::Axis& axis : trainer.plan().mesh.axes()) {
    if (axis.size() > 1) made.mesh.emplace_back(axis.name, axis.size());
  }
  return made;
}

// The dim of layers of parameters and moments, by name.
std::unordered_map<std::string, int> layers_dims_of(const Trainer& trainer) {
  std::unordered_map<std::string, int> dims;
  for (const Trained& trained : trainer.parameters()) {
    for (const std::string& name : {trained.path, trained.mu(), trained.nu()}) dims[name] = trained.layers_dim;
  }
  return dims;
}

std::vector<store::Held> state_of(const Trainer& trainer) {
  const mesh::Mesh& mesh = trainer.plan().mesh;
  const std::unordered_map<std::string, int> layers_dims = layers_dims_of(trainer);
  std::vector<store::Held> all;
  for (const std::string& name : trainer.state_names()) {
    const run::Placed value = trainer.state(name);
    const Shape shape = value.seen_shape();
    sharding::Spec spec = sharding::whole_spec(shape.size());  // one device holds all of it
    if (!value.spec.dims.empty()) spec = sharding::without_size_one(value.spec, mesh);
    spec.dims = run::in_seen_order(std::move(spec.dims), value.first);
    const DType dtype = value.any_shard().view.dtype;
    all.push_back({name, {dtype, shape, layers_dims.at(name), sharding::to_string(spec, mesh), {}}, trainer.state_parts(name),
                   trainer.state_share(name)});
  }
  return all;
}

// All of it, whoever holds it.
std::int64_t bytes_of(const std::vector<store::Held>& state) {
  std::int64_t bytes = 0;
  for (const store::Held& held : state) bytes += elements(held.tensor.shape) * size_of(held.tensor.dtype);
  return bytes;
}

// The moments of another optimizer cannot be used: then only the parameters are restored.
Restored what_fits(const store::Index& index, const config::Settings& settings, Restored asked) {
  const std::string& ours = settings.text("opt_type");
  if (asked == Restored::parameters || index.about.optimizer == ours) return asked;
  log_notice(fmt::format("the checkpoint's optimizer is {}, this run's {}: the parameters are taken, moments begin at zero",
                         index.about.optimizer, ours));
  return Restored::parameters;
}

// A checkpoint that a run may start from, if it is undamaged.
class Candidate {
 public:
  Candidate(std::string path, const config::Settings& settings, Restored asked)
      : path_(std::move(path)), settings_(settings), asked_(asked) {}

  // Returns false, with a notice, if the checkpoint is damaged and there is another one. Refuses an undamaged one that does not fit.
  bool take(Trainer& trainer, backend::Workers& workers, const Company& company, bool has_next) {
    const auto begin = Clock::now();
    if (!all_do(company, has_next, [&] { checkpoint_ = std::make_unique<store::Checkpoint>(path_); })) return false;
    const Restored what = what_fits(checkpoint_->index(), settings_, asked_);
    const std::vector<Target> targets = targets_in(trainer, what);
    check_fit(targets, *checkpoint_);
    if (!all_do(company, has_next, [&] { restore(targets, *checkpoint_, workers); })) return false;
    seconds_ = seconds_since(begin);
    read_ = company.all_say(human_bytes(checkpoint_->bytes_read()), "at a checkpoint that was read");
    return true;
  }

  const store::About& about() const { return checkpoint_->index().about; }
  std::string words() const {
    return fmt::format("{} {}: {} read{} in {:.2f} s, and held to their hashes\n",
                       asked_ == Restored::all ? fmt::format("Goes on after step {}, from", about().step) : "Starts with the parameters of",
                       path_, join(read_, ", "), read_.size() > 1 ? " by the processes" : "", seconds_);
  }

 private:
  // Whether all processes succeeded. Each process reads only what it needs, so damage may be visible to some of them only. Fails if the
  // system does not let one of them read: the checkpoint may be intact, and resuming from an older one would lose steps.
  template <typename Act>
  static bool all_do(const Company& company, bool has_next, const Act& act) {
    std::string damage, failure;
    std::exception_ptr own;
    try {
      act();
    } catch (const Error& caught) {
      (caught.parts().fault == Fault::failed ? failure : damage) = caught.what();
      own = std::current_exception();
    }
    end_at(company.all_say(failure, "at a checkpoint that is read"), failure.empty() ? nullptr : own);
    const std::vector<std::string> damages = company.all_say(damage, "at a checkpoint that is read");
    if (!has_next) end_at(damages, own);
    const auto found = std::find_if(damages.begin(), damages.end(), [](const std::string& of) { return !of.empty(); });
    if (found != damages.end()) log_notice(*found + store::kOneBeforeIsTaken);
    return found == damages.end();
  }

  // Throws this process's own error if it has one, otherwise the first error of another process; returns if there is none.
  static void end_at(const std::vector<std::string>& errors, const std::exception_ptr& own) {
    if (own) std::rethrow_exception(own);
    for (const std::string& of : errors) {
      if (!of.empty()) fail(of);
    }
  }

  std::string path_;
  const config::Settings& settings_;
  Restored asked_;
  std::unique_ptr<store::Checkpoint> checkpoint_;
  double seconds_ = 0;
  std::vector<std::string> read_;  // bytes that each process read, for messages
};

}  // namespace

Checkpoints::Checkpoints(const config::Settings& settings, const std::string& run_folder, std::optional<std::int64_t> from,
                         const Company& company)
    : settings_(settings), folder_(run_folder.empty() ? "" : store::checkpoints_of_run(run_folder)), from_(from), company_(company) {
  if (!folder_.empty() && company_.is_first()) {
    lock_.emplace(folder_);
    store::clear_leftovers(folder_);
  }
  if (from_ && folder_.empty()) {
    refuse(fmt::format("--from {}, with enable_checkpointing=false", *from_), kCommandLine,
           "enable_checkpointing=true, or load_full_state_path=PATH");
  }
}

std::vector<std::string> Checkpoints::own() const {
  if (folder_.empty()) return {};
  std::vector<std::int64_t> steps = store::steps_in(folder_);
  if (from_) {
    if (std::find(steps.begin(), steps.end(), *from_) == steps.end()) {
      std::vector<std::string> there;
      for (const std::int64_t step : steps) there.push_back(std::to_string(step));
      refuse(fmt::format("no checkpoint of step {} is there", *from_), folder_,
             there.empty() ? "leave out --from: there is none at all" : "--from " + join(there, " or "));
    }
    steps = {*from_};
  }
  std::vector<std::string> paths;
  for (const std::int64_t step : steps) paths.insert(paths.begin(), store::checkpoint_path(folder_, step));
  return paths;
}

// Sets aside, by renaming, checkpoints of later steps, which belong to an abandoned continuation of the run, and checkpoints without an
// index, which are damaged. Their files are kept.
void Checkpoints::set_aside_after(std::int64_t step) const {
  if (!company_.is_first()) return;
  for (const std::int64_t there : store::steps_in(folder_)) {
    const std::string path = store::checkpoint_path(folder_, there);
    const char* what = there > step             ? "is of a later step than this run goes on from"
                       : store::has_index(path) ? nullptr
                                                : "is damaged, it has no index.json";
    if (what != nullptr) log_notice(fmt::format("{} {}: it is {} now", path, what, store::set_aside(path)));
  }
}

// The first process looks on behalf of all of them: folders may change while others look.
Checkpoints::Source Checkpoints::source() const {
  const auto found = [&]() -> Source {
    if (std::vector<std::string> own = this->own(); !own.empty()) return {Source::Kind::own, std::move(own)};
    const std::string &full = settings_.text("load_full_state_path"), &parameters = settings_.text("load_parameters_path");
    if (!full.empty()) return {Source::Kind::full_state, store::checkpoints_at(full)};
    if (parameters.empty()) return {};
    if (config::is_hugging_face(parameters)) return {Source::Kind::parameters, {parameters}};
    return {Source::Kind::parameters, store::checkpoints_at(parameters)};
  };
  const Source ours = company_.is_first() ? found() : Source{};
  std::string words = std::to_string(static_cast<int>(ours.kind));
  for (const std::string& path : ours.paths) words += "\n" + path;
  std::vector<std::string> lines = split(company_.first_says(words, "at the list of checkpoints"), '\n');
  const auto kind = static_cast<Source::Kind>(parse_integer(lines.front()).value_or(0));
  lines.erase(lines.begin());
  return {kind, std::move(lines)};
}

void Checkpoints::say_what_changed(const store::About& then) const {
  std::vector<std::string> keys;
  for (const store::ChangedSetting& changed : store::changed_settings(then.settings, given_settings(settings_))) {
    keys.push_back(changed.key);
  }
  if (!keys.empty()) log_notice("other than when the checkpoint was saved: " + join(keys, ", "));
}

// Starts with the weights of a Hugging Face folder.
Start Checkpoints::start_with(const std::string& folder, Trainer& trainer, backend::Workers& workers) const {
  const auto begin = Clock::now();
  const store::HuggingFaceModel model = hugging_face_model(settings_, config::model_shape(settings_));
  const TensorsRead read = restore(targets_in(trainer, Restored::parameters), model, folder, workers);
  trainer.go_on_after(-1);
  return {0, true, false,
          fmt::format("Starts with the weights of {}: {} read in {:.2f} s\n", folder, words_of(read), seconds_since(begin))};
}

Start Checkpoints::start(Trainer& trainer, Batches& batches, backend::Workers& workers) {
  const Source source = this->source();
  const Restored asked = source.kind == Source::Kind::parameters ? Restored::parameters : Restored::all;
  if (asked == Restored::parameters && config::is_hugging_face(source.paths.front()))
    return start_with(source.paths.front(), trainer, workers);
  for (std::size_t i = 0; i < source.paths.size(); ++i) {
    Candidate candidate(source.paths[i], settings_, asked);
    if (!candidate.take(trainer, workers, company_, i + 1 < source.paths.size())) {
      trainer.clear_moments();  // some may have been read before the damage was found, and the next one may have parameters only
      continue;
    }
    const store::About& about = candidate.about();
    const std::int64_t next = asked == Restored::all ? about.step + 1 : 0;
    trainer.go_on_after(next - 1);
    if (asked == Restored::all && !batches.begin(next, about.rows, about.place)) {
      log_notice("the data are other than when the checkpoint was saved, or are read otherwise: they begin at their beginning");
    }
    const bool has_recent = asked == Restored::all && trainer.recent().take(about.numbers);
    if (trainer.recent().are_watched() && next > 0 && !has_recent)
      log_notice("the checkpoint has no losses of recent steps: no update is left out until half of skip_step_interval has been seen");
    if (source.kind == Source::Kind::own) {
      newest_ = asked_for_ = about.step;
      set_aside_after(about.step);
      say_what_changed(about);
    }
    return {next, true, source.kind == Source::Kind::own, candidate.words()};
  }
  return {};
}

template <typename Wait>
void Checkpoints::wait(const Wait& wait) {
  const auto begin = Clock::now();
  wait();
  waited_ += seconds_since(begin);
}

std::function<bool(const plan::Instruction&)> Checkpoints::guard(const Trainer& trainer) {
  if (saving_ == nullptr) return nullptr;
  return [this, &trainer](const plan::Instruction& next) {
    for (const std::string_view name : trainer.changed_by(next)) wait([&] { saving_->wait_for(name); });
    return false;
  };
}

bool Checkpoints::is_due(std::int64_t step, bool is_last) const {
  if (folder_.empty() || asked_for_ == step) return false;
  if (is_last && settings_.boolean("save_checkpoint_on_completion")) return true;
  if (step == 0 && !settings_.boolean("save_checkpoint_on_start")) return false;
  return step % settings_.integer("checkpoint_period") == 0;
}

// The folder, within that of the checkpoints, of those that are too many; empty if they are removed.
std::string Checkpoints::aside() const {
  constexpr const char* kAside = "checkpoint_todelete_subdir";
  return settings_.is_null(kAside) ? "" : settings_.text(kAside);
}

// Where the disk has no room for so many bytes, checkpoints that would go after the next one is saved go before. Moving them aside would
// not make room.
void Checkpoints::make_room(std::int64_t bytes) const {
  const std::optional<std::int64_t> room = store::free_bytes(folder_);
  if (!room || *room >= bytes) return;
  if (aside().empty()) return remove_older(1);
  const std::string there = folder_ + "/" + aside();
  std::error_code error;
  if (company_.is_first() && !std::filesystem::is_empty(there, error) && !error)
    log_notice(fmt::format("the disk has {} left and the next checkpoint takes {}: remove what lies in {} to make room",
                           human_bytes(*room), human_bytes(bytes), there));
}

// Removes those that are too many, or moves them aside. A failure does not end the run. `coming`: checkpoints about to be saved, which
// count too; the newest one that is there stays all the same.
void Checkpoints::remove_older(std::int64_t coming) const {
  if (settings_.is_null("max_num_checkpoints_to_keep") || !company_.is_first()) return;
  try {
    store::keep_newest(folder_, std::max<std::int64_t>(1, settings_.integer("max_num_checkpoints_to_keep") - coming), aside());
  } catch (const Error& error) {
    log_notice(fmt::format("older checkpoints stay: {}", error.what()));
  }
}

std::string Checkpoints::collect() {
  if (saving_ == nullptr || !saving_->is_done()) return "";
  const std::unique_ptr<store::Saving> done = std::move(saving_);
  has_failed_ = !done->error().empty();
  if (has_failed_) {
    log_notice(fmt::format("the checkpoint of step {} is not saved: {}\n  {}", done->step(), done->error(),
                           newest_ ? fmt::format("the one of step {} is there", *newest_) : "none is there yet"));
    return "";
  }
  newest_ = done->step();
  remove_older(0);
  return fmt::format("saved checkpoint: {}, {} in {:.2f} s; the run has waited {:.2f} s for its checkpoints\n", done->folder(),
                     human_bytes(done->bytes()), done->seconds(), waited_);
}

// Makes the folder that all processes write into. Returns false if that fails.
bool Checkpoints::make_folder(std::int64_t step) {
  std::string error;
  try {
    if (company_.is_first()) store::make_part_folder(store::checkpoint_path(folder_, step));
  } catch (const Error& caught) {
    error = caught.what();
  }
  error = company_.first_says(error, fmt::format("at the checkpoint of step {}", step));
  if (error.empty()) return true;
  has_failed_ = true;
  log_notice(fmt::format("the checkpoint of step {} is not saved: {}", step, error));
  return false;
}

std::string Checkpoints::save_if_due(const Trainer& trainer, const Batches& batches, bool is_last) {
  const std::int64_t step = trainer.steps_done() - 1;
  if (step < 0 || !is_due(step, is_last)) return "";
  if (saving_ != nullptr) wait([&] { saving_->wait(); });
  std::string words = collect();
  asked_for_ = step;
  std::vector<store::Held> state = state_of(trainer);
  make_room(bytes_of(state));
  if (company_.count() > 1 && !make_folder(step)) return words;
  const store::Share share{company_.self(), company_.count(), settings_.real("collective_timeout")};
  saving_ = std::make_unique<store::Saving>(store::checkpoint_path(folder_, step), about(settings_, trainer, batches, step),
                                            std::move(state), share);
  // With several owners in this process, one's memory is inaccessible while another works: nothing can be saved in the background.
  if (settings_.boolean("async_checkpointing") && settings_.integer("owners") == 1) return words;
  wait([&] { saving_->wait(); });
  return words + collect();
}

std::string Checkpoints::after_step(const Trainer& trainer, const Batches& batches) {
  std::string words = collect() + save_if_due(trainer, batches, false);
  if (words.ends_with('\n')) words.pop_back();
  return words;
}

std::string Checkpoints::finish(const Trainer& trainer, const Batches& batches) {
  const std::string words = save_if_due(trainer, batches, true);
  if (saving_ != nullptr) wait([&] { saving_->wait(); });
  return words + collect();
}

}  // namespace moesh::train
