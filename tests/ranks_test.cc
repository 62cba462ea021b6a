// The learner over several processes, through the program itself: ranks that die or hang while it
// trains, and ranks that come from elsewhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "learner/torch/rank_group.h"
#include "tests/line_fixture.h"

extern char** environ;

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

  static std::string Text(const std::string& path) {
    std::ifstream stream(path);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  // Starts the program; what it says goes to NAME.out and NAME.err.
  static pid_t Start(const std::string& name, const std::string& arguments) {
    const std::string command = "exec " TIDEMILL_BINARY_DIR "/tidemill " + arguments + " >" +
                                folder_ + "/" + name + ".out 2>" + folder_ + "/" + name + ".err";
    const char* argv[] = {"sh", "-c", command.c_str(), nullptr};
    pid_t pid = 0;
    EXPECT_EQ(posix_spawnp(&pid, "sh", nullptr, nullptr, const_cast<char**>(argv), environ), 0);
    return pid;
  }

  static std::string FreeAddress() {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    socklen_t size = sizeof address;
    EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
    close(fd);
    return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }

  static bool Eventually(const std::function<bool()>& holds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!holds()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }

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
      if (Text("/proc/" + std::to_string(pid) + "/cmdline").find("--join") != std::string::npos) {
        ranks.push_back(pid);
      }
    }
    return ranks;
  }

  static int Wait(pid_t pid) {
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  // Trains with two ranks, does `signal` to the second once there is a checkpoint, and expects that
  // the run goes on alone to its end, having said `message`.
  void LoseARank(const std::string& name, int signal, const std::string& message) {
    const std::string more =
        "--set run.steps=40 --set learner.checkpoint_every_steps=2 --set learner.ranks=2 "
        "--set learner.rank_timeout=1s --set tools.wait=20ms";
    const pid_t pid = Start(name, Train(name, more));
    pid_t rank = 0;
    const bool ready = Eventually([&] { return HasCheckpoint(name); });
    for (pid_t child : Children(pid)) rank = child;
    EXPECT_TRUE(ready && rank > 0) << Text(folder_ + "/" + name + ".err");
    if (rank > 0) kill(rank, signal);
    EXPECT_EQ(Wait(pid), 0);
    const std::string said = Text(folder_ + "/" + name + ".err");
    EXPECT_THAT(said, HasSubstr("rank 1 (process " + std::to_string(rank)));
    EXPECT_THAT(said, HasSubstr(message));
    EXPECT_THAT(said, HasSubstr("going on from the last checkpoint with the ranks that are left"));
    const json summary = json::parse(Text(folder_ + "/" + name + ".out"), nullptr, false);
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
  LoseARank("killed", SIGKILL, "was killed by signal 9");
}

TEST_F(RanksTest, ARunGoesOnWithoutARankThatHangs) {
  LoseARank("hangs", SIGSTOP, "did not answer within 1000 ms (learner.rank_timeout)");
}

// One of two that the learner starts is killed while it still loads the program.
TEST_F(RanksTest, ARankKilledBeforeItJoinedIsLeftOut) {
  const pid_t learner = Start("early", Train("early", "--set run.steps=3 --set learner.ranks=3"));
  pid_t rank = 0;
  EXPECT_TRUE(Eventually([&] {
    for (pid_t child : Children(learner)) rank = child;
    return rank > 0;
  })) << Text(folder_ + "/early.err");
  if (rank > 0) kill(rank, SIGKILL);
  EXPECT_EQ(Wait(learner), 0);
  const std::string said = Text(folder_ + "/early.err");
  EXPECT_THAT(said, HasSubstr("process " + std::to_string(rank) + " was killed by signal 9"));
  EXPECT_THAT(said, HasSubstr("it is left out"));
  EXPECT_THAT(said,
              HasSubstr("fewer ranks than learner.ranks are there; the run begins with those  "
                        "ranks=2 wanted=3"));
  const json summary = json::parse(Text(folder_ + "/early.out"), nullptr, false);
  ASSERT_TRUE(summary.is_object()) << said;
  EXPECT_EQ(summary["status"], "done");
  EXPECT_EQ(summary["steps"], 3);
  EXPECT_EQ(summary["resumes"], 0);
}

// It came, was killed while the others were awaited, and another came in its place.
TEST_F(RanksTest, ARankKilledWhileOthersAreAwaitedIsReplaced) {
  const std::string place = FreeAddress();
  const pid_t learner = Start("awaits", Train("awaits",
                                              "--set run.steps=3 --set learner.ranks=3 "
                                              "--set learner.rank_address=" +
                                                  place));
  const pid_t killed = Start("killed", "rank --join " + place);
  EXPECT_TRUE(Eventually([&] {
    return Text(folder_ + "/killed.err").find("waiting for the others") != std::string::npos;
  })) << Text(folder_ + "/killed.err");
  kill(killed, SIGKILL);
  Wait(killed);
  std::vector<pid_t> ranks = {Start("second", "rank --join " + place)};
  const std::string gone = "process " + std::to_string(killed) + " on ";
  EXPECT_TRUE(Eventually([&] {  // two came, of which one is not there
    return Text(folder_ + "/awaits.err").find(gone) != std::string::npos;
  })) << Text(folder_ + "/awaits.err");
  ranks.push_back(Start("third", "rank --join " + place));
  EXPECT_EQ(Wait(learner), 0) << Text(folder_ + "/awaits.err");
  for (const pid_t rank : ranks) EXPECT_EQ(Wait(rank), 0);
  EXPECT_THAT(Text(folder_ + "/awaits.err"), HasSubstr("does not answer any more; it is left out"));
  EXPECT_THAT(Text(folder_ + "/second.err"), HasSubstr("rank 1 of 3"));
  EXPECT_THAT(Text(folder_ + "/third.err"), HasSubstr("rank 2 of 3"));
}

// It is of the group and ends while it loads: the learner begins anew, here alone.
TEST_F(RanksTest, ARankLostWhileItLoadsEndsNoRun) {
  RankGroupOptions meeting;
  meeting.meeting = FreeAddress();
  const pid_t learner = Start("loads", Train("loads",
                                             "--set run.steps=3 --set learner.ranks=2 "
                                             "--set learner.rank_address=" +
                                                 meeting.meeting));
  std::unique_ptr<RankGroup> rank;
  EXPECT_TRUE(Eventually([&] {  // until the learner listens
    auto joined = RankGroup::Join(meeting);
    if (joined.ok()) rank = std::move(*joined);
    return rank != nullptr;
  }));
  if (rank) {
    EXPECT_TRUE(rank->Next().ok()) << "how to begin";
    rank.reset();
  }
  EXPECT_EQ(Wait(learner), 0) << Text(folder_ + "/loads.err");
  EXPECT_THAT(Text(folder_ + "/loads.err"),
              HasSubstr("a rank was lost before the first step; beginning anew without it"));
  const json summary = json::parse(Text(folder_ + "/loads.out"), nullptr, false);
  EXPECT_EQ(summary["status"], "done");
}

// From another machine, as far as the ranks can tell; and what was begun with two goes on with one.
TEST_F(RanksTest, ARankJoinsAtAnAddressAndTheRunIsResumedWithoutIt) {
  const std::string place = FreeAddress();
  const pid_t rank = Start("rank", "rank --join " + place);
  const pid_t learner = Start("joined", Train("joined",
                                              "--set run.steps=3 --set learner.ranks=2 "
                                              "--set learner.rank_address=" +
                                                  place));
  EXPECT_EQ(Wait(learner), 0) << Text(folder_ + "/joined.err");
  EXPECT_EQ(Wait(rank), 0) << Text(folder_ + "/rank.err");
  EXPECT_THAT(Text(folder_ + "/rank.err"), HasSubstr("rank 1 of 2"));
  const ProcessOutput again = Run("--log-level warn train --json --no-web --resume " + folder_ +
                                      "/runs/joined --set learner.ranks=1 --set run.steps=5",
                                  "2>/dev/null");
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_EQ(Summary(again)["steps"], 5);
}

TEST_F(RanksTest, AnAddressThatIsNoneIsNamed) {
  const ProcessOutput refused =
      Run(Train("wrong", "--set learner.ranks=2 --set learner.rank_address=here"));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, HasSubstr("learner.rank_address"));
  EXPECT_THAT(refused.output, HasSubstr("must be HOST:PORT"));
  EXPECT_EQ(Run("rank --join here").exit_code, 2);
}

}  // namespace
}  // namespace tidemill
