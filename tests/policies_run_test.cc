// A run of several policies with the program itself: what each leaves, and how the run goes on.
#include <gmock/gmock.h>

#include <map>

#include "tests/line_fixture.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class PoliciesRun : public LineTest {
 protected:
  static std::string TwoPolicies() {
    return " --set run.steps=2 --set policy.coder.rank=4 --set policy.planner.rank=2 --set "
           "policy.planner.learning_rate=0.003 --set policy.planner.max_steps=0 --set tasks.eval=" +
           folder_ + "/eval.jsonl --set eval.every_steps=1 --set learner.checkpoint_every_steps=1";
  }
  static std::map<std::string, uint64_t> OwnSteps(const std::string& run) {
    std::map<std::string, uint64_t> own;
    for (const OwnedStep& step : Reader(run)->OwnedSteps().value()) {
      EXPECT_EQ(step.policy_step, ++own[step.policy]) << "steps of a policy have no gaps";
    }
    return own;
  }
  using Own = std::map<std::string, uint64_t>;
};

TEST_F(PoliciesRun, EachTrainsAnAdapterOfItsOwnAndARunGoesOnWithAllOfThemOrNone) {
  const ProcessOutput trained = RunTidemill(Train("two", TwoPolicies()), "2>/dev/null");
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  const nlohmann::json summary = Summary(trained);
  EXPECT_EQ(summary.at("steps"), 4) << "two of each";
  EXPECT_EQ(summary.at("lost"), 0);
  EXPECT_EQ(OwnSteps("two"), (Own{{"coder", 2}, {"planner", 2}}));
  const std::string run = folder_ + "/runs/two";
  for (const std::string policy : {"coder", "planner"}) {
    for (const char* name : {":before", ":during-step-1", ":after"}) {
      EXPECT_TRUE(summary.at("eval").contains(policy + name)) << summary.at("eval").dump();
    }
    const std::string checkpoints = run + "/checkpoints/" + policy;
    EXPECT_TRUE(fs::exists(checkpoints + "/step-00000002/adapter_model.safetensors"));
    EXPECT_TRUE(fs::is_symlink(checkpoints + "/best"));
  }
  EXPECT_FALSE(fs::exists(run + "/checkpoints/step-00000002")) << "the base is not trained";
  const std::string go_on =
      "--log-level warn train --json --no-web --resume " + run + " --set run.steps=3";
  const std::string newest = run + "/checkpoints/planner/step-00000002";
  fs::resize_file(newest + "/adapter_model.safetensors", 100);
  const ProcessOutput refused = RunTidemill(go_on);
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.output, HasSubstr(newest)) << "the coder does not go on without the planner";
  // Without it all of them go on from the one before.
  fs::remove_all(newest);
  const ProcessOutput resumed = RunTidemill(go_on, "2>/dev/null");
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_EQ(OwnSteps("two"), (Own{{"coder", 3}, {"planner", 3}}));
  EXPECT_EQ(Summary(resumed).at("lost"), 0);
}

}  // namespace
}  // namespace tidemill
