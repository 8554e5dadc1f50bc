#include "train/loop.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>

#include <fmt/core.h>

#include "backend/cpu/isa.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/streams.h"
#include "base/system.h"
#include "base/terminal.h"
#include "base/text.h"
#include "base/whole_file.h"
#include "graph/work.h"
#include "partition/collectives.h"
#include "plan/print.h"
#include "store/hash.h"
#include "train/batches.h"
#include "train/checkpoints.h"
#include "train/evaluation.h"
#include "train/interrupts.h"
#include "train/memory.h"
#include "train/metrics_file.h"
#include "train/notes.h"
#include "train/report.h"
#include "train/run_folder.h"
#include "train/run_record.h"
#include "train/run_words.h"
#include "train/saved_plan.h"
#include "train/tensorboard.h"
#include "train/trace_file.h"
#include "train/trainer.h"

namespace moesh::train {
namespace {

// Prints and flushes, so that the words are seen before the run goes on, also through a pipe.
void print_now(const std::string& words) {
  fmt::print("{}", wrapped(words, columns_of(Stream::out), 2));
  flush_output();
}

// Prints what a run says along the way, unless less was asked for.
void show(const TrainRequest& request, const std::string& words) {
  if (request.printed == Printed::all) print_now(words);
}

std::int64_t steps_to_train(const config::Settings& settings) {
  const std::int64_t steps = settings.integer("steps");
  const std::int64_t of_schedule = settings.integer("learning_rate_schedule_steps");
  if (steps < 0 && of_schedule < 0) {
    refuse("steps=-1 stands for learning_rate_schedule_steps, which is -1 too", settings.origin("steps").where,
           "give one of them");
  }
  return steps < 0 ? of_schedule : steps;
}

// Bytes that a device sends in regions, as planned.
double planned_in_regions(const StepProgram& program) {
  double bytes = 0;
  for (const partition::Collective& collective : partition::collectives_of(program.graph, program.mesh)) {
    if (collective.in_region) bytes += collective.total_wire_bytes();
  }
  return bytes;
}

// Handles a loss or gradient norm that is not finite: leaves out the update or ends the run, as the settings say, and names the
// first value that is not finite.
void report_not_finite(Trainer& trainer, const StepMetrics& metrics, const Batch& batch, const config::Settings& settings) {
  const std::string what = std::isfinite(metrics.loss)
                               ? fmt::format("the gradient norm of step {} is {}", metrics.step, metrics.raw_grad_norm)
                               : fmt::format("the loss of step {} is {}", metrics.step, metrics.loss);
  const std::string report =
      fmt::format("{}; the first value that is not finite is {}", what, trainer.first_not_finite(batch, metrics.step));
  if (settings.text("non_finite_policy") == "skip_step") {
    log_notice(report + "; its update is left out");
    return;
  }
  const double number = std::isfinite(metrics.loss) ? metrics.raw_grad_norm : metrics.loss;
  const char* key = std::isnan(number) ? "abort_on_nan_loss" : "abort_on_inf_loss";
  if (settings.boolean(key)) {
    fail(report, "training", "lower learning_rate, look at the data of this step, or non_finite_policy=skip_step");
  }
}

void report_spike(const StepMetrics& metrics, std::int64_t recent) {
  const auto report = [&](const char* what, double value, double limit) {
    log_notice(fmt::format("the {} of step {} is {:.4g}, above the limit of {:.4g} from the last {}; its update is left out", what,
                           metrics.step, value, limit, counted(recent, "step")));
  };
  if (metrics.loss > metrics.limits->loss) report("loss", metrics.loss, metrics.limits->loss);
  else report("gradient norm", metrics.grad_norm, metrics.limits->grad_norm);
}

// What all processes of a run must agree on before its first step.
std::vector<std::pair<std::string, std::string>> facts_of(const StepProgram& program, const config::Settings& settings) {
  std::vector<std::pair<std::string, std::string>> facts = config::given_settings(settings);
  facts.emplace_back("the version of moesh", MOESH_VERSION);
  facts.emplace_back("the binary", store::hash_text(store::hash_of(read_file("/proc/self/exe", "the binary", std::int64_t{1} << 32, ""))));
  facts.emplace_back("the instructions of kernels (MOESH_ISA)", std::string(backend::cpu::name_of(backend::cpu::chosen_isa())));
  facts.emplace_back("the plan", store::hash_text(store::hash_of(plan::to_text(program.plan))));
  return facts;
}

void shared_out(StepProgram& program, const Company& company) {
  if (company.count() == 1) return;
  program.owners = company.count();
  program.self = company.self();
}

// The step's program, which must be the same in all processes; with several, each of them is one owner of the devices.
StepProgram program_of(const TrainRequest& request) {
  const Company& company = request.company;
  const config::Settings& settings = request.settings;
  StepProgram program = step_program(request.model, settings, request.where);
  if (company.count() > 1 && program.owners > 1) {
    refuse(fmt::format("owners={}, and {} processes", program.owners, company.count()), settings.origin("owners").where,
           "leave out owners");
  }
  if (company.count() > program.mesh.devices()) {
    refuse(fmt::format("{} processes, and the mesh has {}", company.count(), counted(program.mesh.devices(), "device")),
           "the processes of the run", "as many as there are devices at most");
  }
  shared_out(program, company);
  if (company.count() > 1) check_same(company, facts_of(program, settings));
  check_saved_plan(program, settings, request.where.target);
  return program;
}

// The plan with the memory that all processes of this machine need together.
MemoryPlan of_machine(MemoryPlan plan, const Company& company) {
  const std::string host = host_name();
  std::int64_t needed = 0;
  for (const std::string& said : company.all_say(fmt::format("{} {}", plan.values + plan.workspace, host), "before memory is taken")) {
    const std::size_t blank = said.find(' ');
    if (said.substr(blank + 1) == host) needed += parse_integer(said.substr(0, blank)).value_or(0);
  }
  plan.values = needed - plan.workspace;
  return plan;
}

// The evaluation's program, in a run that asks for evaluations.
std::optional<StepProgram> evaluation_of(const TrainRequest& request, const StepProgram& step) {
  if (!request.evaluated) return std::nullopt;
  StepProgram program = evaluation_program(*request.evaluated, step);
  shared_out(program, request.company);
  return program;
}

// What a device and a process hold. Refuses more than this machine has.
Footprint checked_memory(const StepProgram& step, const std::optional<StepProgram>& evaluation, const TrainRequest& request,
                         std::int64_t threads) {
  Footprint footprint = footprint_of(step);
  if (evaluation) footprint = with_beside(footprint, footprint_of(*evaluation));
  MemoryPlan memory = memory_plan(step, footprint, threads);
  if (evaluation) memory.workspace = std::max(memory.workspace, memory_plan(*evaluation, footprint, threads).workspace);
  check_memory(of_machine(memory, request.company), free_memory());
  show(request, peak_words(footprint, memory.total()) + "\n");
  return footprint;
}

// Whether the user asks for TensorBoard curves. Without that they are written only if the run has a folder anyway.
bool asks_for_board(const config::Settings& settings) {
  return settings.boolean("enable_tensorboard") && settings.is_by_user("enable_tensorboard");
}

// The run's folder, which the first process makes; empty if the run writes nothing there.
std::string folder_of(const config::Settings& settings, const Company& company) {
  const bool has_folder = settings.boolean("enable_checkpointing") || settings.text("metrics_file").empty() || asks_for_board(settings);
  return company.first_says(has_folder && company.is_first() ? make_run_folder(settings) : "", "at the run's folder");
}

// Of a headline that first tells which file is read where none is named.
std::string last_line(const std::string& headline) { return headline.substr(headline.rfind('\n') + 1); }

std::string metrics_path(const config::Settings& settings, const std::string& folder, const Company& company) {
  if (!company.is_first()) return "/dev/null";
  const std::string& own = settings.text("metrics_file");
  return own.empty() ? folder + "/" + kMetricsName : own;
}

// Fails if the run did something else than its plan says.
void check_audit(const run::Audit& audit, bool shows) {
  if (shows) print_now("\n" + audit_words(audit, columns_of(Stream::out)));
  if (const std::string difference = audit.difference(); !difference.empty()) {
    fail("the run did something else than its plan: " + difference, "audit", "this is a fault of moesh: report it with the command");
  }
}

// Writes the report of the run. It only shows the run, so a failure to write it does not make the run fail.
void write_report(const std::string& metrics) {
  try {
    RunRecord run = read_run(metrics);
    run.goes_on = false;  // it is this process that holds the file
    replace_file(std::filesystem::path(metrics).parent_path() / "report.html", report_of({run}), "");
  } catch (const Error& error) {
    log_notice(fmt::format("no report is written: {}", error.what()));
  }
}

// The exit code after an interrupt. A signal may have reached only one of the processes.
int code_of(const Interrupts& interrupts, const Company& company) {
  int code = 0;
  for (const std::string& said :
       company.all_say(std::to_string(interrupts.asked() ? interrupts.exit_code() : 0), "at the end of the run")) {
    code = std::max(code, static_cast<int>(parse_integer(said).value_or(1)));
  }
  return code;
}

// The evaluation that was due after the last step before a resume. The run may have ended or been killed before it was done.
struct LastEvaluation {
  bool is_missing = false;
  bool has_reached_target = false;
};

LastEvaluation last_evaluation(const TrainRequest& request, const Start& start, const std::string& metrics) {
  if (!request.evaluated || !start.goes_on || !is_evaluated_after(request.settings, start.step - 1)) return {};
  const std::optional<double> own = request.company.is_first() ? recorded_evaluation(metrics, start.step - 1) : std::nullopt;
  const std::string loss = request.company.first_says(own ? fmt::format("{}", *own) : "", "at the last evaluation");
  if (loss.empty()) return {true, false};
  return {false, reaches_target(request.settings, parse_real(loss).value_or(std::numeric_limits<double>::quiet_NaN()))};
}

// Why a run that goes on has no step to make; empty if it has one.
std::string why_nothing_is_left(const Start& start, const LastEvaluation& last, std::int64_t steps) {
  if (!start.has_parameters || last.is_missing) return "";
  if (last.has_reached_target) return "the loss of the last evaluation has reached target_eval_loss.";
  return start.step >= steps ? fmt::format("steps={}. More steps go on from here.", steps) : "";
}

// What a run writes about its steps as it makes them.
struct Records {
  MetricsFile metrics;
  std::optional<TraceFile> trace;
  std::optional<TensorBoard> board;

