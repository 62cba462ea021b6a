// Rewards, replay and credit as a run is configured with them, through the program itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "testing/test_folders.h"
#include "tests/line_fixture.h"

namespace tidemill {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class ScoringTest : public LineTest {
 protected:
  // A scorer that counts its calls in a file: always fails for group `fails` (-1: for none), and is
  // a version higher after every `rises` calls.
  // The members of every fourth group are all worth the same.
  static std::string Command(const std::string& name, int fails, int rises) {
    const std::string script = folder_ + "/" + name + ".py";
    std::ofstream(script)
        << "import json, os, sys\n"
        << "question = json.load(sys.stdin)\n"
        << "fd = os.open('" << folder_ << "/" << name
        << ".calls', os.O_CREAT | os.O_APPEND | os.O_RDWR)\n"
        << "os.write(fd, b'x')\n"
        << "calls = os.fstat(fd).st_size\n"
        << "group, member = question['group'], question['member']\n"
        << "if group == " << fails << ": sys.exit('the judge is asleep')\n"
        << "score = 0.5 if group % 4 == 0 else 0.2 + 0.3 * ((member + group) % 3)\n"
        << "json.dump({'score': score, 'version': 1 + calls // " << rises
        << ", 'turn_rewards': [0.5] * question['turns']}, sys.stdout)\n";
    return " --set 'reward.command=[\"python3\",\"" + script +
           "\"]' --set reward.weights.command=1";
  }
  // The newest totals in metrics.jsonl; empty: there are none yet.
  static json LastTick(const std::string& run) {
    json tick = json::object();
    std::ifstream lines(folder_ + "/runs/" + run + "/metrics.jsonl");
    for (std::string line; std::getline(lines, line);) {
      const json entry = json::parse(line, nullptr, false);
      if (entry.is_object() && entry.value("kind", "") == "tick") tick = entry;
    }
    return tick;
  }
  static json Metrics(const std::string& run, const std::string& key) {
    json values = json::array();
    for (const StepRow& step : Reader(run)->Steps(0, 100).value())
      values.push_back(json::parse(step.metrics_json).value(key, 0.0));
    return values;
  }
};

// The run goes on until all of it has happened, however fast its parts are: until the episodes of
// the group that is never scored are stale, and until some group was scored again.
TEST_F(ScoringTest, ACommandThatFailsIsRepeatedThenStaleAndOneThatRisesScoresAgain) {
  BackgroundProgram program(
      Train("command",
            "--set run.steps=1000000 --set replay.max_uses=3 --set replay.selection=uniform "
            "--set staleness.hard_max_steps=20 --set staleness.max_steps=6 --set "
            "replay.min_groups=12 --set learner.checkpoint_every_steps=0 "
            "--set reward.retries=1" +
                Command("asleep", 2, 20)),
      {.log = folder_ + "/command.log", .out = folder_ + "/command.json"});
  std::optional<int> ended;
  ASSERT_TRUE(Eventually(
      [&] {
        ended = program.Ended();
        const json tick = LastTick("command");
        return ended || (tick.value("stale", 0.0) > 0 && tick.value("rescored", 0.0) > 0 &&
                         tick.value("steps", 0.0) > 0);
      },
      std::chrono::seconds(200)))
      << LastTick("command").dump() << program.Log();
  ASSERT_FALSE(ended) << program.Log();
  program.Stop(SIGINT);
  const json summary = json::parse(TextOf(folder_ + "/command.json"), nullptr, false);
  ASSERT_TRUE(summary.is_object()) << program.Log();
  EXPECT_EQ(summary["status"], "interrupted");
  EXPECT_GT(summary["stale"], 0) << summary.dump(1);
  EXPECT_GT(summary["retries"], 0);
  EXPECT_GT(summary["rescored"], 0);
  EXPECT_THAT(summary["stale_by_cause"].dump(), HasSubstr("the judge is asleep"));
  // No episode got a zero from a scorer that slept, and new verdicts stand where old ones stood.
  EpisodeFilter filter;
  filter.scored = true;
  std::set<uint32_t> versions;
  const EpisodePage page =
      Reader("command")->Episodes(filter, EpisodeSort::kOldest, {0, 500}).value();
  for (const EpisodeRow& row : page.rows) {
    EXPECT_NE(row.group, 2u) << "its scorer sleeps";
    const EpisodeDetail episode = Reader("command")->Episode(row.group, row.member).value();
    for (const v1::RewardPart& part : episode.verdict->parts()) {
      if (part.scorer() != "command") continue;
      EXPECT_GT(part.value(), 0.05);
      versions.insert(part.scorer_version());
    }
    EXPECT_EQ(episode.verdict->turn_rewards_size(), episode.trajectory.turns_size());
  }
  EXPECT_GT(versions.size(), 1u);
}

// The prover is a program that stays; what it said of the answers is what a verifier learns from.
TEST_F(ScoringTest, AProverThatStaysScoresARunAndItsVerdictsBecomeExamples) {
  const std::string script = folder_ + "/prover.py";
  std::ofstream(script) << "import json, sys\n"
                        << "for line in sys.stdin:\n"
                        << "  q = json.loads(line)\n"
                        << "  score = len(q['submission'].encode()) % 2\n"
                        << "  print(json.dumps({'id': q['id'], 'score': score}), flush=True)\n";
  const ProcessOutput result = RunTidemill(
      Train("proofs", Taught() + "--set run.steps=2 --set 'reward.proof_command=[\"python3\",\"" +
                          script +
                          "\"]' --set reward.command_stays=true --set reward.command_slots=8 --set "
                          "'reward.weights={proof=1}'"),
      "2>/dev/null");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const json counters = Summary(result)["counters"];
  EXPECT_GT(counters["proofs_proved"], 0) << counters.dump(1);
  EXPECT_GT(counters["proofs_refuted"], 0);
  const auto answers = [&](const std::string& more) {
    return RunTidemill("judge answers proofs --json --runs " + folder_ + "/runs --out " + folder_ +
                       "/answers.jsonl " + more);
  };
  const json written = json::parse(answers("--proved").output, nullptr, false);
  EXPECT_GT(written["right"], 0) << written.dump();
  EXPECT_GT(written["wrong"], 0) << written.dump();
  std::ifstream lines(folder_ + "/answers.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const json one = json::parse(line);
    EXPECT_EQ(one["label"] == "yes", one["submission"].get<std::string>().size() % 2 == 1) << line;
  }
  EXPECT_NE(answers("").exit_code, 0) << "nothing was executed";
}

// Its answers are no words of a verdict: the run goes on in plain order.
TEST_F(ScoringTest, AVerifierThatTalksNonsenseHoldsNothingUp) {
  const std::string toml = folder_ + "/order.toml";
  std::ofstream(toml) << "[[judge]]\nname = \"v\"\nreward = false\nanswer = \"token\"\n"
                      << "template = \"compact\"\nretries = 0\nmax_tokens = 4\nendpoint = \""
                      << folder_ << "/model\"\n";
  std::string train =
      Train("ordered", Taught() +
                           "--set run.steps=2 --set reward.order_by=v --set reward.order_ahead=1 "
                           "--set reward.order_wait=2s");
  train.insert(train.find("train ") + 6, toml + " ");
  const ProcessOutput result = RunTidemill(train, "2>/dev/null");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(Summary(result)["steps"], 2);
  EXPECT_EQ(Summary(result)["unscorable"], 0);
  EXPECT_GT(Summary(result)["counters"]["judge_calls"], 0);
}

TEST_F(ScoringTest, AReviewIsComposedOfFourSubScoresWithComments) {
  const ProcessOutput result =
      RunTidemill(Train("review",
                        "--set run.steps=2 --set reward.weights.review=1 --set "
                        "'reward.review_judge=[\"python3\",\"" +
                            SourceDir() + "/examples/judge.py\"]'"),
                  "2>/dev/null");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const json summary = Summary(result);
  EXPECT_GT(summary["second_looks"], 0) << "a policy that knows nothing fails its tests";
  EpisodeFilter filter;
  filter.scored = true;
  const EpisodePage page =
      Reader("review")->Episodes(filter, EpisodeSort::kOldest, {0, 50}).value();
  ASSERT_FALSE(page.rows.empty());
  const EpisodeDetail episode =
      Reader("review")->Episode(page.rows[0].group, page.rows[0].member).value();
  for (const v1::RewardPart& part : episode.verdict->parts()) {
    if (part.scorer() != "review") continue;
    ASSERT_EQ(part.sub_scores_size(), 4);
    for (const v1::SubScore& sub : part.sub_scores()) EXPECT_NE(sub.comment(), "") << sub.name();
  }
}

TEST_F(ScoringTest, CreditShapingAndInterpolationAreReachedFromTheConfig) {
  const ProcessOutput result =
      RunTidemill(Train("credit",
                        "--set run.steps=5 --set learner.credit=state --set reward.turn_weight=0.5 "
                        "--set learner.overlong_buffer=14 --set learner.overlong_weight=0.5 "
                        "--set learner.objective=decoupled_ppo --set "
                        "'learner.options=[\"proximal=interpolate\"]' --set learner.minibatches=2 "
                        "--set replay.drop_zero_variance=true --set replay.selection=prioritized" +
                            Command("fourths", -1, 1 << 20)),
                  "2>/dev/null");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const json summary = Summary(result);
  EXPECT_EQ(summary["steps"], 5);
  EXPECT_GT(summary["zero_variance"], 0) << "their credit returned, or the run had not ended";
  double penalty = 0, credit = 0;
  for (double value : Metrics("credit", "overlong_penalty")) penalty += value;
  for (double value : Metrics("credit", "turn_credit")) credit += value;
  EXPECT_GT(penalty, 0);
  EXPECT_GT(credit, 0);
  const json& staleness = summary["staleness"];
  EXPECT_GT(staleness["lag_histogram"].size(), 0u) << summary.dump(1);
  EXPECT_GT(staleness["span_histogram"].size(), 0u);
  EXPECT_GT(staleness["ess_mean"], 0);
  EXPECT_TRUE(staleness.contains("mismatch_mean"));
}

TEST_F(ScoringTest, MistakesInTheseKeysAreNamed) {
  const std::pair<const char*, const char*> wrong[] = {
      {"--set reward.weights.command=1", "reward.command"},
      {"--set reward.weights.review=1 --set reward.review_weights.vibes=1", "vibes"},
      {"--set replay.capacity=3", "replay.capacity"},
      {"--set replay.min_groups=1000", "replay.min_groups"},
      {"--set replay.samples_per_insert=3", "replay.samples_per_insert"},
      {"--set replay.selection=lifo", "fifo"}};
  for (const auto& [set, named] : wrong) {
    const ProcessOutput result =
        RunTidemill(Train("wrong", std::string("--set run.steps=1 ") + set));
    EXPECT_EQ(result.exit_code, 2) << set << "\n" << result.output;
    EXPECT_THAT(result.output, HasSubstr(named)) << set;
  }
}

}  // namespace
}  // namespace tidemill
