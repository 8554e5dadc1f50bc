// `moesh serve` as a process, from printing its address to its end, and wrong requests.
#include <fstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/cli/outcome.h"
#include "tests/process.h"
#include "tests/serve/http_client.h"

namespace moesh::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string served_llama() { return (test::source_folder() / "tests/golden/hf/llama").string(); }

// Waits until the server prints its address, and returns the port.
int port_of(const test::Process& process) {
  int port = 0;
  const bool is_ready = test::wait_until([&] {
    const std::string said = process.out();
    const std::size_t at = said.find("http://127.0.0.1:");
    if (at == std::string::npos || said.back() != '\n') return false;
    port = static_cast<int>(parse_integer(said.substr(at + 17, said.find('/', at + 17) - at - 17)).value_or(0));
    return true;
  });
  EXPECT_TRUE(is_ready) << process.err();
  return port;
}

TEST(ServeCommand, AnswersUntilItIsAskedToEnd) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const test::TemporaryFolder folder;
    test::Process process("serve " + served_llama() + "/ tokenizer_path= dtype=float32 --port 0 --batch 2 --max-tokens 5 --threads 1", folder.path());
    const int port = port_of(process);
    EXPECT_THAT(process.out(), HasSubstr("moesh serves llama at http://127.0.0.1:"));
    const test::Reply reply = test::post(port, R"({"model": "llama", "prompt": "abc", "temperature": 0, "max_tokens": 5})");
    EXPECT_EQ(reply.status, 200) << reply.body;
    const Outcome decoded = outcome_of({"decode", served_llama(), "tokenizer_path=", "dtype=float32", "--json", "--max-tokens", "5", "abc"});
    EXPECT_EQ(nlohmann::json::parse(reply.body)["choices"][0]["text"], nlohmann::json::parse(decoded.out)["text"]);
    EXPECT_EQ(test::post(port, R"({"prompt": "abc", "max_tokens": 6})").status, 400);
    EXPECT_EQ(nlohmann::json::parse(test::get(port, "/v1/models").body)["data"][0]["max_model_len"], 256) << "the model's positions";
    process.send(signal);
    EXPECT_EQ(process.wait(), 0);
    EXPECT_THAT(process.err(), HasSubstr("note: 200: 1 text, 3 + 5 tokens in "));
    EXPECT_THAT(process.err(), HasSubstr("ending when the texts have ended; once more ends it at once"));
  }
}

TEST(ServeCommand, TakesWhatDecodeTakesAndHasItsOwnWords) {
  const test::TemporaryFolder folder;
  test::Process process("serve " + served_llama() + " tokenizer_path= dtype=float32 --port 0 --name mine --quiet --queue 1 --batch 1 --max-body 200 --connections 3 "
                        "--timeout 5 --grace 1 --host 127.0.0.1 decode_sampling_strategy=greedy max_target_length=40 decode_sampling_seed=4",
                        folder.path());
  const int port = port_of(process);
  const auto text = [&](const std::string& more) { return test::post(port, R"({"model": "mine", "prompt": "abc")" + more + "}").body; };
  EXPECT_EQ(nlohmann::json::parse(text(""))["choices"], nlohmann::json::parse(text(R"(, "temperature": 0)"))["choices"]);
  EXPECT_THAT(text(R"(, "n": 3)"), HasSubstr("'n' is 3, an integer from 1 to 2"));
  EXPECT_THAT(text(R"(, "max_tokens": 38)"), HasSubstr("prompt and text have 40 tokens at most"));
  EXPECT_EQ(test::post(port, "{\"prompt\": \"" + std::string(300, 'a') + "\"}").status, 413);
  process.send(SIGTERM);
  EXPECT_EQ(process.wait(), 0);
  EXPECT_THAT(process.err(), Not(HasSubstr("note: 200")));
}

TEST(ServeCommand, SaysWhatIsWrong) {
  const std::string of_llama = "serve " + served_llama() + " tokenizer_path= ";
  EXPECT_THAT(outcome("serve").err, HasSubstr("which model?"));
  EXPECT_THAT(outcome("serve --port 5").err, HasSubstr("which model?"));
  EXPECT_THAT(outcome(of_llama + "abc").err, HasSubstr("'abc' after the model is no key=value"));
  EXPECT_THAT(outcome(of_llama + "--port 70000").err, HasSubstr("--port 70000: not a number from 0 to 65535"));
  EXPECT_THAT(outcome(of_llama + "--batch 0").err, HasSubstr("--batch 0: not a number from 1 to"));
  EXPECT_THAT(outcome("serve /no/such/model").err, HasSubstr("/no/such/model"));
  EXPECT_EQ(outcome(of_llama + "--port x").code, 2);
  EXPECT_THAT(outcome("serve " + served_llama()).err, HasSubstr("the folder has no tokenizer.json and no tokenizer.model"));
  for (const std::string host : {"192.0.2.1", "http://127.0.0.1", "127.0.0.1:80", "no.such.host.invalid"}) {
    EXPECT_THAT(outcome(of_llama + "--host " + host).err,
                AllOf(HasSubstr(host + ":8000: cannot listen: "), HasSubstr("\n  fix: --host takes an address or a name of this machine, "))) << host;
  }
  EXPECT_THAT(outcome(of_llama + "--name=").err, HasSubstr("--name takes NAME, which is missing"));
}

TEST(ServeCommand, NeedsItsModuleBesideTheBinary) {
  const test::TemporaryFolder folder;
  const std::string alone = folder.path() + "/bin/moesh";
  std::filesystem::create_directory(folder.path() + "/bin");
  std::filesystem::copy_file(test::binary(), alone);
  const auto error = [&] {
    EXPECT_EQ(test::shell(alone + " serve " + served_llama() + " tokenizer_path= --port 0 2>" + folder.path() + "/err"), 1);
    return test::read_text(folder.path() + "/err");
  };
  EXPECT_THAT(error(), HasSubstr("/bin/libmoesh_http.so: the module that speaks HTTP cannot be opened: "));
  std::ofstream(folder.path() + "/bin/libmoesh_http.so") << std::string(1000, 'x');
  EXPECT_THAT(error(), HasSubstr("invalid ELF header")) << "of the file that is there";
}

}  // namespace
}  // namespace moesh::cli