  Records(const TrainRequest& request, const std::string& path, const std::string& folder, const Trainer& trainer, std::int64_t first,
          std::int64_t parameters)
      : metrics(path, request.printed == Printed::metrics) {
    const config::Settings& settings = request.settings;
    const bool is_first = request.company.is_first();
    if (is_first && !settings.text("profiler").empty())
      trace.emplace(settings, metrics.path(), trainer.plan(), request.where.target, first);
    if (is_first && !folder.empty() && settings.boolean("enable_tensorboard"))
      board.emplace(folder + "/tensorboard", first, parameters, settings);
    metrics.begin(settings, last_line(request.headline));
  }

  // Ends the metrics, and makes the report of them that a run with its own folder has.
  void end(const run::Audit& audit, const TrainRequest& request, const std::string& folder) {
    metrics.end(audit);
    if (request.company.is_first() && !folder.empty() && request.settings.text("metrics_file").empty()) write_report(metrics.path());
  }
};

constexpr const char* kAsked = "asked";
constexpr const char* kFailed = "failed";

// Runs the remaining steps. A failure between two steps, such as a full disk or data that has disappeared, ends the run with a checkpoint
// of the steps that are done.
class Loop {
 public:
  struct Parts {
    Trainer& trainer;
    Batches& batches;
    Checkpoints& checkpoints;
    std::optional<Evaluation>& evaluation;
    Records& records;
  };
  Loop(const TrainRequest& request, const ModelSize& size, const Parts& parts)
      : request_(request),
        parts_(parts),
        tokens_(static_cast<double>(request.batch.rows_to_train * request.settings.integer("max_target_length"))),
        flops_(size.step_flops),
        // When a process dies, mpirun sends SIGTERM to the others; what is printed then should be about the one that died.
        interrupts_(request.company.is_first() ? Interrupts::kAnswer : "", request.company.count() > 1 ? SIGTERM : 0) {}

