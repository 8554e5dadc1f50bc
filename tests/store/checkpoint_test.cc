// Checkpoints: what was saved can be read, whole or in parts, and damaged data are refused.
#include "store/checkpoint.h"

#include <filesystem>
#include <numeric>
#include <optional>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "store/disk.h"
#include "store/folder.h"
#include "store/safetensors.h"
#include "store/saving.h"
#include "tests/support.h"

namespace moesh::store {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using test::message_of;

About about() { return {"1.0", "today", 7, 96, "adamw", 12, {{"fsdp", 2}}, {{"steps", "9"}, {"model_name", "a \"b\""}}}; }

// A matrix whose columns are split between two devices, and a vector.
struct State {
  std::vector<float> left = std::vector<float>(12), right = std::vector<float>(12), vector = std::vector<float>(5);

  State() {
    std::iota(left.begin(), left.end(), 0.0f);
    std::iota(right.begin(), right.end(), 100.0f);
    std::iota(vector.begin(), vector.end(), 1000.0f);
  }
  static std::byte* bytes(std::vector<float>& values) { return reinterpret_cast<std::byte*>(values.data()); }
  std::vector<Held> held() {
    return {{"decoder/w", {DType::float32, {6, 4}, 1, "[-, fsdp]", {}},
             {dense_part({{0, 6}, {0, 2}}, DType::float32, bytes(left)), dense_part({{0, 6}, {2, 4}}, DType::float32, bytes(right))},
             {whole_block({6, 4})}},
            {"v", {DType::float32, {5}, -1, "[-]", {}}, {dense_part({{0, 5}}, DType::float32, bytes(vector))}, {{{0, 2}}, {{2, 5}}}}};
  }
};

class Checkpoints : public ::testing::Test {
 protected:
  std::string save(const std::string& name = "7") {
    Saving saving(folder_.path() + "/" + name, about(), state_.held());
    saving.wait();
    EXPECT_EQ(saving.error(), "");
    EXPECT_GT(saving.bytes(), 0);
    return saving.folder();
  }
  std::vector<float> read(Checkpoint& checkpoint, const std::string& name, const Block& block) {
    std::vector<float> made(static_cast<std::size_t>(elements_of(block)), -1);
    checkpoint.read(name, {dense_part(block, DType::float32, State::bytes(made))}, workers_);
    return made;
  }

