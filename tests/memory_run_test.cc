// Runs that learn by memory, through the program itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>

#include "store/case_reader.h"
#include "store/run_db.h"
#include "tests/line_fixture.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

using MemoryRunTest = LineTest;

constexpr char kMemoryOnly[] = " --set memory.on=true --set memory.only=true";

using EpisodeKeys = std::set<std::pair<uint64_t, uint32_t>>;

struct Learned {
  EpisodeKeys cases;  // of episodes that have one
  EpisodeKeys owed;   // of episodes with a verdict that counts and no case
};

// One case an episode at most.
Learned LearnedIn(const std::string& db_path) {
  const RealClock clock;
  auto db = RunDb::Open(db_path, clock);
  EXPECT_TRUE(db.ok()) << db.status().ToString();
  Learned learned;
  if (!db.ok()) return learned;
  EXPECT_TRUE((*db)->CheckIntegrity().ok());
  const CasesState state = (*db)->LoadCases().value();
  for (const CasesState::Learned& one : state.cases) {
    const v1::TrajectoryId& id = one.record.id();
    EXPECT_TRUE(learned.cases.insert({id.group(), id.member()}).second) << "learned twice";
  }
  for (const CasesState::Scored& one : state.unlearned) {
    const v1::Trajectory& episode = one.trajectory;
    if (episode.submission().empty() || episode.end() == v1::EPISODE_END_GIVEN_UP) continue;
    learned.owed.insert({episode.id().group(), episode.id().member()});
  }
  return learned;
}

TEST_F(MemoryRunTest, ARunLearnsByMemoryAloneAndShowsWhatItLearned) {
  const ProcessOutput result =
      RunTidemill(Train("only", std::string("--set run.steps=3") + kMemoryOnly), "2>&1");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_FALSE(fs::exists(folder_ + "/runs/only/checkpoints/step-00000003"));
  const Learned end = LearnedIn(folder_ + "/runs/only/run.db");
  EXPECT_FALSE(end.cases.empty());
  EXPECT_TRUE(end.owed.empty());
  const std::string run = " " + folder_ + "/runs/only";
  EXPECT_THAT(RunTidemill("memory list" + run).output, HasSubstr("worth"));
  const ProcessOutput shown = RunTidemill("memory show" + run + " 1 --json", "2>/dev/null");
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_EQ(nlohmann::json::parse(shown.output, nullptr, false).value("number", 0), 1);
  ASSERT_EQ(RunTidemill("memory delete" + run + " --number 1").exit_code, 0);
  EXPECT_NE(RunTidemill("memory show" + run + " 1").exit_code, 0);
  EXPECT_EQ(RunTidemill("memory export" + run + " --out " + folder_ + "/cases.jsonl").exit_code, 0);
  EXPECT_TRUE(fs::exists(folder_ + "/cases.jsonl"));
}

// Cases of a run that began with words have no key, those learned later have one, and a third
// process finds them as they were.
TEST_F(MemoryRunTest, ARunGoesByHiddenStatesAlsoWhereItBeganWithWords) {
  const std::string db_path = folder_ + "/runs/hidden/run.db";
  const std::string go_on = "--log-level warn train --json --no-web --resume " + folder_ +
                            "/runs/hidden --set memory.retrieval=hidden ";
  ProcessOutput result =
      RunTidemill(Train("hidden",
                        "--set memory.on=true --set memory.retrieval=lexical --set run.steps=2 "
                        "--set learner.checkpoint_every_steps=1"),
                  "2>&1");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const auto words = ReadCases(db_path).value();
  ASSERT_FALSE(words.empty());
  result = RunTidemill(go_on + "--set run.steps=4", "2>&1");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(Summary(RunTidemill(go_on + "--set run.steps=5", "2>/dev/null"))["steps"], 5);
  const auto all = ReadCases(db_path).value();
  ASSERT_GT(all.size(), words.size());
  for (const CasesState::Learned& one : all) {
    const bool earlier = one.number <= words.back().number;
    EXPECT_EQ(one.record.key().empty(), earlier) << one.number;
  }
  // Keys of other layers do not compare with these.
  result = RunTidemill(go_on + "--set run.steps=6 --set memory.key_layers=2", "2>&1");
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_THAT(result.output, HasSubstr("memory.key_layers"));
  result = RunTidemill(go_on + "--set run.steps=6 --set memory.key_layers=99", "2>&1");
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_THAT(result.output, HasSubstr("memory.key_layers: the policy has"));
}

// What a policy that makes no mistake reaches is what retrieval shows. All bounds hold with it.
TEST_F(MemoryRunTest, RetrievalShowsWhatAReaderNeeds) {
  const ProcessOutput result = RunTidemill(
      "bench memory --perfect-reader --seeds 1,2 --search 0 --held-out 10 --json --arms "
      "'nearest;nearest, newest first;learned;oracle;successes only'",
      "2>&1");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("\"misses\": []"));
}

// TIDEMILL_KILLS says how often.
TEST_F(MemoryRunTest, ARunKilledAtAnyMomentLosesNoCaseAndLearnsNoneTwice) {
  std::mt19937 random(11);
  const char* wanted = std::getenv("TIDEMILL_KILLS");
  const int kills_wanted = wanted != nullptr ? std::atoi(wanted) : 3;
  const std::string first = Train("killed", std::string("--set run.steps=100000") + kMemoryOnly);
  const std::string again =
      "--log-level warn train --json --no-web --resume " + folder_ + "/runs/killed";
  std::chrono::milliseconds head_start{500};
  bool begun = false;
  for (int kills = 0; kills < kills_wanted;) {
    BackgroundProgram program(begun ? again : first, {folder_ + "/killed.log"});
    std::optional<int> ended;
    const auto patience = head_start + std::chrono::milliseconds(random() % 1500);
    Eventually([&] { return (ended = program.Ended()).has_value(); }, patience);
    ASSERT_FALSE(ended) << program.Log();
    program.Stop(SIGKILL);
    if (!begun && !fs::exists(folder_ + "/runs/killed/run.db")) {
      fs::remove_all(folder_ + "/runs/killed");
      head_start += std::chrono::seconds(1);
      continue;
    }
    begun = true;
    ++kills;
  }
  // A last process learns what the others owe.
  const std::string db_path = folder_ + "/runs/killed/run.db";
  const Learned before = LearnedIn(db_path);
  {
    BackgroundProgram program(again, {folder_ + "/killed.log"});
    const auto learned = [&] {
      const auto cases = ReadCases(db_path);
      return cases.ok() ? cases->size() : 0;
    };
    const size_t wanted_cases = before.cases.size() + before.owed.size() + 16;
    ASSERT_TRUE(Eventually([&] { return learned() > wanted_cases; }, std::chrono::seconds(60)))
        << program.Log();
    (void)program.Stop(SIGTERM);
  }
  const Learned after = LearnedIn(db_path);
  for (const auto& key : before.cases) EXPECT_EQ(after.cases.count(key), 1u) << key.first;
  for (const auto& key : before.owed) EXPECT_EQ(after.cases.count(key), 1u) << key.first;
  EXPECT_TRUE(after.owed.empty());
}

}  // namespace
}  // namespace tidemill
