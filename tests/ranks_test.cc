// The learner over several processes, through the program itself: ranks that die or hang while it
// trains, and ranks that come from elsewhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "learner/torch/rank_group.h"
#include "tests/line_fixture.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class RanksTest : public LineTest {
 protected:
  void SetUp() override {
    if (!RankGroup::Available()) GTEST_SKIP() << "built without Gloo";
  }

  // What it says goes to NAME.out and NAME.err.
  static BackgroundProgram Start(const std::string& name, const std::string& arguments) {
    return {arguments,
            {.log = folder_ + "/" + name + ".err", .out = folder_ + "/" + name + ".out"}};
  }
  static json SummaryOf(const std::string& name) {
    return json::parse(TextOf(folder_ + "/" + name + ".out"), nullptr, false);
  }
  static bool Soon(const std::function<bool()>& holds) {
    return Eventually(holds, std::chrono::seconds(60));
  }
  static std::string FreeAddress() { return "127.0.0.1:" + std::to_string(FreePort()); }

  static bool HasCheckpoint(const std::string& run) {
    std::error_code error;
    for (const auto& entry :
         fs::directory_iterator(folder_ + "/runs/" + run + "/checkpoints", error)) {
      if (entry.path().filename().string().starts_with("step-")) return true;
    }
    return false;
  }

  static std::vector<pid_t> Children(pid_t parent) {
    std::ifstream stream("/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) +
                         "/children");
    std::vector<pid_t> ranks;
    for (pid_t pid; stream >> pid;) {
      if (TextOf("/proc/" + std::to_string(pid) + "/cmdline").find("--join") != std::string::npos) {
        ranks.push_back(pid);
      }
    }
    return ranks;
  }

  // Trains with two ranks, does `signal` to the second once there is a checkpoint, and expects that
  // the run goes on alone to its end, having said `message`.
  void LoseARank(const std::string& name, int signal, const std::string& set,
                 const testing::Matcher<std::string>& message) {
    const std::string more =
        "--set run.steps=40 --set learner.checkpoint_every_steps=2 --set learner.ranks=2 "
        "--set tools.wait=20ms " +
        set;
    BackgroundProgram learner = Start(name, Train(name, more));
    pid_t rank = 0;
    const bool ready = Soon([&] { return HasCheckpoint(name); });
    for (pid_t child : Children(learner.pid())) rank = child;
    ASSERT_TRUE(ready && rank > 0) << learner.Log();
    kill(rank, signal);
    EXPECT_EQ(learner.Wait(), 0);
    const std::string said = learner.Log();
    EXPECT_THAT(said, HasSubstr("rank 1 (process " + std::to_string(rank)));
    EXPECT_THAT(said, message);
    EXPECT_THAT(said, HasSubstr("continuing from the last checkpoint with the remaining ranks"));
    const json summary = SummaryOf(name);
    ASSERT_TRUE(summary.is_object()) << said;
    EXPECT_EQ(summary["status"], "done");
    EXPECT_EQ(summary["steps"], 40);
    EXPECT_EQ(summary["resumes"], 1);
    EXPECT_EQ(summary["lost"], 0);
    // Nobody is left behind, not even one that was stopped.
    EXPECT_NE(kill(rank, 0), 0);
  }
};

TEST_F(RanksTest, ARunGoesOnWithoutARankThatWasKilled) {
  LoseARank("killed", SIGKILL, "", HasSubstr("was killed by signal 9"));
}

TEST_F(RanksTest, ARunGoesOnWithoutARankThatHangs) {
  // Before it came to a sum, or in the middle of one. On a busy machine a rank that does not hang
  // answers within seconds, not within one.
  LoseARank("hangs", SIGSTOP, "--set learner.rank_timeout=5s",
            testing::AnyOf(HasSubstr("did not answer within 5000 ms (learner.rank_timeout)"),
                           HasSubstr("left during an all-reduce")));
}

// One of two that the learner starts is killed while it still loads the program.
TEST_F(RanksTest, ARankKilledBeforeItJoinedIsLeftOut) {
  BackgroundProgram learner =
      Start("early", Train("early", "--set run.steps=3 --set learner.ranks=3"));
  pid_t rank = 0;
  ASSERT_TRUE(Soon([&] {
    for (pid_t child : Children(learner.pid())) rank = child;
    return rank > 0;
  })) << learner.Log();
  kill(rank, SIGKILL);
  EXPECT_EQ(learner.Wait(), 0);
  const std::string said = learner.Log();
  EXPECT_THAT(said, HasSubstr("process " + std::to_string(rank) + " was killed by signal 9"));
  EXPECT_THAT(said, HasSubstr("continuing without it"));
  EXPECT_THAT(said, HasSubstr("fewer ranks than learner.ranks are present; starting with those  "
                              "ranks=2 wanted=3"));
  const json summary = SummaryOf("early");
  ASSERT_TRUE(summary.is_object()) << said;
  EXPECT_EQ(summary["status"], "done");
  EXPECT_EQ(summary["steps"], 3);
  EXPECT_EQ(summary["resumes"], 0);
}

