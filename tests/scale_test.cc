// tidemill scale with a real Redis and real tool workers: load comes, workers come; load goes,
// workers leave; no request is lost. And what a person sees of it: status, dead letters.
#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "bus/standard_topics.h"
#include "core/topics.h"
#include "core/version.h"
#include "proto/tidemill.pb.h"
#include "testing/http_client.h"
#include "testing/redis_test_kit.h"
#include "tests/program.h"

namespace tidemill {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class ScaleTest : public testing::Test {
 protected:
  static constexpr const char* kInbox = "inbox.test.reward";

  void SetUp() override {
    ASSERT_TRUE(OpenStandardTopics(*bus_, {}).ok());
    ASSERT_TRUE(bus_->Open(kInbox, {.lease = kHour}).ok());
    // What a learner would have written: without it, workers wait for one.
    server_.Do({"SET", "{test}:sheet",
                R"({"run":"test","program":"","messages":)" + std::to_string(kMessagesVersion) +
                    R"(,"host":"h","shm_domain":"d","pid":1,"version":1,"incarnation":1,)"
                    R"("shm":"","weights_folder":"/nowhere","config":""})"});
  }

  ProcessOutput Tidemill(const std::string& words) {
    return RunTidemill(words + " --bus " + server_.url(), "2>/dev/null");
  }
  std::string Scale(const std::string& more) {
    return "--log-level warn scale --bus " + server_.url() + " --run test " + more;
  }
  BackgroundProgram::Files Log() const { return {directory_ / "log"}; }
  json Status() {
    const ProcessOutput output = Tidemill("status --run test --json");
    EXPECT_EQ(output.exit_code, 0) << output.output;
    json status = json::parse(output.output, nullptr, false);
    EXPECT_TRUE(status.is_object()) << output.output;
    return status;
  }
  // Workers of a role that take work.
  size_t Here(const std::string& role) {
    const json status = Status();
    return std::count_if(status["workers"].begin(), status["workers"].end(),
                         [&](const json& w) { return w["role"] == role && w["state"] == "here"; });
  }

  // A grading that takes `seconds` and hardly any CPU.
  void Ask(int number, const char* seconds) {
    v1::ToolRequest request;
    request.set_request_id("request-" + std::to_string(number));
    request.set_tool("grade");
    request.set_arguments_json("{}");
    request.set_reply_to(kInbox);
    v1::TrajectoryId& episode = *request.mutable_episode();
    episode.set_task("test"), episode.set_group(1), episode.set_attempt(1);
    v1::Grading& grading = *request.mutable_grading();
    for (const char* word : {"/bin/sh", "-c", "true"}) grading.add_build(word);
    grading.add_run("/bin/sh");
    grading.add_run("-c");
    grading.add_run(std::string("sleep ") + seconds + "; cat");
    grading.set_mode(v1::Grading::MODE_LINES);
    v1::TestCase& test = *grading.add_cases();
    test.set_name("echo");
    test.set_input(std::to_string(number));
    test.set_expected(std::to_string(number));
    ASSERT_TRUE(bus_->PublishRequest(kToolsGradeTopic, kInbox, request.SerializeAsString()).ok());
  }
  // Takes what was answered.
  void TakeAnswers() {
    auto leases = bus_->Receive(kInbox, 100);
    ASSERT_TRUE(leases.ok());
    for (const Lease& lease : *leases) {
      v1::ToolResult result;
      ASSERT_TRUE(result.ParseFromString(lease.body));
      EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.cause();
      EXPECT_EQ(result.tests_passed(), 1u);
      answered_.insert(result.request_id());
      ASSERT_TRUE(bus_->Ack(lease).ok());
    }
  }

