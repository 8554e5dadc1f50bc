// Data as users have it: files and folders that are empty, unreadable, not regular files, larger than memory,
// or changed during a run. Errors are found before the first step.
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <gmock/gmock.h>

#include "base/random.h"
#include "config/load.h"
#include "tests/process.h"
#include "tests/train/train_support.h"
#include "tests/train/trainer_support.h"
#include "data/open.h"
#include "tests/data/rows_support.h"

namespace moesh::data {
namespace {

using test::bytes_of;
using test::kTinyModel;
using test::message_of;
using test::Outcome;
using test::TemporaryFolder;
using test::train_with;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<TokenSource> source(const std::string& request) {
  return open_source(config::load(test::words_of("enable_data_shuffling=false max_target_length=2 " + request)).settings, 4, 2);
}

// A folder with one of each kind of thing that is not data.
struct Hostile {
  TemporaryFolder folder;

  Hostile() {
    namespace fs = std::filesystem;
    folder.write("empty", "");
    for (const char* name : {"nothing", "of-empty", "of-folders/a/b", "of-hidden", "lines.jsonl"}) {
      fs::create_directories(at(name));
    }
    folder.write("of-empty/a", "");
    folder.write("of-hidden/.a", "text");
    fs::create_symlink("absent", at("dangling"));
    fs::create_symlink("loop", at("loop"));
    ::mkfifo(at("pipe").c_str(), 0600);
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof address.sun_path, "%s", at("socket").c_str());
    ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    ::close(socket);
  }
  std::string at(const std::string& name) const { return folder.path() + "/" + name; }
};

TEST(HostileData, IsRefusedBeforeAnythingIsDone) {
  const Hostile hostile;
  const std::string no_file = "the data cannot be read: No such file or directory";
  const std::string no_kind = "a pipe or a device, a file or a folder was expected";
  const std::string nothing = "the folder holds no files with something in them";
  const std::pair<std::string, std::string> cases[] = {
      {hostile.at("absent"), no_file},
      {hostile.at("dangling"), no_file},
      {hostile.at("loop"), "the data cannot be read: Too many levels of symbolic links"},
      {hostile.at("empty/below"), "the data cannot be read: Not a directory"},
      {hostile.at(std::string(300, 'x')), "the data cannot be read: File name too long"},
      {hostile.at("empty"), "the file is empty"},
      {hostile.at("nothing"), nothing},
      {hostile.at("of-empty"), nothing},
      {hostile.at("of-folders"), nothing},
      {hostile.at("of-hidden"), nothing},
      {hostile.at("lines.jsonl"), nothing},
      {hostile.at("pipe"), no_kind},
      {hostile.at("socket"), no_kind},
      {"/dev/null", no_kind},
      {"/dev/zero", no_kind},
      {"/proc/self/maps", "the file is empty"},
  };
  const std::string base = hostile.at("runs");
  for (const auto& [path, words] : cases) {
    for (const char* type : {"text", "jsonl", "tokens"}) {
      const Outcome outcome = train_with(
          fmt::format("{} dataset_type={} dataset_path={} base_output_directory={}", kTinyModel, type, path, base));
      EXPECT_EQ(outcome.code, 2) << type << " " << path;
      EXPECT_THAT(outcome.err, AllOf(HasSubstr(path + ": " + words), HasSubstr("\n  fix: "))) << type;
      EXPECT_EQ(outcome.out, "") << "before anything is printed";
    }
  }
  EXPECT_FALSE(std::filesystem::exists(base)) << "before anything is written";
}

// Tried as another user, since root can read everything.
TEST(HostileData, ThatMayNotBeReadIsRefused) {
  const TemporaryFolder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  std::filesystem::create_directories(folder.path() + "/open/closed");
  const std::string file = folder.write("secret", "text");
  const std::string below = folder.write("open/a", "text");
  for (const std::string& path : {file, folder.path() + "/open/closed"}) ::chmod(path.c_str(), 0);
  const bool owns_all = ::geteuid() == 0;
  const auto become = [&](uid_t user) { return owns_all ? ::seteuid(user) : 0; };
  ASSERT_EQ(become(65534), 0);
  const std::string of_file = message_of([&] { source("dataset_type=text dataset_path=" + file); });
  const std::string of_folder =
      message_of([&] { source("dataset_type=text dataset_path=" + folder.path() + "/open"); });
  ASSERT_EQ(become(0), 0);
  ::chmod((folder.path() + "/open/closed").c_str(), 0700);
  EXPECT_THAT(of_file, HasSubstr(file + ": the data cannot be read: Permission denied"));
  EXPECT_THAT(of_folder, HasSubstr("/open/closed: the folder cannot be read: Permission denied"));
}

// A wrong token is found even if no row of the first step has it.
TEST(HostileData, WithIdsThatTheVocabularyLacksIsRefusedBeforeTheFirstStep) {
  const TemporaryFolder folder;
  std::vector<std::int32_t> wide(5000, 3);
  wide[4321] = 23;
  std::vector<std::uint16_t> narrow(5000, 3);
  narrow[4999] = 65535;
  std::vector<std::int32_t> negative(5000, 3);
  negative[17] = -2;
  const std::string many(70'000, '\x05');
  const std::string wide_path = folder.write("wide", bytes_of(wide));
  const std::string narrow_path = folder.write("narrow", bytes_of(narrow));
  const std::string negative_path = folder.write("negative", bytes_of(negative));
  const std::string text_path = folder.write("text", many + "s");
  const std::string lines_path = folder.write("lines", "{\"text\": [1, 2]}\n{\"text\": [1, 23]}\n");
  const std::string huge_path = folder.write("huge", "{\"text\": [4294967297]}\n");
  const std::string bytes_path = folder.write("bytes", "{\"text\": \"\\u0001s\"}\n");
  struct Case {
    std::string request, path, words;
  };
  const Case cases[] = {
      {"tokens", wide_path, "token 23 at position 4321, read as 4 bytes a token, but vocab_size=23"},
      {"tokens", narrow_path, "token 65535 at position 4999, read as 2 bytes a token, but vocab_size=23"},
      {"tokens token_bytes=2", narrow_path, "token 65535 at position 4999, read as 2 bytes"},
      {"tokens token_bytes=4", narrow_path, "token 196611 at position 0, read as 4 bytes"},
      {"tokens", negative_path, "token -2 at position 17, read as 4 bytes"},
      {"text", text_path, "token 115 at position 70000, read as a byte a token, but vocab_size=23"},
      {"jsonl tokenize_train_data=false", lines_path + ":2",
       "token 23 at position 1 of the document, but vocab_size=23"},
      {"jsonl tokenize_train_data=false", huge_path, "no line is found that holds a list of token ids"},
      {"jsonl", bytes_path + ":1", "token 115 at position 1 of the document"},
  };
  for (const auto& [request, where, words] : cases) {
    const std::string path = where.substr(0, where.find(':'));
    const Outcome outcome = train_with(fmt::format("{} dataset_type={} dataset_path={} base_output_directory={}/runs",
                                                   kTinyModel, request, path, folder.path()));
    EXPECT_EQ(outcome.code, 2) << where;
    EXPECT_THAT(outcome.err, HasSubstr(where + ": " + words));
    EXPECT_EQ(outcome.out, "");
  }
  const std::string fits = kTinyModel + "steps=1 enable_checkpointing=false metrics_file=/dev/null vocab_size=";
  EXPECT_EQ(train_with(fits + "24 dataset_type=tokens dataset_path=" + wide_path).code, 0);
  EXPECT_EQ(train_with(fits + "116 dataset_type=text dataset_path=" + text_path).code, 0);
}

// The message names the file that is wrong, and the position within it.
TEST(HostileData, InAFolderIsNamedByItsFile) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() + "/a");
  folder.write("a/1", bytes_of<std::int32_t>({1, 2, 3}));
  const std::string second = folder.write("a/2", bytes_of<std::int32_t>({1, 300}));
  const std::string request = "dataset_type=tokens vocab_size=256 dataset_path=" + folder.path();
  EXPECT_THAT(message_of([&] { source(request); }), HasSubstr(second + ": token 300 at position 1"));
  const std::string third = folder.write("a/3", "12345");
  EXPECT_THAT(message_of([&] { source(request + " token_bytes=4"); }),
              HasSubstr(third + ": 5 bytes are no whole number of 4-byte tokens"));
}