  test::TemporaryFolder folder_;
  State state_;
  backend::Workers workers_{2};
};

TEST_F(Checkpoints, GiveBackWhatWasSaved) {
  Checkpoint checkpoint(save());
  const About& about = checkpoint.index().about;
  EXPECT_EQ(about.step, 7);
  EXPECT_EQ(about.rows, 96);
  EXPECT_EQ(about.settings.size(), 2u);
  EXPECT_THAT(read(checkpoint, "v", {{0, 5}}), ElementsAre(1000, 1001, 1002, 1003, 1004));
  EXPECT_THAT(read(checkpoint, "decoder/w", {{1, 3}, {1, 3}}), ElementsAre(3, 102, 5, 104));
  EXPECT_THAT(checkpoint.damage(workers_), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/7.part"));
}

TEST_F(Checkpoints, AreReadableByAnyReaderOfSafetensors) {
  const TensorFile file = read_safetensors(save() + "/data-00000.safetensors");
  EXPECT_EQ(file.at("decoder/w").shape, (Shape{6, 4}));
  EXPECT_THAT(file.at("v[0:2]").values(), ElementsAre(1000, 1001));
  EXPECT_THAT(file.at("v[2:5]").values(), ElementsAre(1002, 1003, 1004));
}

TEST_F(Checkpoints, ReadOnlyTheChunksThatAreAskedFor) {
  std::vector<float> large(3 << 20);
  std::iota(large.begin(), large.end(), 0.0f);
  const Block block{{0, 3 << 10}, {0, 1 << 10}};
  {
    Saving saving(
        folder_.path() + "/1", about(),
        {{"w", {DType::float32, {3 << 10, 1 << 10}, -1, "", {}}, {dense_part(block, DType::float32, State::bytes(large))}, {block}}});
    saving.wait();
    ASSERT_EQ(saving.error(), "");
  }
  Checkpoint checkpoint(folder_.path() + "/1");
  EXPECT_EQ(checkpoint.index().tensors.at("w").pieces.front().hashes.size(), 3u);
  EXPECT_THAT(read(checkpoint, "w", {{2000, 2001}, {5, 7}}), ElementsAre(2000 * 1024 + 5, 2000 * 1024 + 6));
  EXPECT_EQ(checkpoint.bytes_read(), 4 << 20);
}

TEST_F(Checkpoints, TakeThePlaceOfOneOfTheSameName) {
  save();
  state_.vector[0] = 5;
  Checkpoint checkpoint(save());
  EXPECT_THAT(read(checkpoint, "v", {{0, 1}}), ElementsAre(5));
  EXPECT_THAT(steps_in(folder_.path()), ElementsAre(7));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/7.old"));
}

// The remains of a killed run are not a checkpoint, and do not block the next save.
TEST_F(Checkpoints, ThatWereNotFinishedAreNone) {
  std::filesystem::create_directories(folder_.path() + "/7.part");
  folder_.write("7.part/data-00000.safetensors", "half");
  EXPECT_THAT(steps_in(folder_.path()), IsEmpty());
  save();
  EXPECT_THAT(steps_in(folder_.path()), ElementsAre(7));
}

// A single flipped bit anywhere in any file is noticed.
TEST_F(Checkpoints, AreRefusedWhereABitIsAnotherOne) {
  const std::string path = save();
  std::mt19937 engine(3);
  for (const std::string name : {"/index.json", "/data-00000.safetensors"}) {
    const std::string whole = test::read_text(path + name);
    for (int trial = 0; trial < 400; ++trial) {
      std::string changed = whole;
      const std::size_t at = engine() % changed.size();
      changed[at] = static_cast<char>(changed[at] ^ (1 << engine() % 8));
      std::ofstream(path + name, std::ios::binary) << changed;
      std::vector<std::string> damage;
      const std::string error = message_of([&] { damage = Checkpoint(path).damage(workers_); });
      EXPECT_TRUE(error != "no error" || !damage.empty()) << name << ", byte " << at;
    }
    std::ofstream(path + name, std::ios::binary) << whole;
  }
  EXPECT_THAT(Checkpoint(path).damage(workers_), IsEmpty());
}

TEST_F(Checkpoints, AreRefusedWhereTheyAreCutShort) {
  const std::string path = save();
  for (const std::string name : {"/index.json", "/data-00000.safetensors"}) {
    const std::string whole = test::read_text(path + name);
    for (std::size_t length = 0; length < whole.size(); length += 1 + whole.size() / 50) {
      std::ofstream(path + name, std::ios::binary) << whole.substr(0, length);
      EXPECT_NE(message_of([&] { Checkpoint{path}; }), "no error") << name << ", " << length << " bytes";
    }
    std::ofstream(path + name, std::ios::binary) << whole;
  }
}

TEST_F(Checkpoints, SayWhatIsDamagedAndWhatToDo) {
  const std::string path = save(), data = path + "/data-00000.safetensors";
  std::string bytes = test::read_text(data);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::ofstream(data, std::ios::binary) << bytes;
  Checkpoint checkpoint(path);
  EXPECT_THAT(message_of([&] { read(checkpoint, "v", {{0, 5}}); }),
              AllOf(HasSubstr("v is damaged: the hash of bytes "), HasSubstr(data), HasSubstr("take another checkpoint of the run")));
  EXPECT_THAT(read(checkpoint, "v", {{0, 2}}), ElementsAre(1000, 1001)) << "another piece is whole";
  bytes.pop_back();
  std::ofstream(data, std::ios::binary) << bytes;
  EXPECT_THAT(message_of([&] { Checkpoint{path}; }), AllOf(HasSubstr(" bytes, index.json says "), HasSubstr(data)));
  EXPECT_THAT(message_of([&] { read(checkpoint, "v", {{2, 5}}); }), HasSubstr("cut short: it cannot be read up to byte "));
  std::ofstream(data, std::ios::binary) << bytes << "xx";
  EXPECT_THAT(message_of([&] { Checkpoint{path}; }), HasSubstr(" bytes, index.json says ")) << "longer than it was";
  bytes[30] = static_cast<char>(bytes[30] ^ 1);
  std::ofstream(data, std::ios::binary) << bytes << "x";
  EXPECT_THAT(message_of([&] { Checkpoint{path}; }), HasSubstr("its header is damaged: the hash is another one"));
  std::filesystem::remove(data);
  EXPECT_THAT(message_of([&] { Checkpoint{path}; }), HasSubstr("it cannot be opened: No such file or directory"));
  EXPECT_THAT(message_of([&] { read(checkpoint, "x", {{0, 2}}); }), HasSubstr("the checkpoint has no such tensor"));
  EXPECT_THAT(message_of([] { Checkpoint{"/nowhere"}; }), HasSubstr("the index of a checkpoint cannot be read"));
}

// An error of the system says nothing about the content of a checkpoint.
TEST_F(Checkpoints, AreNotDamagedWhereTheSystemDoesNotLetThemBeRead) {
  const std::string path = save();
  const auto refused = [&](const std::string& name) {
    ::chmod((path + name).c_str(), 0);
    const test::AnotherUser other;
    std::optional<ErrorParts> parts;
    try {
      Checkpoint{path};
    } catch (const Error& error) {
      parts = error.parts();
    }
    return parts.value_or(ErrorParts{});
  };
  for (const std::string name : {"/data-00000.safetensors", "/index.json"}) {
    const ErrorParts parts = refused(name);
    EXPECT_EQ(parts.fault, Fault::failed) << name;
    EXPECT_EQ(parts.what, "the system does not let it be read: Permission denied") << name;
    EXPECT_EQ(parts.where, path + name);
  }
}

TEST(CheckpointIndex, IsRefusedWhereItIsDamaged) {
  std::string text = to_json({about(), {}, {}});
  text[20] = static_cast<char>(text[20] ^ 1);
  EXPECT_THAT(message_of([&] { parse_index(text, "i"); }), HasSubstr("damaged: its hash is another one"));
  EXPECT_THAT(message_of([&] { parse_index("{}", "i"); }), HasSubstr("cut short, damaged, or no index of a checkpoint"));
}

TEST(CheckpointFolders, ThatCannotBeRemovedAreSaid) {
  EXPECT_THAT(message_of([] { remove_folder(std::string(300, 'x')); }), HasSubstr("the folder cannot be removed: "));
}

TEST_F(Checkpoints, StayReadableWhileTheyAreRemoved) {
  const std::string path = save();
  Checkpoint checkpoint(path);
  std::filesystem::remove_all(path);
  EXPECT_THAT(read(checkpoint, "v", {{0, 1}}), ElementsAre(1000));
}

TEST_F(Checkpoints, AreNotWrittenWhereNobodyMay) {
  folder_.write("file", "");
  Saving saving(folder_.path() + "/file/7", about(), state_.held());
  saving.wait();
  EXPECT_THAT(saving.error(), HasSubstr("/file/7"));
  saving.wait_for("v");  // returns at once, since the save failed
}

// Each process writes a part; the first process writes the index of all parts.
TEST_F(Checkpoints, AreWrittenByProcessesTogether) {
  const std::string path = folder_.path() + "/7";
  const auto of = [&](const Block& matrix, const Block& vector) {
    std::vector<Held> held = state_.held();
    held[0].pieces = {matrix};
    held[1].pieces = {vector};
    return held;
  };
  make_part_folder(path);
  Saving second(path, about(), of({{0, 6}, {2, 4}}, {{3, 5}}), {1, 2, 10});
  Saving first(path, about(), of({{0, 6}, {0, 2}}, {{0, 3}}), {0, 2, 10});
  first.wait();
  second.wait();
  EXPECT_EQ(first.error() + second.error(), "");
  Checkpoint checkpoint(path);
  EXPECT_EQ(checkpoint.index().files.size(), 2u);
  EXPECT_THAT(checkpoint.damage(workers_), IsEmpty());
  EXPECT_THAT(read(checkpoint, "v", {{0, 5}}), ElementsAre(1000, 1001, 1002, 1003, 1004));
  EXPECT_THAT(read(checkpoint, "decoder/w", {{1, 3}, {1, 3}}), ElementsAre(3, 102, 5, 104));
}

TEST_F(Checkpoints, AreNoneWhereAProcessDoesNotWriteItsPart) {
  const std::string path = folder_.path() + "/7";
  make_part_folder(path);
  Saving late(path, about(), state_.held(), {0, 2, 0.05});
  late.wait();
  EXPECT_THAT(late.error(), HasSubstr("process 1 has not written its part for "));
  make_part_folder(path);
  folder_.write("7.part/data-00001.safetensors", "in the way");
  Saving failing(path, about(), state_.held(), {1, 2, 10});
  failing.wait();
  Saving first(path, about(), state_.held(), {0, 2, 10});
  first.wait();
  EXPECT_THAT(first.error(), AllOf(HasSubstr("process 1: "), HasSubstr("File exists")));
  EXPECT_THAT(steps_in(folder_.path()), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
}

// One process still writes after another has failed: nothing of it may stay.
TEST_F(Checkpoints, AreRemovedOnceNoProcessWritesThem) {
  const std::string path = folder_.path() + "/7", part = path + ".part";
  make_part_folder(path);
  folder_.write("7.part/data-00000.safetensors", "in the way");
  Saving first(path, about(), state_.held(), {0, 2, 60});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(first.is_done()) << "the other process has not begun";
  Saving second(path, about(), state_.held(), {1, 2, 60});
  first.wait();
  second.wait();
  EXPECT_THAT(first.error(), HasSubstr("File exists"));
  EXPECT_EQ(second.error(), "");
  EXPECT_FALSE(std::filesystem::exists(part));
}

TEST_F(Checkpoints, SayWhatStaysOfThem) {
  const std::string path = folder_.path() + "/7", stays = path + ".part/a";
  make_part_folder(path);
  folder_.write("7.part/failed-00001", "");
  std::filesystem::create_directory(stays);
  folder_.write("7.part/a/b", "");
  ::chmod((path + ".part").c_str(), 0777);
  ::chmod(stays.c_str(), 0555);
  std::string error;
  {
    const test::AnotherUser other;
    Saving first(path, about(), state_.held(), {0, 2, 60});
    first.wait();
    error = first.error();
  }
  ::chmod(stays.c_str(), 0755);
  EXPECT_THAT(error, AllOf(HasSubstr("process 1: it failed, and has no room to say why"),
                           HasSubstr(path + ".part stays until the run is started again: Permission denied")));
}

TEST_F(Checkpoints, OfLaterStepsReplaceTheOldest) {
  for (const char* step : {"1", "3", "20"}) save(step);
  EXPECT_THAT(steps_in(folder_.path()), ElementsAre(1, 3, 20));
  EXPECT_THAT(keep_newest(folder_.path(), 2), ElementsAre(1));
  EXPECT_THAT(keep_newest(folder_.path(), 2), IsEmpty());
  EXPECT_THAT(steps_in(folder_.path()), ElementsAre(3, 20));
  EXPECT_THAT(checkpoints_at(folder_.path()), ElementsAre(folder_.path() + "/20", folder_.path() + "/3"));
  EXPECT_THAT(checkpoints_at(folder_.path() + "/3"), ElementsAre(folder_.path() + "/3"));
  for (const char* end : {"/items", "/items/"}) EXPECT_THAT(checkpoints_at(folder_.path() + "/3" + end), ElementsAre(folder_.path() + "/3"));
  EXPECT_THAT(message_of([] { checkpoints_at("/nowhere"); }), HasSubstr("no checkpoint is there"));
}

TEST_F(Checkpoints, HaveOneWriterAtATime) {
  const FolderLock lock(folder_.path());
  EXPECT_THAT(message_of([&] { FolderLock{folder_.path()}; }), HasSubstr("another run writes its checkpoints there"));
}

TEST(CheckpointSettings, AreComparedKeyByKey) {
  std::vector<std::string> changed;
  for (const auto& [key, before, after] : changed_settings({{"a", "1"}, {"b", "2"}, {"c", "3"}}, {{"d", "4"}, {"b", "5"}, {"c", "3"}})) {
    changed.push_back(key + " " + before + " " + after);
  }
  EXPECT_THAT(changed, ElementsAre("d - 4", "b 2 5", "a 1 -"));
}

// The refusal of an index that contradicts itself but has the right hash.
std::string refusal(const std::string& changed_from, const std::string& to) {
  Index index{about(), {{"d", 200, 100, 1}}, {}};
  index.tensors["w"] = {DType::float32, {2, 3}, 1, "", {{0, 100, whole_block({2, 3}), {1}}}};
  std::string text = to_json(index);
  std::string body = text.substr(0, text.rfind(",\n\"hash\""));
  const std::size_t at = body.find(changed_from);
  EXPECT_NE(at, std::string::npos) << body;
  body.replace(at, changed_from.size(), to);
  return message_of([&] { parse_index(sealed(body), "i"); });
}

TEST(CheckpointIndex, IsHeldToItsRules) {
  EXPECT_EQ(refusal("\"w\"", "\"w\""), "no error");
  EXPECT_THAT(refusal("moesh checkpoint", "moesh plan"), HasSubstr("no index of a checkpoint"));
  EXPECT_THAT(refusal("\"version\": 1", "\"version\": 2"), HasSubstr("version 2 of the format, this moesh reads version 1"));
  EXPECT_THAT(refusal("\"step\": 7", "\"step\": -7"), HasSubstr("'step' is -7"));
  EXPECT_THAT(refusal("\"step\": 7", "\"stop\": 7"), HasSubstr("'step' is missing"));
  EXPECT_THAT(refusal("\"name\": \"d\"", "\"name\": \"../d\""), HasSubstr("is no name of a file"));
  EXPECT_THAT(refusal("\"header_bytes\": 100", "\"header_bytes\": 300"), HasSubstr("sizes or hashes that are none"));
  EXPECT_THAT(refusal("float32", "float31"), HasSubstr("an unknown type"));
  EXPECT_THAT(refusal("\"layers_dim\": 1", "\"layers_dim\": 2"), HasSubstr("layers in a dim that it has not"));
  const std::string spec = "\"spec\": \"\"";
  EXPECT_EQ(refusal(spec, spec + ", \"from\": [\"float16\"]"), "no error");
  EXPECT_EQ(refusal(spec, spec + ", \"from\": [\"float16\", \"float32\", \"bfloat16\"]"), "no error");
  EXPECT_THAT(refusal(spec, spec + ", \"from\": [\"int32\"]"), HasSubstr("w: from an unknown type, int32"));
  EXPECT_THAT(refusal(spec, spec + ", \"from\": [\"float16\", \"float16\"]"), HasSubstr("w: from 2 types, for 3 layers"));
  EXPECT_THAT(refusal("\"w\"", "\"decoder/scanned_blocks/local_layers/w\""), HasSubstr("layers in a dim that it has not"))
      << "each layer of this stack is a stack too, in the dim after that of the layers";
  EXPECT_THAT(refusal("\"shape\": [2, 3], \"layers", "\"shape\": [2, 4], \"layers"), HasSubstr("6 of its 8 elements are there"));
  EXPECT_THAT(refusal("\"shape\": [2, 3], \"layers", "\"shape\": [9223372036854775807, 3], \"layers"), HasSubstr("'shape' is"));
  EXPECT_THAT(refusal("\"file\": 0", "\"file\": 1"), HasSubstr("a piece that lies outside of it, or of its file"));
  EXPECT_THAT(refusal("\"offset\": 100", "\"offset\": 190"), HasSubstr("a piece that lies outside of it, or of its file"));
  EXPECT_THAT(refusal("\"hashes\": \"00", "\"hashes\": \""), HasSubstr("not a hash for each of its chunks"));
  EXPECT_THAT(refusal("\"hashes\": \"00", "\"hashes\": \"xx"), HasSubstr("hashes that are none"));
  EXPECT_THAT(refusal("\"tensors\": {", "\"tensors\": {\"x\": 1, "), HasSubstr("is missing"));
  EXPECT_THAT(refusal("\"files\": [", "\"files\": 7, \"x\": ["), HasSubstr("'files' is no list"));
  EXPECT_THAT(refusal("\"mesh\": {", "\"mesh\": 7, \"x\": {"), HasSubstr("'mesh' is no object"));
}

// As many elements as the tensor has, but one row twice and the other not at all.
TEST(CheckpointIndex, IsRefusedWherePiecesOverlapThoughTheirNumberIsRight) {
  const auto parsed = [](const Block& second) {
    Index index{about(), {{"d", 200, 100, 1}}, {}};
    index.tensors["w"] = {DType::float32, {2, 3}, -1, "", {{0, 100, {{0, 1}, {0, 3}}, {1}}, {0, 112, second, {1}}}};
    return message_of([&] { parse_index(to_json(index), "i"); });
  };
  EXPECT_EQ(parsed({{1, 2}, {0, 3}}), "no error");
  EXPECT_THAT(parsed({{0, 1}, {0, 3}}), HasSubstr("w: pieces that overlap"));
}

}  // namespace
}  // namespace moesh::store
