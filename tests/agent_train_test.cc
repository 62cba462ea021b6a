// An agent that is a program, trained: examples/agent.py in boxes, through the program itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/test_folders.h"
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

TEST_F(AgentTrainTest, AnAgentThatCannotRunIsNamedBeforeTheRun) {
  const ProcessOutput missing =
      RunTidemill(Train("missing", "--set agent.preset=no-such-agent --set run.steps=1"));
  EXPECT_NE(missing.exit_code, 0);
  EXPECT_THAT(missing.output, HasSubstr("agent.preset: there is no \"no-such-agent\"; there are"));
}

}  // namespace
}  // namespace tidemill