// It came, was killed while the others were awaited, and another came in its place.
TEST_F(RanksTest, ARankKilledWhileOthersAreAwaitedIsReplaced) {
  const std::string place = FreeAddress();
  BackgroundProgram learner =
      Start("awaits",
            Train("awaits",
                  "--set run.steps=3 --set learner.ranks=3 --set learner.rank_address=" + place));
  const auto says = [](const BackgroundProgram& program, const std::string& what) {
    return Soon([&] { return program.Log().find(what) != std::string::npos; });
  };
  BackgroundProgram killed = Start("killed", "rank --join " + place);
  EXPECT_TRUE(says(killed, "waiting for the other ranks")) << killed.Log();
  const std::string gone = "process " + std::to_string(killed.pid()) + " on ";
  killed.Stop(SIGKILL);
  BackgroundProgram second = Start("second", "rank --join " + place);
  // Two came, of which one is not there.
  EXPECT_TRUE(says(learner, gone)) << learner.Log();
  BackgroundProgram third = Start("third", "rank --join " + place);
  EXPECT_EQ(learner.Wait(), 0) << learner.Log();
  EXPECT_EQ(second.Wait(), 0);
  EXPECT_EQ(third.Wait(), 0);
  EXPECT_THAT(learner.Log(), HasSubstr("does not answer any more; continuing without it"));
  EXPECT_THAT(second.Log(), HasSubstr("rank 1 of 3"));
  EXPECT_THAT(third.Log(), HasSubstr("rank 2 of 3"));
}

// It is of the group and ends while it loads: the learner begins anew, here alone.
TEST_F(RanksTest, ARankLostWhileItLoadsEndsNoRun) {
  RankGroupOptions meeting;
  meeting.meeting = FreeAddress();
  BackgroundProgram learner =
      Start("loads",
            Train("loads", "--set run.steps=3 --set learner.ranks=2 --set learner.rank_address=" +
                               meeting.meeting));
  std::unique_ptr<RankGroup> rank;
  EXPECT_TRUE(Soon([&] {  // until the learner listens
    auto joined = RankGroup::Join(meeting);
    if (joined.ok()) rank = std::move(*joined);
    return rank != nullptr;
  }));
  if (rank) {
    EXPECT_TRUE(rank->Next().ok()) << "how to begin";
    rank.reset();
  }
  EXPECT_EQ(learner.Wait(), 0) << learner.Log();
  EXPECT_THAT(learner.Log(),
              HasSubstr("a rank was lost before the first step; starting again without it"));
  EXPECT_EQ(SummaryOf("loads")["status"], "done");
}

// From another machine, as far as the ranks can tell; and what was begun with two goes on with one.
TEST_F(RanksTest, ARankJoinsAtAnAddressAndTheRunIsResumedWithoutIt) {
  const std::string place = FreeAddress();
  BackgroundProgram rank = Start("rank", "rank --join " + place);
  BackgroundProgram learner =
      Start("joined",
            Train("joined",
                  "--set run.steps=3 --set learner.ranks=2 --set learner.rank_address=" + place));
  EXPECT_EQ(learner.Wait(), 0) << learner.Log();
  EXPECT_EQ(rank.Wait(), 0) << rank.Log();
  EXPECT_THAT(rank.Log(), HasSubstr("rank 1 of 2"));
  const ProcessOutput again =
      RunTidemill("--log-level warn train --json --no-web --resume " + folder_ +
                      "/runs/joined --set learner.ranks=1 --set run.steps=5",
                  "2>/dev/null");
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_EQ(Summary(again)["steps"], 5);
}

TEST_F(RanksTest, AnAddressThatIsNoneIsNamed) {
  const ProcessOutput refused =
      RunTidemill(Train("wrong", "--set learner.ranks=2 --set learner.rank_address=here"));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, HasSubstr("learner.rank_address"));
  EXPECT_THAT(refused.output, HasSubstr("must be HOST:PORT"));
  EXPECT_EQ(RunTidemill("rank --join here").exit_code, 2);
}

}  // namespace
}  // namespace tidemill
