// A tool that always fails on our side: the program it needs is not installed on this machine. The
// real program retries, then skips the call or keeps the episode out of training, as configured,
// and goes on with the other tasks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "tests/line_fixture.h"

namespace tidemill {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kMissing[] = "tcc-of-another-machine";

class UnavailableTest : public LineTest {
 protected:
  // The tasks of the fixture; every third needs the missing program for `part` ("examples", which
  // run_tests runs, or "grading"). Returns the words that train a policy on them that ends its
  // answers, so that its calls do not hang on what untaught weights happen to draw.
  static std::string Tasks(const std::string& name, const std::string& part) {
    const std::string path = folder_ + "/" + name + ".jsonl";
    std::ifstream from(folder_ + "/train.jsonl");
    std::ofstream to(path);
    broken_.clear();
    int number = 0;
    for (std::string line; std::getline(from, line); ++number) {
      json task = json::parse(line);
      if (number % 3 == 0) {
        json with = task["grading"];
        if (part == "grading") {
          task["examples"]["run"] = with["run"];  // else it is that of the grading
        } else {
          with.erase("specification");  // it is for the grading alone
        }
        with["cases"] = task[part]["cases"];
        with["run"][0] = kMissing;
        task[part] = with;
        broken_.insert(task["id"].get<std::string>());
      }
      to << task.dump() << "\n";
    }
    return Taught() + "--set tasks.train=" + path + " --set rollout.max_turn_tokens=24";
  }
  static json TrainOn(const std::string& name, const std::string& more) {
    const ProcessOutput result =
        RunTidemill(Train(name, "--set run.steps=8 " + more), "2>/dev/null");
    EXPECT_EQ(result.exit_code, 0) << result.output;
    const json summary = Summary(result);
    EXPECT_EQ(summary["steps"], 8) << "training continues";
    EXPECT_EQ(summary["lost"], 0);
    EXPECT_GT(summary["retries"], 0);
    return summary;
  }
  static std::vector<EpisodeRow> Episodes(const std::string& run) {
    return Reader(run)->Episodes({}, EpisodeSort::kOldest, {0, 1000}).value().rows;
  }

  inline static std::set<std::string> broken_;  // tasks
};

TEST_F(UnavailableTest, ACallIsRepeatedAndThenSkippedAndTheEpisodeIsScoredByItsAnswer) {
  const json summary = TrainOn("skip", Tasks("skip", "examples") +
                                           " --set rollout.on_unavailable=skip"
                                           " --set rollout.tool_retries=1");
  EXPECT_GT(summary["skipped"], 0) << summary.dump(1);
  EXPECT_EQ(summary["stale"], 0);
  uint64_t skipped = 0;
  for (const EpisodeRow& row : Episodes("skip")) {
    const EpisodeDetail episode = Reader("skip")->Episode(row.group, row.member).value();
    for (const v1::Turn& turn : episode.trajectory.turns()) {
      for (const v1::ToolCall& call : turn.calls()) {
        EXPECT_EQ(call.skipped(), broken_.count(row.task) != 0) << row.task;
        if (!call.skipped()) continue;
        ++skipped;
        EXPECT_EQ(call.retries(), 1u);
        EXPECT_EQ(call.text(), "the tool is unavailable at the moment");
        EXPECT_EQ(row.end, v1::EPISODE_END_SUBMITTED) << "nobody asks for a second answer";
        EXPECT_TRUE(!row.scored || row.tests_total == 20) << "the hidden tests were run";
      }
    }
  }
  EXPECT_EQ(summary["skipped"], skipped);
}

TEST_F(UnavailableTest, AnEpisodeWhoseToolIsAwayIsStaleAndHasNoReward) {
  const json summary =
      TrainOn("stale", Tasks("stale", "examples") + " --set rollout.tool_retries=1");
  EXPECT_EQ(summary["skipped"], 0);
  EXPECT_GT(summary["stale"], 0) << summary.dump(1);
  EXPECT_THAT(
      summary["stale_by_cause"].dump(),
      HasSubstr(std::string("tool unavailable: run_tests: ") + kMissing + " is not installed"));
  for (const EpisodeRow& row : Episodes("stale")) {
    if (row.end != v1::EPISODE_END_GIVEN_UP) continue;
    EXPECT_EQ(broken_.count(row.task), 1u);
    EXPECT_FALSE(row.reward.has_value());
    EXPECT_EQ(row.fate, "stale");
    EXPECT_EQ(row.uses, 0u);
  }
}

TEST_F(UnavailableTest, TasksThatCannotBeGradedAreStaleAndDoNotCrowdOutTheOthers) {
  const json summary = TrainOn("grading", Tasks("grading", "grading") + " --set reward.retries=1");
  EXPECT_GT(summary["stale"], 0) << summary.dump(1);
  EXPECT_GT(summary["unscorable"], 0);
  EXPECT_GT(summary["groups"]["dropped"]["stale"], 0);
  EXPECT_THAT(summary["stale_by_cause"].dump(), HasSubstr("grade unavailable"));
  EXPECT_GT(summary["put_off"], 0);
  std::map<std::string, std::set<uint64_t>> tried;  // groups by task
  for (const EpisodeRow& row : Episodes("grading")) {
    if (broken_.count(row.task) == 0) continue;
    tried[row.task].insert(row.group);
    EXPECT_FALSE(row.reward.has_value()) << "ours never becomes a zero";
    EXPECT_EQ(row.uses, 0u);
  }
  ASSERT_FALSE(tried.empty());
  for (const auto& [task, groups] : tried) {
    EXPECT_LE(groups.size(), 4u) << "three times in a row, and when its turn comes again";
  }
}

}  // namespace
}  // namespace tidemill
