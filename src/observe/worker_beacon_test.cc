// A worker's beacon on a Redis of the test's own: in the roster, on its port, gone when it goes.
#include "observe/worker_beacon.h"

#include <gmock/gmock.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "bus/redis/redis_roster.h"
#include "observe/run_status.h"
#include "testing/http_client.h"
#include "testing/redis_test_kit.h"

namespace tidemill {
namespace {

using testing::HasSubstr;
using testing::Not;

class BeaconTest : public testing::Test {
 protected:
  WorkerBeaconOptions Options(const std::string& worker = "tools-host-1") {
    WorkerBeaconOptions options;
    options.url = server_.url();
    options.run = "test";
    options.role = "tools";
    options.worker = worker;
    options.metrics = &metrics_;
    options.report = [] {
      WorkerReport report;
      report.doing = "2 calls";
      report.policy_version = 7;
      report.counts = {{"tool_retries", 3}, {"stale", 1}};
      return report;
    };
    return options;
  }
  std::unique_ptr<WorkerBeacon> Start(WorkerBeaconOptions options) {
    auto beacon = WorkerBeacon::Start(std::move(options));
    EXPECT_TRUE(beacon.ok()) << beacon.status().ToString();
    return beacon.ok() ? std::move(*beacon) : nullptr;
  }
  static std::string Get(const WorkerBeacon& beacon, const std::string& path,
                         const std::string& headers = "") {
    const std::string url = beacon.url();
    RawClient client(static_cast<uint16_t>(std::stoi(url.substr(url.rfind(':') + 1))));
    client.Get(path, headers);
    return client.ReadAnswer();
  }
  RunStatus Status() {
    auto reader = RunStatusReader::Connect(server_.url());
    EXPECT_TRUE(reader.ok());
    auto status = reader->Read("test");
    EXPECT_TRUE(status.ok()) << status.status().ToString();
    return status.ok() ? std::move(*status) : RunStatus();
  }

