#include "run/model_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/files.h"
#include "core/log.h"
#include "testing/test_kit.h"
#include "weights/folder_place.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;

class ModelFilesTest : public testing::Test {
 protected:
  ModelFilesTest() {
    Write(learner_ / "model/config.json", "{}");
    Write(learner_ / "model/tokenizer.json", "[1]");
    Write(learner_ / "model/notes.md", "somebody's");
    Write(learner_ / "model/model.safetensors", Large());
    Write(learner_ / "adapter/adapter_model.safetensors", "adapter");
    Write(learner_ / "adapter/adapter_config.json", "{\"r\": 1}");
    folders_ = {learner_ / "model", "", learner_ / "adapter"};
    InitLog({.level = LogLevel::kOff});
  }
  ~ModelFilesTest() override { InitLog({}); }
  static void Write(const std::string& path, const std::string& content) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << content;
  }
  // More than two chunks.
  static std::string Large() {
    std::string large((size_t{34} << 20) + 7, ' ');
    for (size_t i = 0; i < large.size(); i += 1000) large[i] = static_cast<char>(i / 1000);
    return large;
  }
  std::vector<ModelFile> List(bool with_weights) const {
    auto files = ListModelFiles(folders_, with_weights);
    EXPECT_TRUE(files.ok()) << files.status().ToString();
    return std::move(*files);
  }
  ModelShelf::Open Shelf() {
    return [dir = place_.path()]() -> Result<std::unique_ptr<ObjectPlace>> {
      return NewFolderPlace(dir);
    };
  }
  static std::vector<std::string> NamesOf(const std::vector<ModelFile>& files) {
    std::vector<std::string> names;
    for (const ModelFile& file : files) names.push_back(file.folder + "/" + file.name);
    return names;
  }

  TemporaryDirectory learner_, place_, worker_;
  ModelFolders folders_;
};

TEST_F(ModelFilesTest, AWorkerWithoutTheFoldersGetsThemOnceItAsks) {
  const std::vector<ModelFile> files = List(true);
  EXPECT_THAT(
      NamesOf(files),
      testing::ElementsAre("model/config.json", "model/model.safetensors", "model/tokenizer.json",
                           "adapter/adapter_config.json", "adapter/adapter_model.safetensors"));
  ModelShelf shelf(folders_, files, Shelf());
  const auto place = NewFolderPlace(place_.path());
  ModelFolders mine = {"/nowhere/model", "", "/nowhere/adapter"};
  int asked = 0;
  const auto ask = [&] {
    ++asked;
    shelf.Want();
    return Ok();
  };
  const Status brought = BringModel(files, *place, worker_.path(), ask, mine);
  ASSERT_TRUE(brought.ok()) << brought.ToString();
  EXPECT_GT(asked, 0);
  EXPECT_EQ(ReadFileBounded(mine.model + "/model.safetensors", size_t{1} << 30).value(), Large());
  EXPECT_EQ(ReadFileBounded(mine.adapter + "/adapter_model.safetensors", 100).value(), "adapter");
  EXPECT_TRUE(mine.tokenizer.empty());
  // A second time nothing is fetched.
  ModelFolders again = {"/nowhere/model", "", "/nowhere/adapter"};
  fs::remove_all(place_.path());
  const auto nobody = [] { return Closed("asked"); };
  ASSERT_TRUE(BringModel(files, *place, worker_.path(), nobody, again).ok());
  EXPECT_EQ(again.model, mine.model);
}

TEST_F(ModelFilesTest, OnlyWhatAWorkerReadsIsListed) {
  EXPECT_THAT(
      NamesOf(List(false)),
      testing::ElementsAre("model/config.json", "model/tokenizer.json",
                           "adapter/adapter_config.json", "adapter/adapter_model.safetensors"));
}

TEST_F(ModelFilesTest, AFolderWithTheSameFilesIsUsedAndOneWithOthersIsNot) {
  const std::vector<ModelFile> files = List(true);
  const auto place = NewFolderPlace(place_.path());
  const auto nobody = [] { return Closed("asked"); };
  ModelFolders same = folders_;
  ASSERT_TRUE(BringModel(files, *place, worker_.path(), nobody, same).ok());
  EXPECT_EQ(same.model, folders_.model);
  Write(learner_ / "model/tokenizer.json", "[2]");
  EXPECT_EQ(BringModel(files, *place, worker_.path(), nobody, same).code(), Code::kClosed);
}

TEST_F(ModelFilesTest, ABrokenTransferGoesOnAndAWrongFileIsNotTaken) {
  const std::vector<ModelFile> files = List(true);
  const auto place = NewFolderPlace(place_.path());
  ModelShelf shelf(folders_, files, Shelf());
  shelf.Want();
  const auto nobody = [] { return Closed("asked"); };
  ModelFolders mine = {"/nowhere/model", "", "/nowhere/adapter"};
  const std::string last = "model-" + files[1].sha256.substr(0, 32) + "-2";
  ASSERT_TRUE(Eventually([&] { return fs::exists(place_ / last); }));
  fs::rename(place_ / last, place_ / "away");
  EXPECT_EQ(BringModel(files, *place, worker_.path(), nobody, mine).code(), Code::kClosed);
  const std::string first = "model-" + files[1].sha256.substr(0, 32) + "-0";
  fs::remove(place_ / first);
  fs::rename(place_ / "away", place_ / last);
  ASSERT_TRUE(Eventually([&] {
    mine = {"/nowhere/model", "", "/nowhere/adapter"};
    return BringModel(files, *place, worker_.path(), nobody, mine).ok();
  })) << "what came before the break is not fetched again";
  EXPECT_EQ(ReadFileBounded(mine.model + "/model.safetensors", size_t{1} << 30).value(), Large());

  fs::remove_all(worker_.path());
  Write(place_ / ("model-" + files[0].sha256.substr(0, 32) + "-0"), "[]");
  mine = {"/nowhere/model", "", "/nowhere/adapter"};
  const Status wrong = BringModel(files, *place, worker_.path(), nobody, mine);
  EXPECT_EQ(wrong.code(), Code::kCorrupt);
  EXPECT_THAT(wrong.message(), testing::HasSubstr("config.json: what came is not"));
}

TEST_F(ModelFilesTest, AListFromOutsideNamesOnlyFilesOfItsFolders) {
  const std::string hash(64, 'a');
  EXPECT_TRUE(CheckModelFile({"model", "config.json", 5, hash}).ok());
  for (const ModelFile& wrong :
       {ModelFile{"model", "../config.json", 5, hash}, ModelFile{"model", ".bashrc", 5, hash},
        ModelFile{"home", "config.json", 5, hash}, ModelFile{"model", "", 5, hash},
        ModelFile{"model", "config.json", 5, "abc"},
        ModelFile{"model", "config.json", UINT64_MAX, hash}}) {
    EXPECT_EQ(CheckModelFile(wrong).code(), Code::kInvalid) << wrong.name;
  }
}

}  // namespace
}  // namespace tidemill
