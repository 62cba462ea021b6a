// A run that trains and serves its dashboard meanwhile, through the program itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "testing/http_client.h"
#include "testing/test_folders.h"
#include "tests/program.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kToken = "a-token-for-this-test";

class DashboardTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    char name[] = "/tmp/tidemill-dashboard-XXXXXX";
    folder_ = mkdtemp(name);
    MustRun("tasks generate --family cfunc --count 20 --seed 3 --difficulty 1 --out " + folder_ +
            "/train.jsonl");
    MakeTinyModel(folder_);
    std::ofstream(folder_ + "/tokens") << "# one a line\n\n" << kToken << "\n";
  }
  static void TearDownTestSuite() { fs::remove_all(folder_); }

  static std::string Train(const std::string& name, const std::string& more) {
    return "--log-level warn train --set run.folder=" + folder_ + "/runs --set run.name=" + name +
           " --set model.path=" + folder_ +
           "/model --set model.protocol=compact --set tasks.train=" + folder_ +
           "/train.jsonl --set rollout.group_size=4 --set rollout.groups_per_step=2" +
           " --set rollout.max_turn_tokens=8 --set rollout.max_turns=2 --set "
           "rollout.max_in_flight=16 --set replay.drop_zero_variance=false " +
           more;
  }

  inline static std::string folder_;
};

// The port of the address it tells. 0: it ended, or tells none.
uint16_t PortOf(BackgroundProgram& program) {
  static const std::regex kAddress("dashboard: http://127.0.0.1:(\\d+)/");
  std::smatch match;
  std::string said;
  const auto told = [&] {
    said = program.Log();
    return std::regex_search(said, match, kAddress);
  };
  Eventually([&] { return told() || program.Ended(); }, std::chrono::minutes(1));
  return match.empty() ? 0 : static_cast<uint16_t>(std::stoi(match[1]));
}

std::string Ask(uint16_t port, const std::string& target, const std::string& method = "GET") {
  RawClient client(port);
  client.Send(method + " " + target + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " +
              kToken + "\r\nContent-Length: 0\r\n\r\n");
  return client.ReadAnswer();
}

std::set<std::string> NamesIn(const std::string& text) {
  std::set<std::string> names;
  const std::regex name("\\btidemill_[a-z0-9_]+");
  for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it)
    names.insert(it->str());
  return names;
}

TEST_F(DashboardTest, ATakenPortKeepsNoRunFromTraining) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(fd, reinterpret_cast<struct sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  getsockname(fd, reinterpret_cast<struct sockaddr*>(&address), &size);
  const std::string port = std::to_string(ntohs(address.sin_port));
  ProcessOutput result =
      RunTidemill(Train("taken", "--set run.steps=1 --set dashboard.port=" + port));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("the dashboard's port is taken; using a free one"));
  EXPECT_THAT(result.output, HasSubstr("dashboard: http://127.0.0.1:"));
  EXPECT_THAT(result.output, Not(HasSubstr("dashboard: http://127.0.0.1:" + port + "/")));
  result = RunTidemill(Train(
      "none", "--set run.steps=1 --set dashboard.if_taken=none --set dashboard.port=" + port));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("training continues without the dashboard"));
  EXPECT_THAT(result.output, Not(HasSubstr("dashboard: http")));
  close(fd);
}

TEST_F(DashboardTest, OutsideLoopbackWithoutATokenNothingStarts) {
  ProcessOutput result = RunTidemill(Train("open", "--set dashboard.host=0.0.0.0"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("dashboard.token_file"));
  std::ofstream(folder_ + "/short") << "abc\n";
  result = RunTidemill(Train(
      "open", "--set dashboard.host=0.0.0.0 --set dashboard.token_file=" + folder_ + "/short"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("/short:1: "));
  EXPECT_FALSE(fs::exists(folder_ + "/runs/open"));
  EXPECT_EQ(RunTidemill("view --folder " + folder_ + "/runs --host 0.0.0.0 --port 0").exit_code, 2);
}

TEST_F(DashboardTest, ALiveRunServesWhatGrafanaAsksForAndIsFinishedByAnAction) {
  BackgroundProgram run(
      Train("live",
            "--set run.steps=100000 --set run.minutes=3 --set dashboard.port=0 --set "
            "dashboard.token_file=" +
                folder_ + "/tokens"),
      {folder_ + "/live.log"});
  const uint16_t port = PortOf(run);
  ASSERT_NE(port, 0) << run.Log();
  EXPECT_EQ(StatusOf(Ask(port, "/readyz")), 200);
  const std::string dashboard = TextOf(SourceDir() + "/deploy/grafana-dashboard.json");
  ASSERT_TRUE(json::parse(dashboard, nullptr, false).is_object());
  const std::set<std::string> wanted = NamesIn(dashboard);
  EXPECT_GT(wanted.size(), 10u);
  // Those of steps are there once there was one.
  std::set<std::string> missing;
  const auto all_served = [&] {
    const std::set<std::string> served = NamesIn(BodyOf(Ask(port, "/metrics")));
    missing.clear();
    std::set_difference(wanted.begin(), wanted.end(), served.begin(), served.end(),
                        std::inserter(missing, missing.end()));
    return missing.empty();
  };
  EXPECT_TRUE(Eventually(all_served, std::chrono::minutes(1))) << testing::PrintToString(missing);
  EXPECT_EQ(json::parse(BodyOf(Ask(port, "/api/runs/live")))["state"], "running");
  EXPECT_EQ(StatusOf(Ask(port, "/api/admin/finish", "POST")), 200);
  EXPECT_EQ(run.Wait(), 0) << run.Log();
  EXPECT_THAT(run.Log(), HasSubstr("run live: done"));

  // TensorBoard's file, read by a program that shares no code with its writer.
  const ProcessOutput read =
      RunProcess({"sh", "-c",
                  SourceDir() + "/scripts/read_tfevents.py " + folder_ +
                      "/runs/live/tensorboard/* > " + folder_ + "/events.json"},
                 std::chrono::seconds(60));
  ASSERT_EQ(read.exit_code, 0) << read.output;
  const json events = json::parse(TextOf(folder_ + "/events.json"), nullptr, false);
  ASSERT_TRUE(events.is_array());
  const json summary = json::parse(TextOf(folder_ + "/runs/live/summary.json"));
  ASSERT_EQ(events.size(), 1 + summary["steps"].get<size_t>());
  for (size_t i = 1; i < events.size(); ++i) {
    EXPECT_EQ(events[i]["step"], i);
    EXPECT_TRUE(events[i]["scalars"].contains("step/reward"));
  }
  EXPECT_TRUE(events.back()["scalars"].contains("run/busy_port_engine"));
}

TEST_F(DashboardTest, AFinishedRunIsWrittenAsOneFile) {
  MustRun(Train("short", "--no-web --set run.steps=2"));
  const std::string report = folder_ + "/report.html";
  if (!fs::exists(BinaryDir() + "/web/index.html")) GTEST_SKIP() << "the page was not built";
  MustRun("view " + folder_ + "/runs/short --export " + report);
  const std::string html = TextOf(report);
  EXPECT_THAT(html, HasSubstr("tidemill-export"));
  EXPECT_THAT(html, HasSubstr("/api/runs/short/timeline"));
  EXPECT_THAT(html, Not(HasSubstr(" src=")));
  const ProcessOutput none = RunTidemill("view nothing --folder " + folder_ + "/runs");
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.output, HasSubstr("nothing"));
}

}  // namespace
}  // namespace tidemill
