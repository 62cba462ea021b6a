#include "dashboard/run_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "dashboard/dashboard.h"
#include "dashboard/page_files.h"
#include "dashboard/run_events.h"
#include "dashboard/run_json.h"
#include "observe/metrics_series.h"
#include "observe/run_gauges.h"
#include "testing/sample/sample_run.h"
#include "testing/store_samples.h"
#include "testing/test_folders.h"

namespace tidemill {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::Not;

SampleOptions SmallRun() {
  SampleOptions options;
  options.steps = 6;
  options.model = SourceDir() + "/tests/golden/qwen3-tiny";
  return options;
}

class RunApiTest : public testing::Test {
 protected:
  RunApiTest() : api_({.folder = folder_.path(), .default_run = "small"}) {
    WriteSampleRun(folder_.path(), "small", SmallRun());
  }
  Json Get(const std::string& target, int status = 200) {
    const HttpResponse response = api_.Get(target);
    EXPECT_EQ(response.status, status) << target << ": " << response.body.substr(0, 300);
    return Json::parse(response.body);
  }
  TemporaryDirectory folder_;
  RunApi api_;
};

TEST_F(RunApiTest, ListsRunsWithTheirStates) {
  SampleOptions options = SmallRun();
  options.steps = 1;
  options.finished = false;
  SampleRun running(folder_.path(), "running", options);
  running.WriteStep();
  const Json runs = Get("/api/runs")["runs"];
  ASSERT_EQ(runs.size(), 2u);
  std::map<std::string, std::string> states;
  for (const Json& run : runs) states[run["name"]] = run["state"];
  EXPECT_EQ(states["small"], "done");
  EXPECT_EQ(states["running"], "running");
}

TEST_F(RunApiTest, OneRunHasCountsEvaluationsAndItsNewestTick) {
  const Json run = Get("/api/runs/small");
  EXPECT_EQ(run["counts"]["steps"], 6);
  EXPECT_EQ(run["counts"]["episodes"], 6 * 32 + 2 * 48);
  ASSERT_EQ(run["evals"].size(), 2u);
  EXPECT_EQ(run["evals"][0]["name"], "before");
  EXPECT_GT(run["tick"]["generated_tokens"], 0);
  EXPECT_EQ(run["step"]["step"], 6);
}

TEST_F(RunApiTest, WhatIsNotThereOrNotAllowedIsSaid) {
  EXPECT_THAT(Get("/api/runs/none", 404)["error"].get<std::string>(), HasSubstr("none"));
  Get("/api/nothing", 404);
  Get("/api/runs/small/nothing", 404);
  Get("/api/runs/.hidden", 400);
  Get("/api/runs/small/episodes/999999/0", 404);
  Get("/api/runs/small/episodes/x/0", 400);
  Get("/api/runs/small/groups/999999", 404);
  EXPECT_THAT(Get("/api/runs/small/episodes?limit=5000", 400)["error"].get<std::string>(),
              HasSubstr("limit"));
  EXPECT_THAT(Get("/api/runs/small/episodes?reward_min=much", 400)["error"].get<std::string>(),
              HasSubstr("reward_min"));
  Get("/api/runs/small/episodes?end=never", 400);
  Get("/api/runs/small/episodes?sort=sideways", 400);
  Get("/api/runs/small/series?points=0", 400);
  Get("/api/runs/small/timeline?from=9&to=8", 400);
}

TEST_F(RunApiTest, EpisodesAreFiltered) {
  const Json all = Get("/api/runs/small/episodes?limit=1000");
  uint64_t solved = 0, good = 0;
  for (const Json& row : all["episodes"]) {
    solved += row["solved"] == true ? 1 : 0;
    good += row["reward"].is_number() && row["reward"] >= 0.5 ? 1 : 0;
  }
  EXPECT_EQ(Get("/api/runs/small/episodes?solved=true")["total"], solved);
  EXPECT_EQ(Get("/api/runs/small/episodes?reward_min=0.5")["total"], good);
  EXPECT_EQ(Get("/api/runs/small/episodes?purpose=eval")["total"], 96);
  EXPECT_EQ(Get("/api/runs/small/episodes?eval=before")["total"], 48);
  const Json of_task = Get("/api/runs/small/episodes?task=cfunc%2Fgcd-1");
  EXPECT_GT(of_task["total"], 0);
  for (const Json& row : of_task["episodes"]) EXPECT_EQ(row["task"], "cfunc/gcd-1");
}

TEST_F(RunApiTest, LagIsCountedInStepsFromTheOldestTokenToTheUse) {
  std::map<uint64_t, uint64_t> at_least;  // from the database's own tables, by hand
  uint64_t used = 0;
  const Json page1 = Get("/api/runs/small/episodes?limit=1000&purpose=train");
  for (const Json& row : page1["episodes"]) {
    const Json detail =
        Get("/api/runs/small/episodes/" + row["group"].dump() + "/" + row["member"].dump());
    if (detail["used_by"].empty()) continue;
    ++used;
    const uint64_t lag =
        detail["used_by"].back().get<uint64_t>() - 1 - row["min_version"].get<uint64_t>();
    for (uint64_t n = 0; n <= lag; ++n) ++at_least[n];
  }
  ASSERT_GT(used, 100u);
  ASSERT_GT(at_least[1], 0u);
  for (uint64_t n = 0; n < 4; ++n) {
    EXPECT_EQ(Get("/api/runs/small/episodes?lag_min=" + std::to_string(n))["total"], at_least[n])
        << n;
  }
}

TEST_F(RunApiTest, ATranscriptHasTheTextLogProbabilityAndVersionOfEveryToken) {
  const Json episode = Get("/api/runs/small/episodes/20/1");
  EXPECT_EQ(episode["text"], "decoded");
  EXPECT_THAT(episode["prompt"].get<std::string>(), HasSubstr("Write the C function"));
  for (const Json& turn : episode["turn_list"]) {
    std::string text;
    for (const Json& token : turn["tokens"]) text += token.get<std::string>();
    EXPECT_THAT(text, HasSubstr("int f(int a, int b)"));
    EXPECT_EQ(turn["tokens"].size(), turn["logprobs"].size());
    uint64_t versioned = 0;
    for (const Json& run : turn["versions"]) versioned += run["tokens"].get<uint64_t>();
    EXPECT_EQ(versioned, turn["tokens"].size());
    EXPECT_FALSE(turn["calls"].empty());
  }
  EXPECT_EQ(episode["verdict"]["parts"].size(), 2u);
  EXPECT_EQ(episode["files"][0]["path"], "solution.c");
}

TEST(TurnJson, OfATurnThatIsShownInPartAllTokensCount) {
  v1::Turn turn;
  for (uint32_t i = 0; i < 40'000; ++i) {
    turn.add_ids(i), turn.add_logprobs(-0.25f);
    turn.add_observation_ids(i);
  }
  const Json json = TurnJson(turn, std::nullopt);
  EXPECT_EQ(json["tokens_total"], 40'000);
  EXPECT_EQ(json["tokens"].size(), 32'768u);
  EXPECT_EQ(json["logprob"], -10'000.0);
  EXPECT_TRUE(json["observation"].get<std::string>().ends_with("[cut]"));
}

TEST_F(RunApiTest, TagsAndNotesAreKeptBesideTheRunAndShownWithIt) {
  WriteSampleRun(folder_.path(), "noted", [] {
    SampleOptions options = SmallRun();
    options.steps = 1;
    return options;
  }());
  EXPECT_EQ(Get("/api/runs/noted")["tags"], Json::array());
  const auto post = [&](const std::string& body, int status) {
    HttpRequest request;
    request.method = "POST";
    request.path = "/api/runs/noted/notes";
    request.body = body;
    const HttpResponse response = api_.Answer(request);
    EXPECT_EQ(response.status, status) << response.body;
    return Json::parse(response.body);
  };
  const Json saved = post(R"({"tags": ["sweep", "best"], "note": "<b>lr</b> 1e-5"})", 200);
  EXPECT_EQ(saved["tags"], Json({"best", "sweep"}));
  for (const char* wrong : {"", "[]", R"({"tags": ["a b"], "note": ""})",
                            R"({"tags": [1], "note": ""})", R"({"tags": [], "note": 1})"}) {
    post(wrong, 400);
  }
  // Another server, or another process, reads the same.
  RunApi again({.folder = folder_.path()});
  const Json run = Json::parse(again.Get("/api/runs/noted").body);
  EXPECT_EQ(run["tags"], Json({"best", "sweep"}));
  EXPECT_EQ(run["note"], "<b>lr</b> 1e-5");
  const Json runs = Get("/api/runs");
  for (const Json& entry : runs["runs"]) {
    EXPECT_EQ(entry["tags"].size(), entry["name"] == "noted" ? 2u : 0u);
  }
  HttpRequest elsewhere;
  elsewhere.method = "POST";
  elsewhere.path = "/api/runs/noted/config";
  EXPECT_EQ(api_.Answer(elsewhere).status, 405);
}

TEST_F(RunApiTest, TranscriptsAreSearchedToTheLastEpisodeAndWhereTheTextStandsIsSaid) {
  const auto search = [&](const std::string& words) {
    std::vector<Json> found;
    uint64_t searched = 0;
    Json part;
    std::string from;
    do {
      part = Get("/api/runs/small/search?" + words + from);
      searched += part["searched"].get<uint64_t>();
      for (const Json& match : part["matches"]) found.push_back(match);
      from = "&before_seq=" + part["next"].dump();
    } while (!part["next"].is_null());
    EXPECT_EQ(part["left"], 0);
    return std::make_pair(found, searched);
  };
  const auto [all, searched] = search("text=INT%20F(int%20a");
  EXPECT_EQ(searched, 6u * 32 + 2 * 48) << "every episode";
  EXPECT_EQ(all.size(), searched) << "each writes that function, in whatever case one asks";
  EXPECT_EQ(all.front()["found"]["hit"], "int f(int a") << "as it stands there";
  uint64_t last = UINT64_MAX;
  for (const Json& match : all) {
    EXPECT_LT(match["seq"].get<uint64_t>(), last) << "the newest first, each once";
    last = match["seq"];
  }
  const auto [solved, of_solved] = search("text=int%20f&solved=true&purpose=eval");
  EXPECT_EQ(of_solved, solved.size());
  EXPECT_EQ(of_solved, Get("/api/runs/small/episodes?solved=true&purpose=eval")["total"]);
  EXPECT_TRUE(search("text=nowhere%20at%20all").first.empty());
  Get("/api/runs/small/search", 400);
  Get("/api/runs/small/search?text=" + std::string(201, 'a'), 400);
}

TEST(TranscriptTexts, HaveWhatAnAgentPrintedAndChanged) {
  v1::Trajectory trajectory;
  trajectory.mutable_log()->set_text("Traceback: no module named x");
  trajectory.mutable_log()->set_diff("+int f();");
  const std::map<std::string, std::string> texts = [&] {
    const auto all = TranscriptTexts(trajectory, std::nullopt);
    return std::map<std::string, std::string>(all.begin(), all.end());
  }();
  EXPECT_EQ(texts.at("what the agent printed"), "Traceback: no module named x");
  EXPECT_EQ(texts.at("what it changed"), "+int f();");
}

TEST_F(RunApiTest, WithoutTheModelIdsAreShown) {
  SampleOptions options = SmallRun();
  options.steps = 1;
  options.model = "";
  WriteSampleRun(folder_.path(), "ids", options);
  const Json episode = Get("/api/runs/ids/episodes/1/0");
  EXPECT_EQ(episode["text"], "ids");
  EXPECT_FALSE(episode["turn_list"][0]["tokens"].empty());
}

TEST_F(RunApiTest, ToolCallsAreSummedUpToTheLastEpisode) {
  Json tools;
  do {
    tools = Get("/api/runs/small/tools");
  } while (tools["complete"] == false);
  EXPECT_EQ(tools["episodes_read"], tools["episodes"]);
  uint64_t calls = 0, outcomes = 0, expected = 0;
  for (const Json& tool : tools["tools"]) {
    calls += tool["calls"].get<uint64_t>();
    for (const Json& count : tool["outcomes"]) outcomes += count.get<uint64_t>();
    EXPECT_GE(tool["wait"]["mean_ms"], tool["run"]["mean_ms"]);
  }
  const Json page2 = Get("/api/runs/small/episodes?limit=1000");
  for (const Json& row : page2["episodes"]) {
    expected += row["tool_calls"].get<uint64_t>();
  }
  EXPECT_EQ(calls, expected);
  EXPECT_EQ(outcomes, expected);
}

TEST_F(RunApiTest, TasksHaveTheirTrendAndState) {
  const Json tasks = Get("/api/runs/small/tasks?sort=worst&limit=1000");
  uint64_t scored = 0;
  for (const Json& task : tasks["tasks"]) {
    scored += task["scored"].get<uint64_t>();
    EXPECT_EQ(task["solved"] == 0, task["state"] == "unsolved");
  }
  EXPECT_EQ(scored, Get("/api/runs/small/episodes?purpose=train&scored=true")["total"]);
  EXPECT_LE(tasks["tasks"].front()["pass_rate"], tasks["tasks"].back()["pass_rate"]);
  EXPECT_EQ(Get("/api/runs/small/tasks?search=gcd-1&limit=1")["tasks"].size(), 1u);
}

TEST_F(RunApiTest, TheTimelineHasTurnsInOrderAndIsCutWhereThereIsTooMuch) {
  const Json timeline = Get("/api/runs/small/timeline?limit=20");
  EXPECT_EQ(timeline["cut"], true);
  ASSERT_FALSE(timeline["episodes"].empty());
  for (const Json& episode : timeline["episodes"]) {
    int64_t last = episode["started_ms"];
    for (const Json& turn : episode["turns"]) {
      EXPECT_LE(last, turn[0].get<int64_t>());
      EXPECT_LE(turn[0].get<int64_t>(), turn[1].get<int64_t>());
      last = turn[2];
    }
    EXPECT_LE(last, episode["finished_ms"].get<int64_t>());
  }
  const Json early = Get("/api/runs/small/timeline?from=1760000000000&to=1760000005000");
  for (const Json& episode : early["episodes"]) EXPECT_LE(episode["started_ms"], 1760000005000);
}

TEST_F(RunApiTest, FaultsAndConfigAreTold) {
  EXPECT_TRUE(Get("/api/runs/small/release").empty()) << "it releases nothing";
  EXPECT_TRUE(Get("/api/runs/small/guards").empty()) << "it serves nobody";
  const Json faults = Get("/api/runs/small/faults");
  EXPECT_TRUE(faults["warnings"].empty());
  ASSERT_EQ(faults["disagreements"].size(), 1u);
  EXPECT_EQ(faults["disagreements"][0]["scorer"], "proof");
  EXPECT_TRUE(faults["calls"].contains("retries"));
  uint64_t stale = 0;
  for (const Json& kind : faults["kinds"]) {
    EXPECT_TRUE(kind.contains("words") && kind.contains("failures")) << kind.dump();
    stale += kind["stale"].get<uint64_t>();
  }
  uint64_t by_cause = 0;
  for (const auto& [cause, n] : faults["counts"]["stale_by_cause"].items()) {
    by_cause += n.get<uint64_t>();
  }
  EXPECT_EQ(stale, by_cause) << "each stale episode has a kind";
  EXPECT_GT(stale, 0u);
  const Json config = Get("/api/runs/small/config");
  EXPECT_EQ(config["values"]["rollout.group_size"], 4);
  EXPECT_EQ(config["values"]["reward.weights.lint"], 0.1);
  EXPECT_EQ(config["error"], nullptr);
}

TEST_F(RunApiTest, AdminActionsNeedATokenEvenOnLoopback) {
  bool finished = false;
  RunApi api({.folder = folder_.path(), .finish = [&] { finished = true; }});
  HttpRequest request;
  request.method = "POST";
  request.path = "/api/admin/finish";
  EXPECT_EQ(api.Answer(request).status, 403);
  EXPECT_FALSE(finished);
  request.admin = true;
  EXPECT_EQ(api.Answer(request).status, 200);
  EXPECT_TRUE(finished);
  request.path = "/api/runs";
  EXPECT_EQ(api.Answer(request).status, 405);
}

TEST_F(RunApiTest, ADatabaseThatIsNoneIsAFailedAnswer) {
  std::filesystem::create_directories(folder_ / "broken");
  std::ofstream(folder_ / "broken/config.toml") << "x = \n";
  std::ofstream(folder_ / "broken/run.db")
      << "not a database, but long enough to be looked at as one";
  const HttpResponse response = api_.Get("/api/runs/broken");
  EXPECT_GE(response.status, 400);
  EXPECT_THAT(response.body, HasSubstr("run.db"));
  EXPECT_THAT(Get("/api/runs/broken/config")["error"].get<std::string>(),
              HasSubstr("config.toml:1"));
}

TEST(MetricsSeries, IsThinnedToItsBoundAndKeepsTheFirstAndTheNewest) {
  MetricsSeries series;
  for (int i = 0; i < 100'000; ++i) series.Add(i, {{"x", i}, {"y", 2.0 * i}});
  EXPECT_LE(series.rows(), MetricsSeries::kRowsMax + 1);
  EXPECT_GE(series.rows(), MetricsSeries::kRowsMax / 2);
  const auto json = series.ToJson(100, {});
  EXPECT_EQ(json["seen"], 100'000);
  EXPECT_EQ(json["time_ms"].size(), 100u);
  EXPECT_EQ(json["time_ms"].front(), 0);
  EXPECT_EQ(json["time_ms"].back(), 99'999);
  EXPECT_EQ(json["columns"]["y"].back(), 199'998);
  EXPECT_EQ(series.Newest()["x"], 99'999);
  EXPECT_FALSE(series.ToJson(10, {"y"})["columns"].contains("x"));
}

TEST(MetricsFile, FollowsAFileThatGrowsAndLeavesUnfinishedLines) {
  TemporaryDirectory folder;
  const std::string path = folder / "metrics.jsonl";
  MetricsFile file(path);
  ASSERT_TRUE(file.Update().ok());  // not there yet
  std::ofstream out(path);
  out << R"({"time_ms":1,"kind":"tick","steps":1})"
      << "\n"
      << R"({"time_ms":2,"kind":"ti)" << std::flush;
  ASSERT_TRUE(file.Update().ok());
  EXPECT_EQ(file.Series("tick").seen(), 1u);
  out << R"(ck","steps":2})"
      << "\nnot json\n"
      << R"({"time_ms":3,"kind":"warning","what":"w"})"
      << "\n"
      << std::flush;
  ASSERT_TRUE(file.Update().ok());
  EXPECT_EQ(file.Series("tick").seen(), 2u);
  EXPECT_EQ(file.bad_lines(), 1u);
  EXPECT_EQ(file.warnings(), 1u);
  std::ofstream(path) << R"({"time_ms":9,"kind":"tick","steps":9})"
                      << "\n";
  ASSERT_TRUE(file.Update().ok());
  EXPECT_EQ(file.Series("tick").seen(), 1u);
  EXPECT_EQ(file.Series("tick").Newest()["steps"], 9);
}

TEST(RunGauges, AreTextPrometheusReads) {
  TemporaryDirectory folder;
  const std::string path = folder / "metrics.jsonl";
  std::ofstream(path)
      << R"({"time_ms":1,"kind":"tick","steps":3,"busy_port_engine":0.5,"depth_tools.grade":2})"
      << "\n"
      << R"({"time_ms":1,"kind":"step","step":2,"lag_hist_0":10,"lag_hist_8+":1})"
      << "\n"
      << R"({"time_ms":1,"kind":"step","step":3,"loss":0.5,"lag_hist_0":2,"lag_hist_8+":4})"
      << "\n";
  MetricsFile file(path);
  ASSERT_TRUE(file.Update().ok());
  CounterTable about;
  about["steps"] = {
      .key = "steps", .metric = "", .help = "Learner steps", .kind = Counter::Kind::kRunTotal};
  const std::string text = RunGauges("a\"b", file, about);
  EXPECT_THAT(text, HasSubstr("# HELP tidemill_run_steps Learner steps\n"
                              "# TYPE tidemill_run_steps counter\n"
                              "tidemill_run_steps{run=\"a\\\"b\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("kind=\"port\",name=\"engine\"} 0.5\n"));
  EXPECT_THAT(text, HasSubstr("tidemill_queue_depth{run=\"a\\\"b\",topic=\"tools.grade\"} 2\n"));
  // One histogram over the steps, not a gauge for each bucket.
  EXPECT_THAT(text, HasSubstr("# TYPE tidemill_run_lag_steps histogram\n"));
  EXPECT_THAT(text, HasSubstr("tidemill_run_lag_steps_bucket{run=\"a\\\"b\",le=\"0\"} 12\n"));
  EXPECT_THAT(text, HasSubstr("tidemill_run_lag_steps_bucket{run=\"a\\\"b\",le=\"+Inf\"} 17\n"));
  EXPECT_THAT(text, HasSubstr("tidemill_run_lag_steps_sum{run=\"a\\\"b\"} 40\n"));
  EXPECT_THAT(text, Not(HasSubstr("_hist_")));
  // Every family says what it is.
  std::istringstream lines(text);
  std::string described;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("# HELP ", 0) == 0) {
      described = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_GT(line.size(), 8 + described.size()) << line;
    } else if (line.rfind("# TYPE ", 0) != 0) {
      EXPECT_EQ(line.rfind(described, 0), 0u) << line;
    }
  }
}

TEST(RunEvents, TellsNewLinesOnceAndWhatWasMissedAfterAReconnect) {
  TemporaryDirectory folder;
  SampleOptions options = SmallRun();
  options.finished = false;
  SampleRun run(folder.path(), "live", options);
  run.WriteStep();
  RunEvents events({.folder = folder.path(), .poll_every = std::chrono::hours(1)});
  const auto text = [](EventStream& stream) {
    std::string all;
    for (const auto& frame : stream.Take()) all += *frame;
    return all;
  };
  HttpRequest request;
  request.query["run"] = "live";
  auto first = std::make_shared<EventStream>(1 << 20, [] {});
  ASSERT_TRUE(events.Open(request, first).ok());
  const std::string hello = text(*first);
  EXPECT_THAT(hello, HasSubstr("event: hello"));
  EXPECT_THAT(hello, HasSubstr("\"state\":\"running\""));
  EXPECT_THAT(hello, Not(HasSubstr("event: tick")));
  run.Warn("something");
  events.Poll();
  const std::string news = text(*first);
  EXPECT_THAT(news, HasSubstr("event: warning"));
  events.Poll();
  EXPECT_EQ(text(*first), "");
  // Another that had read up to the hello gets the warning as well; one far behind is told so.
  const std::string id =
      hello.substr(hello.find("id: ") + 4, hello.find("\ndata") - hello.find("id: ") - 4);
  request.last_event_id = id;
  auto second = std::make_shared<EventStream>(1 << 20, [] {});
  ASSERT_TRUE(events.Open(request, second).ok());
  EXPECT_THAT(text(*second), HasSubstr("event: warning"));
  request.last_event_id = "999999999";
  auto third = std::make_shared<EventStream>(1 << 20, [] {});
  ASSERT_TRUE(events.Open(request, third).ok());
  EXPECT_THAT(text(*third), HasSubstr("event: reset"));
  request.query["run"] = "../etc";
  EXPECT_EQ(events.Open(request, third).code(), Code::kInvalid);
}

TEST(WilsonShare, AgreesWithTheTable) {
  // 8 of 10: 0.49 to 0.94 (Newcombe 1998, method 3).
  const Share share = WilsonShare(8, 10);
  EXPECT_DOUBLE_EQ(share.rate, 0.8);
  EXPECT_NEAR(share.low, 0.4902, 1e-3);
  EXPECT_NEAR(share.high, 0.9433, 1e-3);
}

TEST(PageFiles, OnlyWhatIsInTheFolderIsServed) {
  TemporaryDirectory folder;
  std::filesystem::create_directories(folder / "assets");
  std::ofstream(folder / "index.html")
      << "<html><head><link rel=\"stylesheet\" crossorigin href=\"/assets/a.css\">"
         "<script type=\"module\" crossorigin "
         "src=\"/assets/a.js\"></script></head><body></body></html>";
  std::ofstream(folder / "assets/a.js") << "let x = '</script>';";
  std::ofstream(folder / "assets/a.css") << "body{}";
  const auto page = PageFiles::Read(folder.path());
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  HttpRequest request;
  request.method = "GET";
  request.path = "/assets/a.js";
  EXPECT_EQ(page->Answer(request).content_type, "text/javascript; charset=utf-8");
  request.path = "/../../etc/passwd";
  EXPECT_EQ(page->Answer(request).status, 404);
  const auto document =
      page->ExportDocument("{\"/api/x\":{\"text\":\"</script><script>alert(1)\"}}");
  ASSERT_TRUE(document.ok()) << document.status().ToString();
  EXPECT_THAT(*document, HasSubstr("<style>body{}</style>"));
  EXPECT_THAT(*document, HasSubstr("let x = '\\x3c/script>';"));
  EXPECT_THAT(*document, HasSubstr("\\u003c/script>\\u003cscript>alert(1)"));
  EXPECT_EQ(PageFiles::Read(folder / "none").status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace tidemill
