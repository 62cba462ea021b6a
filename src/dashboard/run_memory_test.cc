#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/clock.h"
#include "dashboard/run_api.h"
#include "testing/sample/sample_run.h"
#include "testing/store_samples.h"

namespace tidemill {
namespace {

using MemoryTestJson = nlohmann::json;

class RunMemoryTest : public testing::Test {
 protected:
  RunMemoryTest() : api_({.folder = folder_.path(), .default_run = "remembers"}) {
    options_.steps = 6;
    options_.memory = true;
    WriteSampleRun(folder_.path(), "remembers", options_);
  }
  MemoryTestJson Get(const std::string& target, int status = 200) {
    const HttpResponse response = api_.Get(target);
    EXPECT_EQ(response.status, status) << target << ": " << response.body.substr(0, 300);
    return MemoryTestJson::parse(response.body);
  }
  // Until all of the bank was read.
  MemoryTestJson Memory(const std::string& more = "") {
    while (true) {
      MemoryTestJson memory = Get("/api/runs/remembers/memory" + more);
      if (memory["complete"].get<bool>()) return memory;
    }
  }
  TemporaryDirectory folder_;
  SampleOptions options_;
  RunApi api_;
};

TEST_F(RunMemoryTest, TellsWhatWasLearnedWhenAndWhatWasForgotten) {
  const MemoryTestJson memory = Memory();
  const uint64_t learned = memory["learned"], merged = memory["merged"],
                 forgotten = memory["forgotten"], cases = memory["cases"];
  EXPECT_GT(learned, 150u);
  EXPECT_EQ(cases, 30u) << "as many as memory.capacity says";
  EXPECT_EQ(learned, merged + forgotten + cases) << "every episode is a case, a copy or gone";
  ASSERT_FALSE(memory["gone"].empty());
  EXPECT_LT(memory["gone"][0]["number"].get<uint64_t>(), learned);
  EXPECT_TRUE(memory["gone"][0].contains("prompt")) << "it is still in the database";
  const MemoryTestJson& growth = memory["growth"];
  EXPECT_EQ(growth["learned"].back(), learned);
  EXPECT_EQ(growth["cases"].back(), cases);
  int64_t before = 0;
  for (const MemoryTestJson& number : growth["learned"]) {
    EXPECT_GT(number.get<int64_t>(), before);
    before = number;
  }
  EXPECT_EQ(memory["scopes"].size(), 2u);
}

TEST_F(RunMemoryTest, OrdersCasesByWhatTheyWereWorth) {
  const MemoryTestJson best = Memory("?sort=best")["list"];
  ASSERT_EQ(best.size(), 30u);
  for (size_t i = 1; i < best.size(); ++i) EXPECT_GE(best[i - 1]["worth"], best[i]["worth"]);
  EXPECT_GT(best[0]["worth_half"], 0);
  EXPECT_EQ(Memory("?sort=worst&limit=1")["list"][0]["worth"], best.back()["worth"]);
  const MemoryTestJson alpha = Memory("?scope=alpha");
  for (const MemoryTestJson& one : alpha["list"]) EXPECT_EQ(one["scope"], "alpha");
  Get("/api/runs/remembers/memory?sort=loudest", 400);
  Get("/api/runs/remembers/memory?limit=0", 400);
}

TEST_F(RunMemoryTest, ACaseNamesItsEpisodeWhichNamesItsCases) {
  const MemoryTestJson newest = Memory()["list"][0];
  const std::string number = std::to_string(newest["number"].get<uint64_t>());
  const MemoryTestJson one = Get("/api/runs/remembers/memory/" + number);
  EXPECT_TRUE(one["in_bank"].get<bool>());
  EXPECT_EQ(one["tools"][0]["tool"], "run_tests");
  const MemoryTestJson episode =
      Get("/api/runs/remembers/episodes/" + std::to_string(one["group"].get<uint64_t>()) + "/" +
          std::to_string(one["member"].get<uint64_t>()));
  EXPECT_EQ(episode["shown_cases"], one["shown_cases"]);
  EXPECT_EQ(episode["shown_cases"].size(), 3u);
  Get("/api/runs/remembers/memory/999999", 404);
  Get("/api/runs/remembers/memory/0", 404);
  Get("/api/runs/remembers/memory/x", 400);
}

TEST_F(RunMemoryTest, WhatWasErasedIsGoneFromTheViewToo) {
  const uint64_t learned = Memory()["learned"];
  const RealClock clock;
  auto db = RunDb::Open(folder_.path() + "/remembers/run.db", clock);
  ASSERT_TRUE(db.ok()) << db.status().ToString();
  ASSERT_TRUE((*db)->ApplyOne(EraseCases{.scope = "alpha"}).ok());
  const MemoryTestJson memory = Memory();
  EXPECT_LT(memory["learned"].get<uint64_t>(), learned);
  for (const MemoryTestJson& one : memory["list"]) EXPECT_EQ(one["scope"], "beta");
}

TEST_F(RunMemoryTest, ARunWithoutMemorySaysSo) {
  options_.memory = false;
  options_.steps = 1;
  WriteSampleRun(folder_.path(), "plain", options_);
  EXPECT_THAT(Get("/api/runs/plain/memory", 400)["error"].get<std::string>(),
              testing::HasSubstr("memory.on"));
}

}  // namespace
}  // namespace tidemill