  TemporaryDirectory directory_;
  RedisTestServer server_;
  std::unique_ptr<RedisBus> bus_ = Connect(server_);
  std::set<std::string> answered_;
};

TEST_F(ScaleTest, WorkersFollowTheLoadAndNoRequestIsLost) {
  BackgroundProgram scaler(Scale("--min 1 --max 3 --cool-down-s 2 --target-wait-ms 200 "
                                 "--set tools.slots=1 --set tools.cache=0"),
                           Log());
  ASSERT_TRUE(Eventually([&] { return Here("tools") == 1; }));
  // As many wait as make three workers worth it, for as long as it takes to start them.
  size_t asked = 0;
  EXPECT_TRUE(Eventually([&] {
    TakeAnswers();
    while (asked < answered_.size() + 20) Ask(static_cast<int>(asked++), "0.3");
    return Here("tools") == 3;
  }));
  EXPECT_TRUE(Eventually([&] {
    TakeAnswers();
    return answered_.size() == asked;
  })) << answered_.size();
  EXPECT_TRUE(Eventually([&] { return Here("tools") == 1; })) << "nothing waits any more";
  json status = Status();
  EXPECT_EQ(status["dead_letters"], 0);
  EXPECT_EQ(status["tool_backlog"], 0);
  EXPECT_EQ(status["lost_workers"], 0);

  // While the last worker runs a tool it is told to leave: it finishes and answers first.
  Ask(static_cast<int>(asked), "3");
  ASSERT_TRUE(Eventually([&] {
    const auto depth = bus_->Depth(kToolsGradeTopic);
    return depth.ok() && depth->leased == 1;
  }));
  EXPECT_EQ(scaler.Stop(SIGTERM), 0) << scaler.Log();
  EXPECT_TRUE(Eventually([&] {
    TakeAnswers();
    return answered_.size() == asked + 1;
  }));
  EXPECT_TRUE(Status()["workers"].empty()) << "all left in order";
}

TEST_F(ScaleTest, AdviceIsAMetricAndStartsNobody) {
  BackgroundProgram adviser(Scale("--backend none --max 5"), Log());
  for (int i = 0; i < 10; ++i) Ask(i, "0.1");
  std::string port;
  ASSERT_TRUE(Eventually([&] {
    const json status = Status();
    for (const json& worker : status["workers"]) {
      const std::string url = worker["endpoint"];
      port = url.substr(url.rfind(':') + 1);
    }
    return !port.empty();
  }));
  EXPECT_TRUE(Eventually([&] {
    RawClient client(static_cast<uint16_t>(std::stoi(port)));
    client.Get("/metrics");
    const std::string metrics = client.ReadAnswer();
    return metrics.find("tidemill_tool_backlog{") != std::string::npos &&
           testing::Value(metrics,
                          testing::ContainsRegex("tidemill_scale_wanted_workers\\{.*\\} 5"));
  }));
  EXPECT_EQ(Here("tools"), 0u);
  EXPECT_EQ(adviser.Stop(SIGTERM), 0) << adviser.Log();
}

TEST_F(ScaleTest, AKilledWorkerIsShownAsLostAndReplaced) {
  BackgroundProgram scaler(Scale("--min 1 --max 2 --set tools.slots=1"), Log());
  json first;
  ASSERT_TRUE(Eventually([&] {
    const json status = Status();
    for (const json& worker : status["workers"]) {
      if (worker["role"] == "tools") first = worker;
    }
    return !first.is_null();
  }));
  kill(first["pid"].get<pid_t>(), SIGKILL);
  EXPECT_TRUE(Eventually([&] { return Status()["lost_workers"] == 1; }));
  EXPECT_TRUE(Eventually([&] { return Here("tools") == 1; }));
  EXPECT_EQ(scaler.Stop(SIGTERM), 0) << scaler.Log();
}

TEST_F(ScaleTest, DeadLettersAreListedShownRetriedAndDropped) {
  ASSERT_TRUE(bus_->Publish(kToolsCompileTopic, "\xff\xff not a message").ok());
  v1::ToolRequest request;
  request.set_request_id("42");
  request.set_tool("compile");
  ASSERT_TRUE(bus_->Publish(kToolsCompileTopic, request.SerializeAsString()).ok());
  for (const Lease& lease : Take(*bus_, kToolsCompileTopic, 2)) {
    ASSERT_TRUE(bus_->Reject(lease, "not a ToolRequest with a request_id and a reply_to").ok());
  }
  ASSERT_TRUE(bus_->Flush(kPatience).ok());
  const json list = json::parse(Tidemill("dead list --run test --json").output);
  ASSERT_EQ(list["letters"].size(), 2u);
  std::string good;
  for (const json& letter : list["letters"]) {
    EXPECT_EQ(letter["topic"], "tools.compile");
    EXPECT_EQ(letter["deliveries"], 1);
    const std::string id = letter["id"];
    const json shown = json::parse(Tidemill("dead show --run test --json " + id).output);
    if (shown["letters"][0].contains("body")) good = id;
    if (good == id) {
      EXPECT_EQ(shown["letters"][0]["body"]["request_id"], "42");
    }
  }
  ASSERT_FALSE(good.empty());
  EXPECT_EQ(Status()["dead_letters"], 2);
  EXPECT_EQ(Tidemill("dead retry --run test " + good).exit_code, 0);
  EXPECT_EQ(Take(*bus_, kToolsCompileTopic, 1).at(0).body, request.SerializeAsString());
  EXPECT_EQ(Tidemill("dead retry --run test " + good).exit_code, 1) << "it is gone";
  EXPECT_EQ(Tidemill("dead drop --run test").exit_code, 2) << "which?";
  EXPECT_THAT(Tidemill("dead drop --run test --all").output, HasSubstr("1 dropped"));
  EXPECT_EQ(Status()["dead_letters"], 0);
}

TEST_F(ScaleTest, StatusNamesTheRunsThereAreAndSaysWhenNobodyAnswers) {
  const ProcessOutput missing = RunTidemill("status --bus " + server_.url() + " --run tset");
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.output, HasSubstr("no run \"tset\"; its runs are: test"));
  const std::string url = server_.url();
  server_.Stop();
  const ProcessOutput away = RunTidemill("status --bus " + url);
  EXPECT_EQ(away.exit_code, 1);
  EXPECT_THAT(away.output, HasSubstr("Connection refused"));
  const ProcessOutput tls = RunTidemill("status --bus 'rediss://host/0?ca'");
  EXPECT_EQ(tls.exit_code, 2);
  EXPECT_THAT(tls.output, HasSubstr("ca, cert and key name files"));
}

}  // namespace
}  // namespace tidemill
