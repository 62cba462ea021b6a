#include "run/served_model.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "testing/test_kit.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;

class ServedModelTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text = "{}") {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }
  std::string At(const std::string& name) const { return (folder_ / name).string(); }
  std::string Refusal(const std::string& name) const {
    const auto found = FindModelToServe(At(name), "");
    return found.ok() ? "" : found.status().message();
  }

  TemporaryDirectory temp_;
  const fs::path folder_ = temp_.path();
};

TEST_F(ServedModelTest, ADirectoryIsItself) {
  Write("model/config.json");
  const auto found = FindModelToServe(At("model"), "");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->path, At("model"));
  EXPECT_EQ(found->adapter, "");
  EXPECT_EQ(found->name, "");
}

TEST_F(ServedModelTest, OfARunTheBestCheckpointIsTakenOrTheNewest) {
  Write("runs/talk/checkpoints/step-00000004/config.json");
  Write("runs/talk/checkpoints/step-00000012/config.json");
  auto found = FindModelToServe(At("runs/talk"), "");
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->path, At("runs/talk/checkpoints/step-00000012"));
  EXPECT_EQ(found->name, "talk");
  fs::create_symlink("step-00000004", At("runs/talk/checkpoints/best"));
  found = FindModelToServe(At("runs/talk"), "");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->path, At("runs/talk/checkpoints/best"));
}

TEST_F(ServedModelTest, AnAdapterIsPutOnTheModelThatItNames) {
  Write("base/config.json");
  Write("adapter/adapter_config.json", "{\"base_model_name_or_path\": \"" + At("base") + "\"}");
  auto found = FindModelToServe(At("adapter"), "");
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->path, At("base"));
  EXPECT_EQ(found->adapter, At("adapter"));
  Write("lost/adapter_config.json", "{\"base_model_name_or_path\": \"org/model\"}");
  EXPECT_NE(Refusal("lost").find("org/model"), std::string::npos);
  Write("other/config.json");
  found = FindModelToServe(At("lost"), At("other"));
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->path, At("other"));
}

TEST_F(ServedModelTest, WhatIsNoModelIsNamedWithTheWayOut) {
  EXPECT_NE(Refusal("nowhere").find("no such directory"), std::string::npos);
  Write("folder/weights.gguf", "GGUF");
  EXPECT_NE(Refusal("folder").find("weights.gguf"), std::string::npos);
  Write("file.txt");
  EXPECT_NE(Refusal("file.txt").find("is a file"), std::string::npos);
  Write("empty/readme");
  EXPECT_NE(Refusal("empty").find("it is no model"), std::string::npos);
  Write("run/checkpoints/note");
  EXPECT_NE(Refusal("run").find("without a checkpoint"), std::string::npos);
}

}  // namespace
}  // namespace tidemill