TEST(HostileData, OfLessThanARowIsSaidToRepeat) {
  const TemporaryFolder folder;
  const std::string request = kTinyModel + "steps=1 enable_checkpointing=false metrics_file=/dev/null vocab_size=256 ";
  const auto said = [&](const std::string& type, const std::string& text) {
    return train_with(request + "dataset_type=" + type + " dataset_path=" + folder.write("data", text)).err;
  };
  const auto note = [&](const std::string& what, const std::string& rest) {
    return "moesh: note: the " + what + " of " + folder.path() + "/data: " + rest + " times\n";
  };
  EXPECT_EQ(said("text", "ab"), note("bytes", "2 tokens, a row takes 8: each row holds all of it 4.0"));
  EXPECT_EQ(said("text", "a"), note("bytes", "1 token, a row takes 8: each row holds all of it 8.0"));
  EXPECT_EQ(said("jsonl", "{\"text\": \"abcd\"}"), note("texts", "5 tokens, a row takes 8: each row holds all of it 1.6"));
  EXPECT_EQ(said("tokens", bytes_of<std::int32_t>({1, 2})), note("4-byte tokens", "2 tokens, a row takes 8: each row holds all of it 4.0"));
  EXPECT_EQ(said("text", "abcdefg"), note("bytes", "7 tokens, a row takes 8: each row holds all of it 1.1"));
  EXPECT_EQ(said("text", "abcdefgh"), "");
}

