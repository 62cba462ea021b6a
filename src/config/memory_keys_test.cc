#include "config/memory_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tidemill {
namespace {

using testing::HasSubstr;

std::string MemoryCheckOf(const std::vector<std::string>& settings) {
  RunConfig config;
  Binder binder;
  BindRunConfig(config, binder);
  for (const std::string& setting : settings) {
    const Status set = binder.Set(setting);
    EXPECT_TRUE(set.ok()) << set.ToString();
  }
  return CheckMemory(config, binder).message();
}

TEST(MemoryKeys, WhatCannotWorkIsRefusedByName) {
  EXPECT_EQ(MemoryCheckOf({}), "");
  EXPECT_EQ(MemoryCheckOf({"memory.on=true", "memory.retrieval=hidden", "memory.key_layers=2"}),
            "");
  EXPECT_THAT(MemoryCheckOf({"memory.on=true", "memory.key_layers=2"}),
              HasSubstr("memory.key_layers"));
  EXPECT_THAT(MemoryCheckOf({"memory.only=true"}), HasSubstr("memory.only"));
  EXPECT_THAT(MemoryCheckOf({"memory.on=true", "memory.retrieval=hidden", "agent.preset=codex"}),
              HasSubstr("an agent that is a program"));
}

}  // namespace
}  // namespace tidemill
