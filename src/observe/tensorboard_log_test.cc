#include "observe/tensorboard_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "testing/test_folders.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using nlohmann::json;

// Reads event files with nothing of ours: scripts/read_tfevents.py knows only the published format.
json ReadBack(const std::string& path) {
  const std::string command = "python3 " + SourceDir() + "/scripts/read_tfevents.py " + path;
  std::FILE* pipe = popen(command.c_str(), "r");
  std::string text;
  char buffer[4096];
  for (size_t n; (n = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;) text.append(buffer, n);
  EXPECT_EQ(pclose(pipe), 0) << text;
  return json::parse(text, nullptr, false);
}

TEST(Crc32c, AgreesWithThePublishedVectors) {
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);  // RFC 3720, B.4
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62A8AB43u);
}

TEST(TensorboardLog, IsReadBackByAProgramThatKnowsOnlyTheFormat) {
  TemporaryDirectory folder;
  auto log = TensorboardLog::Create(folder.path() + "/tensorboard", 1'760'000'000'250);
  ASSERT_TRUE(log.ok()) << log.status().message();
  ASSERT_TRUE(log->Append(1'760'000'001'500, 1, {{"step/loss", -0.25}, {"step/reward", 0.5}}).ok());
  ASSERT_TRUE(
      log->Append(1'760'000'002'500, 300,
                  {{"step/loss", std::numeric_limits<double>::quiet_NaN()}, {"step/reward", 0.75}})
          .ok());
  const json events = ReadBack(log->path());
  ASSERT_EQ(events.size(), 3u) << events.dump();
  EXPECT_EQ(events[0]["file_version"], "brain.Event:2");
  EXPECT_EQ(events[1]["step"], 1);
  EXPECT_DOUBLE_EQ(events[1]["wall_time"].get<double>(), 1'760'000'001.5);
  EXPECT_EQ(events[1]["scalars"], (json{{"step/loss", -0.25}, {"step/reward", 0.5}}));
  EXPECT_EQ(events[2]["step"], 300);
  EXPECT_EQ(events[2]["scalars"], (json{{"step/reward", 0.75}})) << "what is no number is left out";
}

TEST(TensorboardLog, AResumedRunWritesBesideWhatIsThere) {
  TemporaryDirectory folder;
  const auto first = TensorboardLog::Create(folder.path(), 5'000);
  const auto second = TensorboardLog::Create(folder.path(), 5'000);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_LT(first->path(), second->path());
}

TEST(TensorboardLog, OnlyOurOwnOlderFilesAreRemoved) {
  TemporaryDirectory folder;
  const auto first = TensorboardLog::Create(folder.path(), 5'000);
  auto second = TensorboardLog::Create(folder.path(), 6'000);
  ASSERT_TRUE(first.ok() && second.ok());
  std::ofstream(folder / "events.out.tfevents.1.other") << "x";
  ASSERT_TRUE(second->RemoveOlder().ok());
  EXPECT_FALSE(std::filesystem::exists(first->path()));
  EXPECT_TRUE(std::filesystem::exists(second->path()));
  EXPECT_TRUE(std::filesystem::exists(folder / "events.out.tfevents.1.other"));
}

TEST(TensorboardLog, AResumedRunTellsReadersToForgetLaterStepsAndZerosAreWritten) {
  TemporaryDirectory folder;
  auto log = TensorboardLog::Create(folder.path(), 5'000);
  ASSERT_TRUE(log.ok());
  ASSERT_TRUE(log->RestartFrom(6'000, 5).ok());
  ASSERT_TRUE(log->Append(7'000, 5, {{"step/reward", 0}}).ok());
  const json events = ReadBack(log->path());
  ASSERT_EQ(events.size(), 3u) << events.dump();
  EXPECT_EQ(events[1]["session"], 1) << "SessionLog.START";
  EXPECT_EQ(events[1]["step"], 5);
  EXPECT_EQ(events[2]["scalars"], (json{{"step/reward", 0.0}}));
}

TEST(TensorboardLog, AFolderThatCannotBeMadeIsNamed) {
  const auto log = TensorboardLog::Create("/proc/no/tensorboard", 5'000);
  ASSERT_FALSE(log.ok());
  EXPECT_NE(log.status().message().find("/proc/no/tensorboard"), std::string::npos);
}

}  // namespace
}  // namespace tidemill
