#include "memory/tool_memory.h"

#include <gtest/gtest.h>

#include "memory/case_bank.h"
#include "testing/memory_samples.h"

namespace tidemill {
namespace {

struct Said {
  const char* tool;
  const char* arguments;
  v1::Outcome outcome;
  const char* text;
};

v1::CaseRecord Episode(uint64_t group, const std::vector<Said>& calls) {
  v1::CaseRecord record = SampleRecord(group, 0, "sort the list", "a", true);
  for (const Said& call : calls) {
    v1::ToolNote& note = *record.add_tools();
    note.set_tool(call.tool);
    note.set_arguments_json(call.arguments);
    note.set_outcome(call.outcome);
    note.set_text(call.text);
  }
  return record;
}

constexpr Said kMake = {"bash", "{\"command\":\"make\"}", v1::OUTCOME_FAILED,
                        "make: not found\nand more"};
constexpr Said kRead = {"read_file", "{\"path\":\"a\"}", v1::OUTCOME_OK, "hello"};

TEST(ToolMemory, KnowsWhatDifferentTasksWereToldAlike) {
  ToolMemory memory;
  memory.Apply(1, Episode(1, {kRead, kMake, kMake}));
  EXPECT_TRUE(memory.Facts("here", 8).empty());
  memory.Apply(2, Episode(1, {kRead, kMake}));
  EXPECT_TRUE(memory.Facts("here", 8).empty()) << "the same task";
  memory.Apply(3, Episode(2, {kRead, kMake}));
  const auto facts = memory.Facts("here", 8);
  ASSERT_EQ(facts.size(), 2u);
  EXPECT_EQ(ToolMemory::Line(facts[0]), "bash {\"command\":\"make\"} failed: make: not found");
  EXPECT_EQ(ToolMemory::Line(facts[1]), "read_file {\"path\":\"a\"}: hello");
  EXPECT_EQ(facts[0].times, 3u) << "an episode counts once";
  EXPECT_EQ(memory.Facts("here", 1).size(), 1u);
  EXPECT_TRUE(memory.Facts("there", 8).empty()) << "another scope";
}

TEST(ToolMemory, WhatACallSaysDifferentlyIsLearnedAnew) {
  ToolMemory memory;
  memory.Apply(1, Episode(1, {kMake}));
  memory.Apply(2, Episode(2, {kMake}));
  Said built = kMake;
  built.outcome = v1::OUTCOME_OK;
  memory.Apply(3, Episode(3, {built}));
  EXPECT_TRUE(memory.Facts("here", 8).empty());
  memory.Apply(4, Episode(4, {built}));
  ASSERT_EQ(memory.Facts("here", 8).size(), 1u);
  EXPECT_FALSE(memory.Facts("here", 8)[0].failed);
}

TEST(ToolMemory, ACallWithoutArgumentsIsAboutTheWork) {
  ToolMemory memory;
  const Said tested = {"run_tests", "{}", v1::OUTCOME_FAILED, "1 of 3 failed"};
  memory.Apply(1, Episode(1, {tested}));
  memory.Apply(2, Episode(2, {tested}));
  EXPECT_TRUE(memory.Facts("here", 8).empty());
}

TEST(ToolMemory, IsBoundedAndForgetsWhatWasSeenLongestAgo) {
  ToolMemory memory;
  memory.Apply(1, Episode(1, {kMake}));
  memory.Apply(2, Episode(2, {kMake}));
  for (uint64_t i = 0; i < ToolMemory::kCallsMax; ++i) {
    const std::string arguments = "{\"n\":" + std::to_string(i) + "}";
    memory.Apply(3 + i, Episode(3, {{"run", arguments.c_str(), v1::OUTCOME_OK, "x"}}));
  }
  EXPECT_TRUE(memory.Facts("here", 8).empty());
}

TEST(ToolMemory, ABankShowsItApartFromCases) {
  CaseBank bank({}), same({});
  for (uint64_t i = 1; i <= 2; ++i) {
    bank.Apply(i, Episode(i, {kMake}));
    EXPECT_NE(bank.Digest(), same.Digest());
    same.Apply(i, Episode(i, {kMake}));
    EXPECT_EQ(bank.Digest(), same.Digest());
  }
  EXPECT_EQ(bank.ShowTools("here"), "bash {\"command\":\"make\"} failed: make: not found");
  EXPECT_EQ(bank.ShowTools("there"), "");
}

}  // namespace
}  // namespace tidemill
