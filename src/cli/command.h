// The table of commands, and how a command line is split into options, request and words.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/request.h"
#include "config/settings.h"

namespace moesh::cli {

struct Option {
  std::string_view name;   // "--json"
  // What the option takes: nothing if it is empty (a flag), one word ("TEXT"), two words whatever they begin with ("NAME TEXT"), or all
  // words up to the next option ("KEY=VALUE...").
  std::string_view value;
  std::string_view help;
  bool repeats = false;  // whether it may be given several times; an option that takes all words up to the next one always may
};

// The words of a command line after the command's name.
class Arguments {
 public:
  Arguments(std::span<const Option> options, const std::vector<std::string>& words);

  bool has(std::string_view option) const;
  std::optional<std::string> value(std::string_view option) const;
  std::vector<std::string> values(std::string_view option) const;
  const std::vector<std::string>& request() const { return request_; }  // FILE.yml and key=value
  const std::vector<std::string>& translated() const { return translated_; }  // the part of it that is another program's
  const std::vector<std::string>& words() const { return words_; }      // words that are neither
  const std::vector<std::string>& all_words() const { return all_words_; }  // both in order, for commands that take any text
  std::size_t plain_words() const { return plain_words_; }  // how many of these, the last ones, stand behind --
  // Puts what another program's request is translated to before the request; `with` translates it with keys added.
  void translate(config::Keys translated, config::Request::With with, config::Engine engine);
  const config::Engine& engine() const { return engine_; }  // the program of the request
  // The request with these keys, and how it changes.
  config::Request changeable(const config::Keys& more = {}) const;

 private:
  struct Given {
    std::string_view option;
    std::string value;
  };
  std::vector<Given> given_;
  config::Keys request_;
  config::Keys translated_;
  config::Request::With with_;
  config::Engine engine_;
  std::vector<std::string> words_;
  std::vector<std::string> all_words_;
  std::size_t plain_words_ = 0;
};

// The request of a command that takes nothing else. Any other word is refused, and `fix` tells the user what to do.
const std::vector<std::string>& request_alone(const Arguments& arguments, const std::string& fix = {});

// The value of an option that takes a number from 1 to `most`, if it was given. Any other value is refused; `fix` tells what to write.
std::optional<std::int64_t> count_of(const Arguments& arguments, std::string_view option, std::int64_t most, const std::string& fix);

// The number of compute threads; 0 means one per core that this process may keep busy.
inline constexpr Option kThreads{"--threads", "N", "computes with N threads, not with one for each core that this process may keep busy"};
int threads_of(const Arguments& arguments);

// Options that import the request of another program. For commands that list them, `run` puts the imported keys before the request.
inline constexpr Option kFrom{"--from", "PROGRAM TEXT",
                              "the request of megatron or torchtitan: its command in quotes, flags alone, @FILE with them, or a TOML file"};
inline constexpr Option kHuggingFace{"--hf", "PATH", "the model of a Hugging Face folder or config.json"};

// The number of steps that a benchmark is asked to time.
std::int64_t timed_steps(const config::Settings& settings);

// How unevenly routers choose experts; short for the key router_skew.
inline constexpr Option kSkew{"--skew", "S",
                              "sends tokens to random experts, the r-th in proportion to r^-S: short for router_skew=S"};
// As request_alone, with router_skew=S appended if --skew was given.
std::vector<std::string> request_with_skew(const Arguments& arguments, const std::string& fix = {});
// What it appends.
config::Keys skew_of(const Arguments& arguments);

struct Command {
  std::string_view name;
  std::string_view usage;
  std::string_view summary;  // one line
  std::string_view details;  // paragraphs, separated by empty lines
  std::span<const Option> options;
  std::span<const std::string_view> examples;
  int (*run)(const Arguments&);
  std::string (*more)(int width) = nullptr;  // further text that --help prints below the options
};

std::span<const Command* const> commands();

extern const Command kShardings;
extern const Command kWhy;
extern const Command kLint;
extern const Command kGraph;
extern const Command kCompile;
extern const Command kSearch;
extern const Command kDoctor;
extern const Command kTrain;
extern const Command kCheckpoint;
extern const Command kRuns;
extern const Command kReport;
extern const Command kTokenize;
extern const Command kDecode;
extern const Command kServe;
extern const Command kConvert;
extern const Command kBench;
extern const Command kVerify;
extern const Command kHelp;

std::string help_text();                    // an overview of all commands
std::string help_text(const Command& command);
void print_help(const std::string& text);  // wraps the text at the terminal's width

// Runs a command line, prints errors, and returns the exit code: 0 for success, 1 for a failure, 2 for a wrong request, 128 + N for
// signal N.
int run(const std::vector<std::string>& words);

}  // namespace moesh::cli