  RedisTestServer server_;
  std::unique_ptr<RedisBus> bus_ = Connect(server_);
  Metrics metrics_;
};

TEST_F(BeaconTest, AWorkerIsInTheStatusWhileItLives) {
  auto beacon = Start(Options());
  const RunStatus status = Status();
  ASSERT_EQ(status.workers.size(), 1u);
  EXPECT_EQ(status.workers[0].beat.doing(), "2 calls");
  EXPECT_EQ(status.workers[0].beat.endpoint(), beacon->url());
  EXPECT_EQ(status.policy_version, 7u);
  EXPECT_EQ(status.failures.at("retries"), 3);
  const auto json = StatusJson(status);
  EXPECT_EQ(json["workers"][0]["state"], "here");
  EXPECT_EQ(json["workers"][0]["pid"], getpid());
  EXPECT_EQ(json["stale"], 1);
  EXPECT_THAT(StatusText(status, RealClock().WallMs()), HasSubstr("tools-host-1"));
  beacon.reset();
  EXPECT_TRUE(Status().workers.empty());
  EXPECT_EQ(Status().failures.at("retries"), 3) << "what it did stays";
}

TEST_F(BeaconTest, AHeartbeatSaysHowFastItsWorkIsDoneAndWhatIsStuck) {
  std::atomic<int> calls = 0;
  std::atomic<bool> stuck = false;
  WorkerBeaconOptions options = Options();
  options.stuck = [&] { return stuck ? "the loop hangs" : ""; };
  options.report = [&] {
    WorkerReport report;
    report.doing = "2 calls";
    report.counts = {{"calls", calls += 1000}};
    report.rate_of = "calls";
    return report;
  };
  const auto beacon = Start(std::move(options));
  EXPECT_TRUE(Eventually([&] { return Status().workers.at(0).beat.rate() > 0; }));
  const RunStatus status = Status();
  const v1::Heartbeat& beat = status.workers.at(0).beat;
  EXPECT_EQ(beat.rate_of(), "calls");
  EXPECT_LT(beat.rate(), 1000) << "heartbeats come every two seconds";
  EXPECT_THAT(StatusText(status, RealClock().WallMs()), HasSubstr("calls/s"));
  stuck = true;
  EXPECT_TRUE(Eventually([&] { return Status().workers.at(0).beat.doing() == "the loop hangs"; }));
}

TEST_F(BeaconTest, ServesMetricsWithTheLabelsOfTheWorker) {
  metrics_.Counter("tidemill_something_total", "Things").Increment();
  const auto beacon = Start(Options());
  const std::string answer = Get(*beacon, "/metrics");
  EXPECT_EQ(StatusOf(answer), 200);
  EXPECT_THAT(answer, HasSubstr("tidemill_something_total{"));
  EXPECT_THAT(answer, HasSubstr("run=\"test\""));
  EXPECT_THAT(answer, HasSubstr("worker=\"tools-host-1\""));
  EXPECT_THAT(answer, HasSubstr("process_resident_memory_bytes{"));
  EXPECT_THAT(answer, Not(HasSubstr("tidemill_topic_ready")));
  EXPECT_EQ(StatusOf(Get(*beacon, "/elsewhere")), 404);
}

TEST_F(BeaconTest, AWorkerThatWatchesTheRunServesItsTopicsAndWorkers) {
  ASSERT_TRUE(bus_->Open("tools.compile", {}).ok());
  ASSERT_TRUE(bus_->Publish("tools.compile", "x").ok());
  ASSERT_TRUE(bus_->Flush(kPatience).ok());
  WorkerBeaconOptions options = Options();
  options.watch_run = true;
  const auto beacon = Start(std::move(options));
  std::string answer = Get(*beacon, "/metrics");
  EXPECT_THAT(answer,
              testing::ContainsRegex("tidemill_topic_ready\\{topic=\"tools.compile\".*\\} 1"));
  EXPECT_THAT(answer,
              testing::ContainsRegex("tidemill_workers\\{of_role=\"tools\",state=\"here\".*\\} 1"));
  EXPECT_THAT(answer, testing::ContainsRegex("tidemill_tool_backlog\\{.*\\} 1"));
  EXPECT_THAT(answer, testing::ContainsRegex("tidemill_broker_up\\{.*\\} 1"));
  server_.Stop(SIGKILL);
  answer = Get(*beacon, "/metrics");
  EXPECT_THAT(answer, testing::ContainsRegex("tidemill_broker_up\\{.*\\} 0"));
  server_.Start();
}

TEST_F(BeaconTest, HealthAndReadinessSayWhatIsWrong) {
  std::atomic<bool> stuck = false, loading = false;
  WorkerBeaconOptions options = Options();
  options.stuck = [&] { return stuck ? "the loop hangs" : ""; };
  options.not_ready = [&] { return loading ? "weights are loading" : ""; };
  const auto beacon = Start(std::move(options));
  EXPECT_EQ(StatusOf(Get(*beacon, "/healthz")), 200);
  EXPECT_EQ(StatusOf(Get(*beacon, "/readyz")), 200);
  stuck = loading = true;
  EXPECT_EQ(StatusOf(Get(*beacon, "/healthz")), 503);
  EXPECT_THAT(Get(*beacon, "/healthz"), HasSubstr("the loop hangs"));
  EXPECT_THAT(Get(*beacon, "/readyz"), HasSubstr("weights are loading"));
  stuck = loading = false;
  beacon->Leaving();
  EXPECT_EQ(StatusOf(Get(*beacon, "/healthz")), 200);
  EXPECT_THAT(Get(*beacon, "/readyz"), HasSubstr("leaving"));
  EXPECT_TRUE(Eventually([&] { return Status().workers.at(0).beat.leaving(); }));
}

TEST_F(BeaconTest, WithoutRedisItIsAliveButNotReady) {
  const auto beacon = Start(Options());
  server_.Stop(SIGKILL);
  EXPECT_TRUE(Eventually([&] { return StatusOf(Get(*beacon, "/readyz")) == 503; }));
  EXPECT_EQ(StatusOf(Get(*beacon, "/healthz")), 200);
  server_.Start();
  EXPECT_TRUE(Eventually([&] { return StatusOf(Get(*beacon, "/readyz")) == 200; }));
}

TEST_F(BeaconTest, AskingForMetricsNeedsTheTokenAndHealthDoesNot) {
  WorkerBeaconOptions options = Options();
  options.tokens = {"a-token-of-sixteen-letters"};
  const auto beacon = Start(std::move(options));
  EXPECT_EQ(StatusOf(Get(*beacon, "/metrics")), 401);
  EXPECT_EQ(
      StatusOf(Get(*beacon, "/metrics", "Authorization: Bearer a-token-of-sixteen-letters\r\n")),
      200);
  EXPECT_EQ(StatusOf(Get(*beacon, "/readyz")), 200);
}

TEST_F(BeaconTest, IsRefusedWhereItCannotWork) {
  WorkerBeaconOptions outside = Options();
  outside.address = "0.0.0.0";
  EXPECT_EQ(WorkerBeacon::Start(outside).status().code(), Code::kInvalid) << "no token";
  const auto first = Start(Options());
  const std::string url = first->url();
  WorkerBeaconOptions taken = Options("tools-host-2");
  taken.port = static_cast<uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
  EXPECT_EQ(WorkerBeacon::Start(taken).status().code(), Code::kUnavailable);

  auto roster = RedisRoster::Connect(server_.url(), "test");
  v1::Heartbeat newer;
  newer.set_worker("tools-newer");
  newer.set_messages(99);
  ASSERT_TRUE(roster->Beat(newer).ok());
  const auto refused = WorkerBeacon::Start(Options("tools-host-3"));
  EXPECT_EQ(refused.status().code(), Code::kInvalid);
  EXPECT_THAT(refused.status().message(), HasSubstr("tools-newer"));
}

}  // namespace
}  // namespace tidemill
