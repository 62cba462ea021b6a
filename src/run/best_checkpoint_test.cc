#include "run/best_checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "testing/test_kit.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;

class BestCheckpointTest : public ::testing::Test {
 protected:
  void Make(const std::string& name) { fs::create_directories(directory_.path() + "/" + name); }
  JournalEntry Eval(int step, double rate) {
    JournalEntry entry;
    entry.kind = "eval";
    entry.numbers = {{"step", step}, {"pass_rate", rate}};
    entry.words = {{"name", "during-step-" + std::to_string(step)}};
    return entry;
  }
  JournalEntry Written(int step) {
    JournalEntry entry;
    entry.kind = "checkpoint";
    entry.numbers = {{"step", step}};
    return entry;
  }
  std::string Best() { return fs::read_symlink(directory_.path() + "/best", error_).string(); }

  TemporaryDirectory directory_;
  std::error_code error_;
  BestCheckpoint best_{directory_.path()};
};

TEST_F(BestCheckpointTest, EachPolicyHasItsOwnByItsOwnSteps) {
  BestCheckpoint coder(directory_.path(), "coder");
  Make("step-00000002"), Make("step-00000004");
  const auto eval = [&](const std::string& policy, int run_step, int step, double rate) {
    JournalEntry entry = Eval(step, rate);
    entry.numbers["step"] = run_step, entry.numbers["policy_step"] = step;
    entry.words["policy"] = policy;
    entry.words["name"] = policy + ":" + entry.words["name"];
    coder.Take(entry);
  };
  eval("coder", 4, 2, 0.25);
  eval("planner", 8, 4, 0.75);
  EXPECT_EQ(Best(), "step-00000002");
  eval("coder", 9, 4, 0.5);
  EXPECT_EQ(Best(), "step-00000004");
}

TEST_F(BestCheckpointTest, IsTheOneWithTheHighestPassRateAlsoWhereItIsWrittenAfterItsEvaluation) {
  Make("step-00000005");
  best_.Take(Eval(5, 0.25));
  EXPECT_EQ(Best(), "step-00000005");
  best_.Take(Eval(10, 0.5));
  EXPECT_EQ(Best(), "step-00000005") << "step 10 is not written yet";
  Make("step-00000010");
  best_.Take(Written(10));
  EXPECT_EQ(Best(), "step-00000010");
  best_.Take(Eval(15, 0.4));
  Make("step-00000015");
  best_.Take(Written(15));
  EXPECT_EQ(Best(), "step-00000010") << "step 15 is worse";
}

}  // namespace
}  // namespace tidemill