  // Returns the part of the summary that only the steps know. `evaluates_first`: whether the evaluation that was due before the first step
  // is missing and must be done first.
  RunSummary run(std::int64_t first, std::int64_t steps, bool evaluates_first) {
    const auto begin = Clock::now();
    steps_ = steps;
    progress_.emplace("step", steps);
    if (evaluates_first) evaluate(first - 1);
    for (std::int64_t step = first; step < steps && !done_.reached_target && train(step); ++step) {
      if (parts_.evaluation && is_evaluated_after(request_.settings, step)) evaluate(step);
    }
    must_end();  // tells all processes about a failure in the last step
    progress_.reset();
    saved_ = parts_.checkpoints.finish(parts_.trainer, parts_.batches);
    if (has_failed_) end_with_failure();
    done_.interrupted = is_asked_ && (parts_.trainer.steps_done() < steps || lacks_evaluation_) && !done_.reached_target;
    done_.seconds = seconds_since(begin);
    done_.waited_for_data = parts_.batches.waited();
    done_.lines_left_out = parts_.batches.left_out();
    done_.tokens = tokens_ * static_cast<double>(done_.steps);
    return done_;
  }
  const std::string& saved() const { return saved_; }  // what was saved at the end, in words
  int exit_code() const { return done_.interrupted ? code_of(interrupts_, request_.company) : 0; }

