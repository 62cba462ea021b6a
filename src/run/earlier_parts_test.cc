#include "run/earlier_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "run/run_counters.h"
#include "store/run_db.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

TEST(EarlierParts, TotalsAndTimeOfAResumedRunCoverTheWholeRun) {
  TemporaryDirectory folder;
  const std::string path = folder / "metrics.jsonl";
  std::ofstream(path) << R"({"time_ms":1,"kind":"tick","seconds":10,"generated_tokens":50})"
                         "\n"
                      << R"({"time_ms":2,"kind":"tick","seconds":30,"generated_tokens":300,)"
                         R"("steps":7,"episodes_running":9,"busy_port_engine":0.5})"
                         "\n"
                      << R"({"time_ms":3,"kind":"step","step":8})"
                         "\n";
  const Result<EarlierParts> earlier = EarlierParts::Read(path);
  ASSERT_TRUE(earlier.ok());
  RunSnapshot now;
  now.seconds = 10;
  now.counts = {{"generated_tokens", 100}, {"steps", 8}, {"episodes_running", 2}};
  now.busy = {{"engine", true, 0.9}, {"replay", false, 0.4}};
  earlier->AddTo(now);
  EXPECT_EQ(now.seconds, 40);
  EXPECT_EQ(now["generated_tokens"], 400u);
  EXPECT_EQ(now["steps"], 8u) << "it has what was before already";
  EXPECT_EQ(now["episodes_running"], 2u) << "a level";
  EXPECT_DOUBLE_EQ(now.busy[0].share, (0.5 * 30 + 0.9 * 10) / 40);
  EXPECT_DOUBLE_EQ(now.busy[1].share, 0.1);
}

TEST(EarlierParts, WhatTheDatabaseKnowsIsNotTakenFromATickThatWasBeforeTheKill) {
  TemporaryDirectory folder;
  const RealClock clock;
  auto db = RunDb::Open(folder / "run.db", clock);
  ASSERT_TRUE(db.ok()) << db.status().ToString();
  for (uint64_t step = 1; step <= 3; ++step)
    ASSERT_TRUE((*db)->ApplyOne(PutStep{step, step, {}, R"({"tokens":40})"}).ok());
  const std::string path = folder / "metrics.jsonl";
  std::ofstream(path) << R"({"kind":"tick","seconds":9,"trained_tokens":80,"generated_tokens":7})"
                      << "\n";
  auto earlier = EarlierParts::Read(path);
  const auto reader = RunReader::Open(folder / "run.db");
  earlier->Take(StoredTotals::Read(**reader).value());
  RunSnapshot now;
  now.counts = {{"trained_tokens", 5}, {"generated_tokens", 1}, {"zero_variance", 0}};
  earlier->AddTo(now);
  EXPECT_EQ(now["trained_tokens"], 125u);
  EXPECT_EQ(now["generated_tokens"], 8u) << "more than the episodes that are stored have";
  EXPECT_EQ(now["zero_variance"], 0u);
}

TEST(EarlierParts, TheNewestTickIsTheRunAsItWasWhenItWasKilled) {
  TemporaryDirectory folder;
  const std::string path = folder / "metrics.jsonl";
  std::ofstream(path)
      << R"({"time_ms":2,"kind":"tick","seconds":30,"stale":3,"busy_port_engine":0.5})"
      << "\n{\"time_ms\":3,\"kind\":\"ti";
  const RunSnapshot last = EarlierParts::Read(path)->Last();
  EXPECT_EQ(last.seconds, 30);
  EXPECT_EQ(last["stale"], 3u);
  ASSERT_EQ(last.busy.size(), 1u);
  EXPECT_EQ(last.busy[0].name, "engine");
  EXPECT_TRUE(last.busy[0].port);
}

TEST(EarlierParts, ANewRunHasNone) {
  TemporaryDirectory folder;
  const Result<EarlierParts> earlier = EarlierParts::Read(folder / "metrics.jsonl");
  ASSERT_TRUE(earlier.ok());
  RunSnapshot now;
  now.seconds = 2;
  earlier->AddTo(now);
  EXPECT_EQ(now.seconds, 2);
}

TEST(RunCounters, KnowsTheFiguresOfEveryLoop) {
  for (const char* key : {"steps", "stale", "generated_tokens", "verdicts", "tool_calls"})
    EXPECT_EQ(RunCounters().count(key), 1u) << key;
}

}  // namespace
}  // namespace tidemill
