#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/run_config.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

std::string CheckOf(const std::vector<std::string>& settings) {
  RunConfig config;
  Binder binder;
  BindRunConfig(config, binder);
  std::vector<std::string> all = {"model.path=there", "tasks.train=there"};
  all.insert(all.end(), settings.begin(), settings.end());
  for (const std::string& setting : all) {
    const Status set = binder.Set(setting);
    EXPECT_TRUE(set.ok()) << set.ToString();
  }
  return CheckRunConfig(config, binder).message();
}

TEST(CheckConfig, WhatMemoryCannotDoIsRefusedByName) {
  EXPECT_EQ(CheckOf({}), "");
  EXPECT_EQ(CheckOf({"memory.on=true", "memory.retrieval=hidden", "memory.key_layers=2"}), "");
  EXPECT_THAT(CheckOf({"memory.on=true", "memory.key_layers=2"}), HasSubstr("memory.key_layers"));
  EXPECT_THAT(CheckOf({"memory.only=true"}), HasSubstr("memory.only"));
  EXPECT_THAT(CheckOf({"memory.on=true", "memory.retrieval=hidden", "agent.preset=codex"}),
              HasSubstr("an agent that is a program"));
}

TEST(CheckConfig, AToolIsInTheBackgroundInOneWayAndServersCannotBeInterrupted) {
  EXPECT_EQ(CheckOf({"background.allowed=run_tests", "background.always=lint"}), "");
  EXPECT_THAT(CheckOf({"background.allowed=run_tests,lint", "background.always=lint"}),
              HasSubstr("names \"lint\", which background.allowed names, too"));
  EXPECT_EQ(CheckOf({"rollout.deliver=now"}), "");
  EXPECT_THAT(CheckOf({"rollout.deliver=now", "engine.backend=vllm", "engine.urls=http://there",
                       "engine.folder=there"}),
              HasSubstr("needs engine.backend = \"own\""));
}

TEST(CheckConfig, OneTeacherIsEnough) {
  EXPECT_EQ(CheckOf({"teacher.model=there"}), "");
  EXPECT_EQ(CheckOf({"teacher.policy=true", "teacher.hints=errors"}), "");
  EXPECT_THAT(CheckOf({"teacher.model=there", "teacher.endpoint=http://there"}),
              HasSubstr("teacher.endpoint"));
  EXPECT_THAT(CheckOf({"teacher.model=there", "teacher.policy=true"}),
              HasSubstr("is a second teacher"));
}

TEST(CheckConfig, HintsNeedATeacherAndWhatTheyAreMadeFrom) {
  EXPECT_THAT(CheckOf({"teacher.policy=true"}), HasSubstr("needs teacher.hints"));
  EXPECT_THAT(CheckOf({"teacher.hints=errors"}), HasSubstr("has no teacher"));
  EXPECT_THAT(CheckOf({"teacher.policy=true", "teacher.hints=judge"}),
              HasSubstr("needs a [[judge]] of turns"));
  EXPECT_THAT(CheckOf({"teacher.policy=true", "teacher.hints=judge_strongest"}),
              HasSubstr("needs a [[judge]] of turns"));
}

}  // namespace
}  // namespace tidemill