TEST(DataFolder, IsReadWithWhatLiesBelowItByPath) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() + "/b/deep/er");
  folder.write("a", "1");
  folder.write("b/deep/er/x", "2");
  folder.write("b/y", "3");
  folder.write("c", "4");
  const std::string request = "dataset_type=text dataset_path=" + folder.path();
  EXPECT_THAT(row_of(*source(request), 0, 4), ElementsAre('1', '2', '3', '4'));
  EXPECT_THAT(row_of(*source(request), 1, 3), ElementsAre('3', '4', '1')) << "rows go over the ends of files";
}

TEST(DataFolder, OfLinesAndOfTokensIsReadTheSameWay) {
  const TemporaryFolder lines, tokens;
  lines.write("1.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\"}");
  lines.write("2.jsonl", "{\"text\": \"c\"}\n");
  EXPECT_THAT(row_of(*source("dataset_type=jsonl dataset_path=" + lines.path()), 0, 6),
              ElementsAre('a', 0, 'b', 0, 'c', 0));
  tokens.write("1", bytes_of<std::int32_t>({1, 2}));
  tokens.write("2", bytes_of<std::int32_t>({3}));
  EXPECT_THAT(row_of(*source("dataset_type=tokens dataset_path=" + tokens.path()), 0, 3), ElementsAre(1, 2, 3));
}

// Links to a file of the same folder add nothing, a link to a file elsewhere adds that file.
TEST(DataFolder, HasEachFileOnce) {
  const TemporaryFolder folder, elsewhere;
  folder.write("b", "b");
  std::filesystem::create_symlink("b", folder.path() + "/a");
  std::filesystem::create_symlink(elsewhere.write("x", "x"), folder.path() + "/c");
  std::filesystem::create_hard_link(folder.path() + "/b", folder.path() + "/d");
  EXPECT_THAT(row_of(*source("dataset_type=text dataset_path=" + folder.path()), 0, 4), ElementsAre('b', 'x', 'b', 'x'));
}

TEST(DataFolder, SaysWhatItLeavesOut) {
  const TemporaryFolder folder;
  folder.write("a", "text");
  std::filesystem::create_symlink(".", folder.path() + "/circle");
  std::filesystem::create_symlink("absent", folder.path() + "/dangling");
  folder.write(".hidden", "text");
  ::mkfifo((folder.path() + "/pipe").c_str(), 0600);
  ::testing::internal::CaptureStderr();
  const auto text = source("dataset_type=text dataset_path=" + folder.path());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "moesh: note: " + folder.path() +
                ": left out are hidden entries, pipes, devices and links that lead to no file: 4 in all, " +
                folder.path() + "/.hidden is one\n");
  EXPECT_THAT(text->describe(), HasSubstr(", 4 tokens"));
}

