// The tool "bash" and the box that stays for an episode.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tasks/root_fs.h"
#include "testing/tool_fixture.h"
#include "tools/shell_boxes.h"

namespace tidemill {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// An episode that calls bash again and again, as the rollout loop does.
class Shell : public ToolTest {
 protected:
  void TearDown() override {
    v1::TrajectoryId id;
    for (uint32_t group = 100; group <= last_group_; ++group) {
      id.set_task("task"), id.set_group(group), id.set_attempt(1);
      executor().Cancel(id);
    }
  }

  struct Agent {
    uint64_t group = 0;
    std::string holder;
    v1::Tree tree;
  };
  Agent NewAgent(Texts files = {}) {
    Agent agent;
    agent.group = ++last_group_;
    agent.tree = TreeOf(files);
    return agent;
  }
  static v1::ToolRequest CallOf(const Agent& agent, const std::string& command) {
    std::string quoted;
    for (const char c : command) {
      if (c == '"' || c == '\\') quoted += '\\';
      if (c == '\n') {
        quoted += "\\n";
      } else {
        quoted += c;
      }
    }
    v1::ToolRequest request = Request("bash", {}, "{\"command\":\"" + quoted + "\"}");
    request.mutable_episode()->set_group(agent.group);
    request.set_box_holder(agent.holder);
    *request.mutable_tree() = agent.tree;
    return request;
  }
  static v1::ToolResult Do(Agent& agent, const v1::ToolRequest& request) {
    v1::ToolResult result = Call(request);
    agent.holder = "here";
    if (result.has_tree()) agent.tree = result.tree();
    return result;
  }
  static v1::ToolResult Do(Agent& agent, const std::string& command) {
    return Do(agent, CallOf(agent, command));
  }
  static std::string ContentOf(const Agent& agent, const std::string& path) {
    for (const v1::File& file : agent.tree.files()) {
      if (file.path() == path) return file.content();
    }
    return "(none)";
  }

