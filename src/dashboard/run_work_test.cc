#include "dashboard/run_work.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "observe/metrics_series.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

TEST(LinesBetween, FindsExactlyTheWindowInALongFile) {
  TemporaryDirectory folder;
  const std::string path = folder / "metrics.jsonl";
  {
    std::ofstream out(path);
    for (int i = 0; i < 20'000; ++i) {
      out << "{\"time_ms\":" << 1'000'000 + i * 10 << ",\"kind\":\"tick\",\"n\":" << i
          << ",\"fill\":\"" << std::string(static_cast<size_t>(i % 97), 'x') << "\"}\n";
    }
  }
  for (const auto& [from, to] : std::vector<std::pair<int, int>>{{0, 999'999},
                                                                 {0, 1'000'000},
                                                                 {1'000'005, 1'000'030},
                                                                 {1'100'000, 1'100'990},
                                                                 {1'199'980, 2'000'000},
                                                                 {1'200'000, 2'000'000}}) {
    const auto lines = LinesBetween(path, from, to, size_t{1} << 20);
    ASSERT_TRUE(lines.ok());
    std::vector<int> expected;
    for (int i = 0; i < 20'000; ++i) {
      const int at = 1'000'000 + i * 10;
      if (at >= from && at <= to) expected.push_back(i);
    }
    ASSERT_EQ(lines->size(), expected.size()) << from << " to " << to;
    for (size_t i = 0; i < lines->size(); ++i) {
      EXPECT_EQ(nlohmann::json::parse((*lines)[i])["n"], expected[i]);
    }
  }
  const auto few = LinesBetween(path, 0, 2'000'000, 1000);
  ASSERT_TRUE(few.ok());
  EXPECT_LT(few->size(), 3000u) << "bounded";
  EXPECT_TRUE(LinesBetween(folder / "none", 0, 1, 1000)->empty());
}

TEST(ReadWork, TellsWhatHappenedBetweenTwoTicksNotOnAverage) {
  TemporaryDirectory folder;
  const std::string path = folder / "metrics.jsonl";
  std::ofstream(path)
      << R"({"time_ms":100000,"kind":"tick","seconds":10,"busy_port_engine":0.5})"
      << "\n"
      << R"({"time_ms":101000,"kind":"tick","seconds":11,"busy_port_engine":0.5454545454})"
      << "\n"
      << R"({"time_ms":101500,"kind":"step","step":4,"seconds":1})"
      << "\n"
      << R"({"time_ms":101600,"kind":"publish","step":4,"version":5,"seconds":0.08})"
      << "\n"
      << R"({"time_ms":101900,"kind":"checkpoint","step":4,"seconds":0.2,"path":"p"})"
      << "\n"
      << R"({"time_ms":101990,"kind":"checkpoint","step":5,"seconds":0.4,"pause_seconds":0.05,"path":"p"})"
      << "\n"
      << R"({"time_ms":102000,"kind":"tick","seconds":12,"busy_port_engine":0.5,"busy_loop_replay":0.25})"
      << "\nnot json\n"
      << R"({"time_ms":103000,"kind":"tick","seconds":1,"busy_port_engine":1})"
      << "\n";
  const auto work = ReadWork(path, 100'000, 103'000);
  ASSERT_TRUE(work.ok());
  const auto& busy = (*work)["busy"];
  EXPECT_EQ(busy["from_ms"], (nlohmann::json{100'000, 101'000})) << "none over a resumption";
  EXPECT_EQ(busy["to_ms"], (nlohmann::json{101'000, 102'000}));
  EXPECT_EQ(busy["columns"]["port_engine"], (nlohmann::json{1.0, 0.0}));
  EXPECT_EQ(busy["columns"]["loop_replay"], (nlohmann::json{nullptr, 1.0}));
  const auto& spans = (*work)["spans"];
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[0]["doing"], "publishing");
  EXPECT_EQ(spans[0]["from_ms"], 101'520);
  EXPECT_EQ(spans[0]["version"], 5);
  EXPECT_EQ(spans[1]["doing"], "checkpoint");
  EXPECT_EQ(spans[1]["to_ms"], 101'900);
  EXPECT_EQ(spans[2]["from_ms"], 101'590);
  EXPECT_EQ(spans[2]["to_ms"], 101'640) << "the rest was written while the trainer went on";
}

TEST(ReadWork, ALongWindowIsEmptyAndNotSlow) {
  TemporaryDirectory folder;
  const auto work = ReadWork(folder / "metrics.jsonl", 0, kWorkWindowMs + 1);
  ASSERT_TRUE(work.ok());
  EXPECT_TRUE((*work)["spans"].empty());
}

}  // namespace
}  // namespace tidemill
