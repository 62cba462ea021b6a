#include "tools/tool_table.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tidemill {
namespace {

TEST(ToolTable, EveryToolForAgentsHasASchemaThatIsJson) {
  for (const ToolRow& row : BuiltInToolRows()) {
    EXPECT_EQ(FindTool(row.name), &row);
    if (row.description.empty()) continue;
    const auto schema = nlohmann::json::parse(row.parameters_json, nullptr, false);
    ASSERT_FALSE(schema.is_discarded()) << row.name;
    EXPECT_EQ(schema.value("type", ""), "object") << row.name;
  }
}

TEST(ToolTable, WhatIsNotBuiltInIsAConfiguredCommand) {
  EXPECT_EQ(ToolTopic("compile"), kToolsCompileTopic);
  EXPECT_EQ(ToolTopic("grade"), kToolsGradeTopic);
  EXPECT_EQ(ToolTopic("anything"), kToolsCommandTopic);
  EXPECT_EQ(FindTool("anything"), nullptr);
}

}  // namespace
}  // namespace tidemill