  static inline uint32_t last_group_ = 99;
};

TEST_F(Shell, FilesVariablesFunctionsAndTheFolderStay) {
  Agent agent = NewAgent({{"a.txt", "one\n"}});
  auto result = Do(agent,
                   "cat a.txt; export NAME=value; other='two words'; mkdir -p sub; cd sub; "
                   "greet() { echo hello $1; }; echo made > made.txt");
  EXPECT_EQ(Name(result), "ok") << result.text();
  EXPECT_EQ(result.text(), "one\n");
  EXPECT_EQ(ContentOf(agent, "sub/made.txt"), "made\n");
  result = Do(agent, "pwd; echo $NAME $other; greet you; env | grep ^NAME");
  EXPECT_EQ(result.text(), "/workspace/sub\nvalue two words\nhello you\nNAME=value\n");
}

TEST_F(Shell, TheExitStatusIsToldAndAShellThatExitsLosesNothing) {
  Agent agent = NewAgent();
  auto result = Do(agent, "x=5; echo out; echo err >&2; exit 3");
  EXPECT_EQ(Name(result), "failed");
  EXPECT_EQ(result.exit_code(), 3);
  EXPECT_EQ(result.text(), "exit status 3\nout\nerr\n");
  EXPECT_EQ(Do(agent, "echo $x").text(), "5\n");
}

TEST_F(Shell, BackgroundProcessesSurviveAndStandStillBetweenCalls) {
  Agent agent = NewAgent();
  auto result =
      Do(agent, "(while true; do echo tick >> /tmp/ticks; sleep 0.02; done) & echo $! > pid");
  EXPECT_EQ(Name(result), "ok") << result.text();
  EXPECT_LT(result.wall_ms(), 5000) << "a background process must not hold the call";
  result = Do(agent, "sleep 0.3; kill -0 $(cat pid) && echo alive; wc -l < /tmp/ticks");
  EXPECT_THAT(result.text(), HasSubstr("alive"));
  result = Do(agent, "kill $(cat pid); sleep 0.05; kill -0 $(cat pid) 2>/dev/null || echo gone");
  EXPECT_EQ(result.text(), "gone\n");
}

TEST_F(Shell, AHungCommandIsInterruptedAndTheBoxGoesOn) {
  Agent agent = NewAgent();
  Do(agent, "export KEPT=yes; sleep 1000 & echo $! > pid");
  v1::ToolRequest request = CallOf(agent, "echo begin; sleep 1000");
  request.set_arguments_json("{\"command\":\"echo begin; sleep 1000\",\"timeout_s\":1}");
  auto result = Do(agent, request);
  EXPECT_EQ(Name(result), "timeout");
  EXPECT_THAT(result.text(), HasSubstr("longer than 1 s"));
  EXPECT_THAT(result.text(), HasSubstr("begin"));
  result = Do(agent, "echo $KEPT; kill -0 $(cat pid) && echo alive");
  EXPECT_EQ(result.text(), "yes\nalive\n");
}

TEST_F(Shell, LongOutputIsCutInTheMiddle) {
  Agent agent = NewAgent();
  v1::ToolRequest request = CallOf(agent, "seq 1 5000");
  request.set_text_limit(500);
  const auto result = Do(agent, request);
  EXPECT_EQ(Name(result), "ok");
  EXPECT_LE(result.text().size(), 520u);
  EXPECT_THAT(result.text(), HasSubstr("1\n2\n3\n"));
  EXPECT_THAT(result.text(), HasSubstr("cut"));
  EXPECT_THAT(result.text(), HasSubstr("4999\n5000\n"));
}

TEST_F(Shell, AFloodOfOutputInterruptsTheCommandAlone) {
  Agent agent = NewAgent();
  Do(agent, "x=1");
  EXPECT_EQ(Name(Do(agent, "yes")), "output_limit");
  EXPECT_EQ(Do(agent, "echo $x").text(), "1\n");
}

TEST_F(Shell, WhatOtherToolsWroteIsThereAndWhatTheyRemovedIsNot) {
  Agent agent = NewAgent({{"a.txt", "old"}, {"b.txt", "b"}});
  Do(agent, "true");
  agent.tree = TreeOf({{"a.txt", "new"}, {"c/d.txt", "d"}});
  EXPECT_EQ(Do(agent, "cat a.txt c/d.txt; ls b.txt 2>/dev/null || echo none").text(), "newdnone\n");
}

TEST_F(Shell, AnAgentThatBringsItsBoxDownGetsAResultAndANewBox) {
  Agent agent = NewAgent({{"a.txt", "kept"}});
  Do(agent, "export X=1; echo more > b.txt");
  v1::ToolRequest request = CallOf(agent, ":(){ :|:& };:; sleep 5");
  request.mutable_limits()->set_processes(16);
  const auto result = Do(agent, request);
  EXPECT_EQ(Name(result), "process_limit") << result.cause();
  EXPECT_FALSE(result.box_lost());
  EXPECT_THAT(result.text(), HasSubstr("new one"));
  const auto after = Do(agent, "cat a.txt b.txt; echo X=$X");
  EXPECT_EQ(after.text(), "keptmore\nX=\n") << "a new box with the files as they were";
}

TEST_F(Shell, WhatTheAgentPutsInTheWayOfItsFilesIsItsOwnDoing) {
  Agent agent = NewAgent({{"src/a.txt", "a"}});
  Do(agent, "rm -r src; ln -s /tmp src");
  agent.tree = TreeOf({{"src/b.txt", "b"}});  // written by another tool
  const auto result = Do(agent, "true");
  EXPECT_EQ(Name(result), "failed") << result.cause();
  EXPECT_FALSE(result.box_lost());
  EXPECT_EQ(Do(agent, "cat src/b.txt").text(), "b");
}

TEST_F(Shell, ABoxThatIsNotHereIsOursAndSaysSo) {
  Agent agent = NewAgent();
  agent.holder = "here";
  const auto result = Call(CallOf(agent, "true"));
  EXPECT_EQ(Name(result), "unavailable");
  EXPECT_TRUE(result.box_lost());
}

TEST_F(Shell, AFinishedEpisodesBoxIsClosed) {
  Agent agent = NewAgent();
  Do(agent, "sleep 1000 &");
  const size_t before = executor().shell_boxes();
  const v1::ToolRequest request = CallOf(agent, "true");
  executor().Cancel(request.episode());
  EXPECT_EQ(executor().shell_boxes(), before - 1);
  EXPECT_TRUE(Call(request).box_lost());
}

TEST_F(Shell, TwoEpisodesDoNotMeet) {
  Agent one = NewAgent(), two = NewAgent();
  Do(one, "echo secret > /tmp/s; export S=secret");
  EXPECT_EQ(Do(two, "cat /tmp/s 2>/dev/null; echo [$S]").text(), "[]\n");
}

TEST_F(Shell, ACallWithoutACommandIsTheAgentsMistakeAndNeedsNoBox) {
  Agent agent = NewAgent();
  v1::ToolRequest request = CallOf(agent, "x");
  request.set_arguments_json("{}");
  EXPECT_EQ(Name(Call(request)), "invalid");
}

// A root of two static programs: what the box runs comes from there and from nowhere else.
TEST_F(Shell, ARequestWithARootRunsItsPrograms) {
  TemporaryDirectory folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  const std::string root = folder / "root";
  std::filesystem::create_directories(root + "/bin");
  std::ofstream(folder / "sh.c") << "int main(void) { return 0; }\n";
  std::ofstream(folder / "tool.c")
      << "#include <stdio.h>\n#include <unistd.h>\nint main(void) {\n"
         "  printf(\"of the root, %d\\n\", access(\"/usr/bin/env\", F_OK)); return 0; }\n";
  for (const char* name : {"sh", "tool"}) {
    const std::string build =
        "gcc -static -o " + root + "/bin/" + name + " " + folder / (std::string(name) + ".c");
    ASSERT_EQ(std::system(build.c_str()), 0);
  }
  const auto hash = PrepareRoot(root, folder / "roots");
  ASSERT_TRUE(hash.ok()) << hash.status().ToString();
  ToolExecutorOptions options;
  options.slots = options.grade_slots = options.pool = 1;
  options.roots = folder / "roots";
  RealClock clock;
  auto rooted = ToolExecutor::Create(options, nullptr, clock);
  ASSERT_TRUE(rooted.ok()) << rooted.status().ToString();
  Bell bell;
  (*rooted)->completions().Attach(bell);
  const auto grade = [&](const std::string& root_hash, const char* program) {
    v1::ToolRequest request = Request("grade", {{"a", "b"}});
    request.set_root(root_hash);
    request.mutable_grading()->set_mode(v1::Grading::MODE_COMMAND);
    request.mutable_grading()->set_trusted(true);
    request.mutable_grading()->add_run(program);
    (*rooted)->Submit(request, 1);
    for (;;) {
      auto done = (*rooted)->completions().TakeAll();
      if (!done.empty()) return done[0].result;
      TM_CHECK(bell.Wait(std::chrono::seconds(60)), "no answer in a minute");
    }
  };
  const auto result = grade(*hash, "tool");
  EXPECT_EQ(Name(result), "ok") << result.cause();
  EXPECT_EQ(result.stdout_bytes(), "of the root, -1\n");
  EXPECT_EQ(Name(grade(*hash, "python3")), "unavailable") << "it is not in the root";
  const auto missing = grade(std::string(64, 'a'), "tool");
  EXPECT_EQ(Name(missing), "unavailable");
  EXPECT_THAT(missing.cause(), HasSubstr("is not in"));
}

TEST(ShellBoxes, FullUntilSomeoneIsIdleForTooLong) {
  ShellBoxes shells(1, std::chrono::seconds(10));
  const Time start{};
  ASSERT_TRUE(shells.Reserve(start));
  EXPECT_FALSE(shells.Reserve(start));
  TrajectoryKey episode;
  episode.task = "t";
  shells.Keep(episode, std::make_unique<ShellBox>(), start);
  EXPECT_FALSE(shells.Reserve(start + std::chrono::seconds(5)));
  EXPECT_TRUE(shells.Reserve(start + std::chrono::seconds(11)));
  EXPECT_EQ(shells.Take(episode), nullptr);
}

}  // namespace
}  // namespace tidemill