 private:
  // Whether the run must end before its next step or batch, because of a signal or a failure in any process. All processes call this at the
  // same points and get the same answer.
  bool must_end() {
    if (is_asked_ || has_failed_) return true;
    const char* const own = failure_ ? kFailed : interrupts_.asked() ? kAsked : "";
    for (const std::string& said : request_.company.all_say(own, "between two steps")) {
      is_asked_ = is_asked_ || said == kAsked;
      has_failed_ = has_failed_ || said == kFailed;
    }
    return is_asked_ || has_failed_;
  }

  // Stores an error of `act`. It ends the run once all processes know of it.
  template <typename Act>
  void attempt(const Act& act) {
    try {
      act();
    } catch (...) {
      if (!failure_) failure_ = std::current_exception();
    }
  }

  // Throws the failure of this process, or waits for the process that failed to end this one. No process may end the others while one of
  // them still saves its checkpoint.
  void end_with_failure() {
    if (!saved_.empty()) log_notice(saved_.substr(0, saved_.size() - 1));
    request_.company.all_say("", "after the checkpoint of a run that failed");
    try {
      if (failure_) std::rethrow_exception(failure_);
    } catch (const std::system_error& error) {
      if (error.code() != std::errc::broken_pipe) throw;
      fail("nobody reads it any more, so the run has ended", "standard output", "send it to a file: >FILE");
    }
    request_.company.all_say("", "at the end of a run that failed");  // the process that failed ends this one
  }

  // Returns false if the run must end before this step.
  bool train(std::int64_t step) {
    const auto begin = Clock::now();
    const double for_data = parts_.batches.waited();
    const double devices = static_cast<double>(request_.devices);
    Batch batch;
    if (!interrupts_.asked() && !is_asked_ && !has_failed_) attempt([&] { batch = parts_.batches.at(step, parts_.trainer.pool()); });
    if (must_end()) return false;
    std::vector<run::Span>* const spans = parts_.records.trace ? parts_.records.trace->begin_step(step) : nullptr;
    const std::int64_t recent = parts_.trainer.recent().size();
    const StepMetrics metrics =
        parts_.trainer.run_step(batch, {.ends_before = parts_.checkpoints.guard(parts_.trainer), .spans = spans}).metrics;
    if (parts_.records.trace) attempt([&] { parts_.records.trace->end_step(step); });
    if (!std::isfinite(metrics.loss) || !std::isfinite(metrics.raw_grad_norm)) {
      report_not_finite(parts_.trainer, metrics, batch, request_.settings);
    } else if (metrics.is_left_out) {
      report_spike(metrics, recent);
    }
    if (metrics.total_weights == 0 && !std::exchange(has_told_of_no_target_, true))
      log_warning(fmt::format("the batch of step {} has no token to predict: each of its documents has one token or none", metrics.step));
    const StepSpeed speed{seconds_since(begin) + saving_, flops_ / devices, tokens_ / devices, devices};
    const StepTime time{speed.seconds, parts_.batches.waited() - for_data, parts_.checkpoints.waited() - waited_for_disk_};
    waited_for_disk_ = parts_.checkpoints.waited();
    // Before the checkpoint: a run that goes on from it does not make the step again.
    attempt([&] {
      parts_.records.metrics.write(metrics, time, speed, parts_.batches.left_out());
      if (parts_.records.board) parts_.records.board->write(metrics, speed);
    });
    const auto made = Clock::now();
    const std::string saved = parts_.checkpoints.after_step(parts_.trainer, parts_.batches);
    saving_ = seconds_since(made);
    attempt([&] {
      tell(step, fmt::format("loss {:.3f}", metrics.loss), step_words(metrics, speed) + (saved.empty() ? "" : "\n" + saved));
    });
    if (done_.steps++ == 0) done_.first_loss = metrics.loss;
    done_.last_loss = metrics.loss;
    done_.updates_left_out += metrics.is_left_out ? 1 : 0;
    done_.load = metrics.load;
    return true;
  }

  void evaluate(std::int64_t step) {
    const auto see = [&](std::int64_t batch) {
      progress_->advance(step + 1, fmt::format("evaluating {} of {}", batch, parts_.evaluation->batches()));
    };
    const auto ends = [&](const std::exception_ptr& failure) {
      if (failure && !failure_) failure_ = failure;
      return must_end();
    };
    const std::optional<EvalMetrics> found = parts_.evaluation->run(step, ends, see);
    lacks_evaluation_ = !found;
    if (!found) return;
    ++done_.evaluations;
    done_.reached_target = reaches_target(request_.settings, found->loss);
    attempt([&] {
      parts_.records.metrics.write(*found);
      if (parts_.records.board) parts_.records.board->write(*found);
      tell(step, fmt::format("eval loss {:.3f}", found->loss), eval_line(*found, request_.settings));
    });
  }

