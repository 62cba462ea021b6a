#include "agents/agent_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "testing/test_folders.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class AgentProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    setenv("TIDEMILL_PRESETS", (SourceDir() + "/presets/agents").c_str(), 1);
  }
};

TEST_F(AgentProgramTest, EveryPresetCanBeReadAndNamesItsPrompt) {
  size_t presets = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SourceDir() + "/presets/agents")) {
    AgentConfig keys;
    keys.preset = entry.path().stem().string();
    const auto program = AgentProgramFrom(keys);
    ASSERT_TRUE(program.ok()) << program.status().ToString();
    EXPECT_THAT(program->command, testing::Contains(HasSubstr("{prompt}"))) << keys.preset;
    EXPECT_GE(program->limits.memory_bytes, uint64_t{1} << 30) << keys.preset;
    ++presets;
  }
  EXPECT_GE(presets, 6u);
}

TEST_F(AgentProgramTest, KeysReplaceWhatAPresetSaysAndATaskWhatTheKeysSay) {
  AgentConfig keys;
  keys.preset = "codex";
  keys.environment = {"MORE=1"};
  keys.mounts = {"/usr/share:/agent/share", "/usr/bin"};
  keys.memory_mb = 3000;
  keys.sampling = "agent";
  const auto program = AgentProgramFrom(keys);
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  EXPECT_EQ(program->command[0], "codex");
  EXPECT_EQ(program->environment.back(), "MORE=1");
  EXPECT_EQ(program->mounts[0].to, "/agent/share");
  EXPECT_EQ(program->mounts[1].to, "/usr/bin");
  EXPECT_EQ(program->limits.memory_bytes, uint64_t{3000} << 20);
  EXPECT_EQ(program->limits.processes, 512u);
  EXPECT_TRUE(program->own_sampling);

  v1::Task task;
  task.mutable_agent()->add_command("mine");
  task.mutable_agent()->mutable_limits()->set_wall_ms(1234);
  task.mutable_agent()->set_last_file("done");
  const AgentProgram own = ProgramFor(*program, task);
  EXPECT_THAT(own.command, ElementsAre("mine"));
  EXPECT_EQ(own.limits.wall, Duration(milliseconds(1234)));
  EXPECT_EQ(own.limits.memory_bytes, program->limits.memory_bytes);
  EXPECT_EQ(own.last_file, "done");
}

TEST_F(AgentProgramTest, WhatIsWrongIsNamed) {
  AgentConfig keys;
  const auto failure = [&] { return AgentProgramFrom(keys).status().message(); };
  EXPECT_THAT(failure(), HasSubstr("agent.command: is empty"));
  keys.preset = "nobody";
  EXPECT_THAT(failure(), HasSubstr("there is no \"nobody\"; there are claude-code, claude-code-mcp, codex"));
  keys.preset.clear();
  keys.command = {"x"};
  keys.mounts = {"relative"};
  EXPECT_THAT(failure(), HasSubstr("agent.mounts: must be absolute"));
  keys.mounts = {"/no/such/folder"};
  EXPECT_THAT(failure(), HasSubstr("there is no /no/such/folder"));
  keys.mounts = {"/tmp"};
  EXPECT_THAT(failure(), HasSubstr("/tmp is a place that each box has of its own; say where the "
                                   "mount is to be: \"/tmp:/agent\""));
  keys.mounts = {"/usr:/workspace/x"};
  EXPECT_THAT(failure(), HasSubstr("/workspace/x is a place that each box has"));
  keys.mounts = {"/tmp:/tmpx", "/usr:/agent/tmp"};
  EXPECT_EQ(failure(), "");
  keys.mounts.clear();
  keys.environment = {"NOVALUE"};
  EXPECT_THAT(failure(), HasSubstr("agent.environment: must be words NAME=value"));

  const TemporaryDirectory dir;
  keys = {};
  keys.preset = dir / "mine.toml";
  std::ofstream(keys.preset) << "command = [\"a\"]\nmemory = 5\n";
  EXPECT_THAT(failure(), HasSubstr("mine.toml:2: there is no field \"memory\""));
  std::ofstream(keys.preset) << "command = \"a\"\n";
  EXPECT_THAT(failure(), HasSubstr("\"command\" must be a list of strings"));
  std::ofstream(keys.preset) << "command = [\"a\"]\nskills = \"../outside\"\n";
  EXPECT_THAT(failure(), HasSubstr("\"skills\" must be a path in the home"));
}

TEST_F(AgentProgramTest, APresetSaysWhereItsAgentLooksForSkills) {
  AgentConfig keys;
  keys.preset = "claude-code";
  EXPECT_EQ(AgentProgramFrom(keys)->skills, ".claude/skills");
  keys.preset = "opencode";
  EXPECT_EQ(AgentProgramFrom(keys)->skills, "");
}

TEST_F(AgentProgramTest, OnlyKnownWordsAreFilledIn) {
  EXPECT_EQ(FillWords("{\"key\": \"{key}\"} {other} {key", {{"key", "{model}"}, {"model", "m"}}),
            "{\"key\": \"{model}\"} {other} {key");
}

}  // namespace
}  // namespace tidemill