// The width of token ids is detected from the file's size and its range of values, or given by token_bytes.
TEST(TokenBytes, AreToldBySizeAndRangeOrByTheirKey) {
  const TemporaryFolder folder;
  RandomKey key = random_key(1);
  std::uint64_t drawn = 0;
  const auto draw = [&]<typename T>(T, std::int32_t below, std::size_t count) {
    std::vector<T> ids(count);
    for (T& id : ids) id = static_cast<T>(random_integer(key, drawn++, 0, below));
    return bytes_of(ids);
  };
  for (const std::int32_t vocab : {4, 65, 256, 32000, 65536, 151936}) {
    for (const std::size_t count : {64u, 100u, 5000u}) {
      const std::string request = fmt::format("dataset_type=tokens vocab_size={} dataset_path=", vocab);
      const auto described = [&](const std::string& bytes) {
        return source(request + folder.write("a", bytes))->describe();
      };
      EXPECT_THAT(described(draw(std::uint32_t{}, vocab, count)), HasSubstr("the 4-byte tokens of ")) << vocab;
      EXPECT_THAT(described(draw(std::uint16_t{}, std::min(vocab, 65536), count)), HasSubstr("the 2-byte tokens of "))
          << vocab;
      EXPECT_THAT(described(draw(std::uint16_t{}, std::min(vocab, 65536), count + 1)),
                  HasSubstr("the 2-byte tokens of "))
          << vocab;
    }
  }
  EXPECT_THAT(
      source("dataset_type=tokens vocab_size=65 dataset_path=" + folder.write("odd", bytes_of<std::uint16_t>({1, 0, 2})))->describe(),
      HasSubstr("the 2-byte tokens of "))
      << "no whole number of four bytes";
  const std::string most = folder.write("most.u16", bytes_of<std::uint16_t>({1, 65535}));
  EXPECT_EQ(message_of([&] { source("dataset_type=tokens vocab_size=65536 dataset_path=" + most); }), "no error");
  EXPECT_THAT(message_of([&] { source("dataset_type=tokens vocab_size=65535 dataset_path=" + most); }),
              HasSubstr("token 65535 at position 1"));
  const std::string both = folder.write("both", bytes_of<std::uint32_t>({1, 2, 3}));
  const std::string request = "dataset_type=tokens dataset_path=" + both;
  EXPECT_THAT(row_of(*source(request), 0, 3), ElementsAre(1, 2, 3));
  EXPECT_THAT(row_of(*source(request + " token_bytes=4"), 0, 3), ElementsAre(1, 2, 3));
  EXPECT_THAT(row_of(*source(request + " token_bytes=2"), 0, 6), ElementsAre(1, 0, 2, 0, 3, 0));
  EXPECT_THAT(message_of([&] { source("dataset_type=text token_bytes=2 dataset_path=" + both); }),
              HasSubstr("token_bytes=2, but dataset_type=text has no files of token ids"));
  EXPECT_THAT(message_of([&] { source(request + " token_bytes=3"); }), HasSubstr("one of detect, 2, 4 was expected"));
}

// Sparse files take no disk space. Rows at their ends are read without reading the rest into memory.
TEST(LargeData, IsReadWhereItIsNeeded) {
  const TemporaryFolder folder;
  const std::int64_t bytes = std::int64_t{6} << 30;
  const auto large = [&](const std::string& name, const std::string& end) {
    const std::string path = folder.write(name, "");
    std::filesystem::resize_file(path, static_cast<std::uintmax_t>(bytes) - end.size());
    std::ofstream(path, std::ios::app | std::ios::binary) << end;
    return path;
  };
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  const auto text = source("dataset_type=text dataset_path=" + large("text", "abcd"));
  EXPECT_THAT(row_of(*text, (bytes - 2) / 2, 3), ElementsAre('c', 'd', 0)) << "round and round";
  EXPECT_THAT(text->describe(), HasSubstr("6,442,450,944 tokens"));
  const auto tokens = source("dataset_type=tokens token_bytes=2 vocab_size=65536 dataset_path=" +
                             large("tokens", bytes_of<std::uint16_t>({7, 65535})));
  EXPECT_THAT(row_of(*tokens, (bytes / 2 - 2) / 2, 3), ElementsAre(7, 65535, 0));
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 512 << 10) << "KiB";
  EXPECT_THAT(message_of([&] { source("dataset_type=jsonl dataset_path=" + folder.path()); }), HasSubstr("no line is found that holds a text"));
}

// The first signal ends a scan that would take minutes, here of a terabyte.
TEST(LargeData, CanBeLeftWhileItIsLookedThrough) {
  const TemporaryFolder folder;
  const std::string path = folder.write("tokens", "");
  std::filesystem::resize_file(path, std::uintmax_t{1} << 40);
  test::Process process("train " + kTinyModel + " dataset_type=tokens token_bytes=4 dataset_path=" + path,
                        folder.path());
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const auto sent = std::chrono::steady_clock::now();
  process.send(SIGINT);
  EXPECT_EQ(process.wait(), 130);
  EXPECT_LT(std::chrono::steady_clock::now() - sent, std::chrono::seconds(5));
}

TEST(ChangingData, EndsTheRunWithWhatHappened) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/a";
  const auto after = [&](const std::function<void()>& change) {
    std::filesystem::remove(path);
    folder.write("a", "abcdefgh");
    const auto text = source("dataset_type=text dataset_path=" + path);
    change();
    return message_of([&] { row_of(*text, 0, 4); });
  };
  const std::string changed = path +
                              ": the file was cut short or replaced while the run read it\n"
                              "  fix: leave the data alone during a run";
  EXPECT_EQ(after([&] { std::filesystem::resize_file(path, 3); }), changed);
  EXPECT_EQ(after([&] { std::filesystem::rename(folder.write("b", "zyxwvuts"), path); }), changed);
  EXPECT_EQ(after([&] { std::filesystem::remove(path); }),
            path + ": the data can no longer be read: No such file or directory");
  EXPECT_EQ(after([&] { std::ofstream(path, std::ios::app) << "more"; }), "no error");
}

}  // namespace
}  // namespace moesh::data
