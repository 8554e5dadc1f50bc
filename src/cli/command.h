// One table of commands, and how a command line is split for them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moesh::cli {

struct Option {
  std::string_view name;   // "--json"
  // What it takes, e.g. "TEXT"; empty for a flag; "NAME TEXT" takes two words, whatever they begin with; "KEY=VALUE..." all that follow.
  std::string_view value;
  std::string_view help;
};

// A command line after the command's name.
class Arguments {
 public:
  Arguments(std::span<const Option> options, const std::vector<std::string>& words);

  bool has(std::string_view option) const;
  std::optional<std::string> value(std::string_view option) const;
  std::vector<std::string> values(std::string_view option) const;
  const std::vector<std::string>& request() const { return request_; }  // FILE.yml and key=value
  const std::vector<std::string>& words() const { return words_; }      // neither
  const std::vector<std::string>& all_words() const { return all_words_; }  // both in order, for commands that take any text
  // `keys` become the beginning of the request, so that what the user gave wins.
  void put_before(std::vector<std::string> keys);

 private:
  struct Given {
    std::string_view option;
    std::string value;
  };
  std::vector<Given> given_;
  std::vector<std::string> request_;
  std::vector<std::string> words_;
  std::vector<std::string> all_words_;
};

// The request of a command that takes nothing else: other words are refused, with `fix` as what to do.
const std::vector<std::string>& request_alone(const Arguments& arguments, const std::string& fix = {});

// The number from 1 to `most` that an option was given; `fix` is what to write instead of another one.
std::optional<std::int64_t> count_of(const Arguments& arguments, std::string_view option, std::int64_t most, const std::string& fix);

// How many threads compute; 0: one for each core that this process may keep busy.
inline constexpr Option kThreads{"--threads", "N", "computes with N threads, not with one for each core that this process may keep busy"};
int threads_of(const Arguments& arguments);

// The request of another program, for commands that list these among their options: `run` puts its keys before the command's request.
inline constexpr Option kFrom{"--from", "PROGRAM TEXT",
                              "the request of megatron or torchtitan: its command in quotes, flags alone, @FILE with them, or a TOML file"};
inline constexpr Option kHuggingFace{"--hf", "PATH", "the model of a Hugging Face folder or config.json"};

// How routers favour experts; short for a key.
inline constexpr Option kSkew{"--skew", "S",
                              "sends tokens to random experts, expert e with probability (e + 1)^-S: short for router_skew=S"};
// The request alone with that key behind it.
std::vector<std::string> request_with_skew(const Arguments& arguments, const std::string& fix = {});

struct Command {
  std::string_view name;
  std::string_view usage;
  std::string_view summary;  // one line
  std::string_view details;  // a paragraph or two
  std::span<const Option> options;
  std::span<const std::string_view> examples;
  int (*run)(const Arguments&);
  std::string (*more)(int width) = nullptr;  // what --help tells besides, below the options
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

std::string help_text();                    // of all commands
std::string help_text(const Command& command);
void print_help(const std::string& text);  // broken at the terminal's width

// Runs a command line; prints errors, and returns the exit code: 0 done, 1 it failed, 2 the request was wrong,
// 128 + N for signal N.
int run(const std::vector<std::string>& words);

}  // namespace moesh::cli