  // The reference's line, or on a terminal a line for people.
  std::string step_words(const StepMetrics& metrics, const StepSpeed& speed) const {
    const int columns = columns_of(Stream::out);
    return columns > 0 ? short_step_line(metrics, speed, steps_, columns) : step_line(metrics, speed, request_.shape.is_moe());
  }

  void tell(std::int64_t step, const std::string& note, const std::string& line) {
    if (request_.printed == Printed::all) progress_->advance(step + 1, note, line);
    else progress_->advance(step + 1, note);
  }

  const TrainRequest& request_;
  Parts parts_;
  std::int64_t steps_ = 0;
  double tokens_, flops_;  // per step
  const Interrupts interrupts_;
  std::optional<Progress> progress_;
  double saving_ = 0;           // seconds that the last step's checkpoint took, which count as those of the next step
  double waited_for_disk_ = 0;  // up to the last line of the metrics
  bool has_told_of_no_target_ = false;
  bool is_asked_ = false, has_failed_ = false;  // whether any process was asked to end, or failed
  bool lacks_evaluation_ = false;               // whether the last evaluation that was due was cut off
  std::exception_ptr failure_;                  // of this process
  std::string saved_;
  RunSummary done_;
};

}  // namespace

int train(const TrainRequest& request, backend::Workers& workers) {
  const config::Settings& settings = request.settings;
  const Company& company = request.company;
  const std::int64_t length = settings.integer("max_target_length");
  const ModelSize size = model_size(request.model, request.shape, request.batch.rows_to_train * length, length);
  const std::int64_t steps = steps_to_train(settings);
  Batches batches(settings, request.batch, request.shape.vocab_size, workers.threads());
  if (settings.boolean("log_config") && request.printed == Printed::all) print_config(settings);
  say_what_is_not_done(settings);
  say_what_has_little_effect(settings);
  say_that_text_is_bytes(settings);
  show(request, header_words(request, size, batches.describe(), workers));
  StepProgram program = program_of(request);
  std::optional<StepProgram> evaluated = evaluation_of(request, program);
  const Footprint footprint = checked_memory(program, evaluated, request, workers.threads());
  const double in_regions = planned_in_regions(program);
  const std::string folder = folder_of(settings, company);
  Checkpoints checkpoints(settings, settings.boolean("enable_checkpointing") ? folder : "", request.from, company);
  const std::string metrics_file = metrics_path(settings, folder, company);
  Trainer trainer(std::move(program), settings, workers, company);
  const Start start = checkpoints.start(trainer, batches, workers);
  if (!start.has_parameters) initialize(trainer, request.model, settings.integer("init_weights_seed"), workers);
  show(request, start.words);
  const LastEvaluation last = last_evaluation(request, start, metrics_file);
  if (const std::string why = why_nothing_is_left(start, last, steps); !why.empty()) {
    if (request.printed != Printed::metrics) print_now(fmt::format("Nothing is left to do: {}\n", why));
    return 0;
  }
  std::optional<Evaluation> evaluation;
  if (evaluated) evaluation.emplace(*request.evaluated, *std::move(evaluated), trainer, workers.threads());
  if (evaluation) show(request, "evaluated " + evaluation->describe() + "\n");
  Records records(request, metrics_file, folder, trainer, start.step, size.parameters);  // a run that is refused above leaves no file
  Loop loop(request, size, {trainer, batches, checkpoints, evaluation, records});
  RunSummary run;
  try {
    run = loop.run(start.step, steps, last.is_missing);
  } catch (...) {
    if (records.trace) records.trace->finish_failed();
    throw;
  }
  run.peak_bytes = footprint.process;
  run.planned_in_regions = in_regions;
  if (request.printed != Printed::metrics)
    print_now(fmt::format("{}\n{}Metrics: {}\n", loop.saved(), summary_words(run), records.metrics.path()));
  if (records.trace) show(request, records.trace->finish());
  const run::Audit audit = trainer.audit();
  records.end(audit, request, folder);
  check_audit(audit, request.shows_audit);
  if (checkpoints.has_failed()) fail("the last checkpoint of the run is not saved", folder, "see above for what stood in its way");
  if (!request.next.empty()) show(request, "\nNext:\n" + request.next);
  return loop.exit_code();
}

}  // namespace moesh::train
