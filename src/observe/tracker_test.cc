#include "observe/tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <fstream>
#include <limits>

#include "testing/test_kit.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

// A Python that is none: it writes down what it was asked and ends when it is told to.
std::string Script(const TemporaryDirectory& folder, const std::string& on_end) {
  const std::string path = folder / "python";
  std::ofstream(path) << "#!/bin/sh\n"
                         "trap '" +
                             on_end +
                             "' TERM\n"
                             "echo \"$@\" $TIDEMILL_PROGRAM >"
                      << (folder / "asked.part")
                      << "\n"
                         "mv "
                      << (folder / "asked.part") << " " << (folder / "asked")
                      << "\n"
                         "while :; do sleep 0.05; done\n";
  chmod(path.c_str(), 0755);
  return path;
}

TrackConfig ConfigWith(const std::string& python, std::vector<std::string> to) {
  TrackConfig config;
  config.python = python;
  config.to = std::move(to);
  return config;
}

TEST(Tracker, WritesPointsForAProcessThatIsToldWhenTheRunIsOver) {
  const TemporaryDirectory folder;
  const std::string told = "echo over >" + (folder / "told") + "; exit 0";
  auto tracker =
      Tracker::Start(ConfigWith(Script(folder, told), {"tensorboard", "mlflow"}), folder.path());
  ASSERT_TRUE(tracker.ok()) << tracker.status().ToString();
  ASSERT_TRUE(Eventually([&] { return !TextOf(folder / "asked").empty(); }));
  EXPECT_THAT(TextOf(folder / "asked"), HasSubstr("-m tidemill.track " + folder.path()));
  EXPECT_THAT(TextOf(folder / "asked"), HasSubstr("--project tidemill --to mlflow "));
  const double none = std::numeric_limits<double>::quiet_NaN();
  ASSERT_TRUE((*tracker)->Append(12, 3, {{"a", 0.5}, {"b", none}}).ok());
  EXPECT_EQ(TextOf(folder / "track.jsonl"), "{\"at_ms\":12,\"step\":3,\"scalars\":{\"a\":0.5}}\n");
  tracker->reset();
  EXPECT_EQ(TextOf(folder / "told"), "over\n");
}

TEST(Tracker, OneThatDoesNotEndIsLeftAlone) {
  const TemporaryDirectory folder;
  const std::string slow = "echo $$ >" + (folder / "pid");
  TrackConfig config = ConfigWith(Script(folder, slow), {"wandb"});
  config.wait = milliseconds(0);
  auto tracker = Tracker::Start(config, folder.path());
  ASSERT_TRUE(tracker.ok()) << tracker.status().ToString();
  ASSERT_TRUE(Eventually([&] { return !TextOf(folder / "asked").empty(); }));
  tracker->reset();
  ASSERT_TRUE(Eventually([&] { return TextOf(folder / "pid").ends_with("\n"); }));
  EXPECT_EQ(kill(std::stoi(TextOf(folder / "pid")), SIGKILL), 0) << "it is still there";
}

TEST(Tracker, WithoutATrackerThatNeedsItThereIsNone) {
  const TemporaryDirectory folder;
  const auto none = Tracker::Start(ConfigWith("python3", {"tensorboard"}), folder.path());
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(*none, nullptr);
  const auto missing = Tracker::Start(ConfigWith("no-such-python", {"wandb"}), folder.path());
  EXPECT_THAT(missing.status().message(), HasSubstr("track.python"));
  EXPECT_THAT(missing.status().message(), HasSubstr("no-such-python"));
}

}  // namespace
}  // namespace tidemill
