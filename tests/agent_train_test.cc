// An agent that is a program, trained: examples/agent.py in boxes, through the program itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "testing/test_folders.h"
#include "tests/line_fixture.h"

namespace tidemill {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class AgentTrainTest : public LineTest {
 protected:
  // A run in which every episode is the example agent.
  static std::string TrainAgent(const std::string& name, const std::string& more) {
    const std::string config = folder_ + "/" + name + ".toml";
    std::ofstream(config) << "[agent]\ncommand = [\"/usr/bin/python3\", \"/agent/agent.py\"]\n"
                          << "mounts = [\"" + SourceDir() +
                                 "/examples/agent.py:/agent/agent.py\"]\nslots = 8\n";
    return Train(name, config +
                           " --set rollout.group_size=2 --set rollout.groups_per_step=2 --set "
                           "rollout.max_in_flight=8 " +
                           more);
  }
  // The config of an agent that is this script of Python, and a small batch.
  static std::string Script(const std::string& name, const std::string& script) {
    const std::string config = folder_ + "/" + name + ".toml";
    std::ofstream(config) << "[agent]\ncommand = [\"/usr/bin/python3\", \"-c\", '''" << script
                          << "''']\nslots = 4\n";
    return config +
           " --set rollout.group_size=2 --set rollout.groups_per_step=2 --set "
           "rollout.max_in_flight=8 ";
  }
};

TEST_F(AgentTrainTest, AScriptInBoxesIsTrainedAndNothingIsLost) {
  const ProcessOutput result = RunTidemill(TrainAgent("agent", "--set run.steps=3"));
  const json summary = json::parse(result.output, nullptr, false);
  ASSERT_TRUE(summary.is_object()) << result.output;
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(summary["status"], "done");
  EXPECT_EQ(summary["steps"], 3);
  EXPECT_EQ(summary["lost"], 0);
  EXPECT_EQ(summary["stale"], 0) << summary;
  const ProcessOutput shown =
      RunTidemill("runs --folder " + folder_ + "/runs episodes agent --worst 2");
  EXPECT_EQ(shown.exit_code, 0) << shown.output;
  EXPECT_THAT(shown.output, HasSubstr("return"));
  // What was trained on was drawn in boxes: every used episode has turns with log-probabilities.
  const auto reader = Reader("agent");
  const std::vector<StepRow> steps = reader->Steps(0, 10).value();
  ASSERT_EQ(steps.size(), 3u);
  for (const StepRow& step : steps) {
    EXPECT_GT(json::parse(step.metrics_json).value("tokens", 0.0), 0.0) << step.metrics_json;
  }
}

TEST_F(AgentTrainTest, AnAgentThatCrashesAtOnceEndsTheRunWithItsTraceback) {
  const ProcessOutput result = RunTidemill(
      Train("crash", Script("crash", "import sys\nprint('starting')\nsys.exit(undefined_name)\n") +
                         " --set run.steps=100 --set agent.give_up=4"));
  EXPECT_EQ(result.exit_code, 1) << result.output;
  EXPECT_THAT(result.output, HasSubstr("got an answer of the model (agent.give_up)"));
  EXPECT_THAT(result.output, HasSubstr("NameError: name 'undefined_name' is not defined"));
  const ProcessOutput shown = RunTidemill("runs episodes " + folder_ + "/runs/crash --newest 1");
  EXPECT_EQ(shown.exit_code, 0) << shown.output;
  EXPECT_THAT(shown.output, HasSubstr("no prompt was sent"));
  EXPECT_THAT(shown.output, HasSubstr("starting"));
  EXPECT_THAT(shown.output, HasSubstr("NameError"));
  EXPECT_EQ(Reader("crash")->Counts()->steps, 0u);
}

TEST_F(AgentTrainTest, ATrainingWithoutATokenHasFailedAndSoHasAnEvaluationInWhichNoAgentWorked) {
  const ProcessOutput several = RunTidemill(Train("several", Script("several", R"py(
import json, os, urllib.request
body = {"model": "m", "n": 2, "messages": [{"role": "user", "content": "x"}]}
urllib.request.urlopen(urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
    {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}))
)py") + " --set run.steps=100 --set agent.give_up=4"));
  EXPECT_EQ(several.exit_code, 1) << several.output;
  EXPECT_THAT(several.output, HasSubstr("training episodes has a token to train"));
  EXPECT_THAT(several.output, HasSubstr("the agent asked for 2 answers at once (n)"));
  EXPECT_EQ(Reader("several")->Counts()->steps, 0u) << "nothing is no step";
  const ProcessOutput missing =
      RunTidemill("eval --json --model " + folder_ + "/model --tasks " + folder_ +
                  "/eval.jsonl --set run.folder=" + folder_ +
                  "/runs --set eval.samples=2 --set model.protocol=compact --set "
                  "'agent.command=[\"/no/such/python3\"]'");
  EXPECT_EQ(missing.exit_code, 1) << missing.output;
  EXPECT_THAT(missing.output, HasSubstr("no agent got an answer of the model in 12 episodes"));
  EXPECT_THAT(missing.output, HasSubstr("/no/such/python3"));
}

TEST_F(AgentTrainTest, AnAgentThatCannotRunIsNamedBeforeTheRun) {
  const ProcessOutput missing =
      RunTidemill(Train("missing", "--set agent.preset=no-such-agent --set run.steps=1"));
  EXPECT_NE(missing.exit_code, 0);
  EXPECT_THAT(missing.output, HasSubstr("agent.preset: there is no \"no-such-agent\"; there are"));
}

}  // namespace
}  // namespace tidemill
