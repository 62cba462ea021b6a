// The fleet as the API tells it, from a Redis of the test's own.
#include "dashboard/fleet_view.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "bus/redis/redis_roster.h"
#include "core/topics.h"
#include "dashboard/run_api.h"
#include "testing/redis_test_kit.h"
#include "testing/sample/sample_run.h"
#include "testing/test_folders.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

class FleetViewTest : public testing::Test {
 protected:
  FleetViewTest() {
    SampleOptions options;
    options.steps = 1;
    options.model = SourceDir() + "/tests/golden/qwen3-tiny";
    WriteSampleRun(folder_.path(), "test", options);
    WriteSampleRun(folder_.path(), "alone", options);
  }

  void Beat(const std::string& role, int number,
            const std::function<void(v1::Heartbeat&)>& change = {}) {
    v1::Heartbeat beat;
    beat.set_worker(role + "-host" + std::to_string(number % 7) + "-" + std::to_string(number));
    beat.set_role(role);
    beat.set_host("host" + std::to_string(number % 7));
    beat.set_pid(number);
    beat.set_started_ms(1000);
    beat.set_doing("2 calls");
    beat.set_busy(0.5);
    beat.set_rate(10);
    beat.set_rate_of("calls");
    (*beat.mutable_numbers())["calls"] = 100;
    if (change) change(beat);
    ASSERT_TRUE(Eventually([&] { return roster_->Beat(beat).ok(); }));  // also after a restart
  }
  // As if its last heartbeat were so long ago.
  void Age(const std::string& worker, Duration age) {
    const auto ms = RealClock().WallMs() - std::chrono::duration_cast<milliseconds>(age).count();
    (void)server_.Do({"ZADD", RedisKeys("test").Workers(), std::to_string(ms), worker});
  }
  Json Get(RunApi& api, const std::string& target, int status = 200) {
    const HttpResponse response = api.Get(target);
    EXPECT_EQ(response.status, status) << target << ": " << response.body.substr(0, 300);
    return Json::parse(response.body);
  }
  Json Fleet(const std::string& query = "") {
    RunApi api(
        {.folder = folder_.path(), .bus_url = server_.url()});  // nothing is kept from before
    return Get(api, "/api/runs/test/fleet" + query);
  }
  static std::vector<std::string> Names(const Json& fleet) {
    std::vector<std::string> names;
    for (const Json& worker : fleet["workers"]) names.push_back(worker["worker"]);
    return names;
  }

  RedisTestServer server_;
  std::unique_ptr<RedisBus> bus_ = Connect(server_);
  std::unique_ptr<RedisRoster> roster_ =
      std::make_unique<RedisRoster>(RedisRoster::Connect(server_.url(), "test").value());
  TemporaryDirectory folder_;
};

TEST_F(FleetViewTest, ARunOfOneProcessHasNoFleet) {
  RunApi without({.folder = folder_.path()});
  const Json none = Get(without, "/api/runs/alone/fleet");
  EXPECT_EQ(none["state"], "none");
  EXPECT_EQ(none["many"], false);
  EXPECT_FALSE(none.contains("workers"));
  RunApi with({.folder = folder_.path(), .bus_url = server_.url()});
  const Json absent = Get(with, "/api/runs/alone/fleet");
  EXPECT_EQ(absent["state"], "absent");
  EXPECT_EQ(absent["many"], false);
  Get(with, "/api/runs/nobody/fleet", 404);
}

TEST_F(FleetViewTest, ShowsEveryWorkerAsStatusDoes) {
  Beat("tools", 12);
  Beat("rollout", 11, [](v1::Heartbeat& beat) {
    beat.set_policy_version(7);
    beat.set_rate(200);
    beat.set_rate_of("tokens");
  });
  Beat("rollout", 10, [](v1::Heartbeat& beat) {
    beat.set_policy_version(9);
    beat.set_busy(1);
    beat.set_rate(400);
    beat.set_rate_of("tokens");
    beat.set_leaving(true);
  });
  const Json fleet = Fleet();
  EXPECT_EQ(fleet["state"], "here");
  EXPECT_EQ(fleet["many"], true);
  EXPECT_EQ(fleet["policy_version"], 9);
  EXPECT_EQ(fleet["lag_max"], 2);
  EXPECT_EQ(Names(fleet),
            (std::vector<std::string>{"rollout-host3-10", "rollout-host4-11", "tools-host5-12"}));
  const Json& roles = fleet["roles"];
  ASSERT_EQ(roles.size(), 2u);
  EXPECT_EQ(roles[0]["role"], "rollout");
  EXPECT_EQ(roles[0]["here"], 1);
  EXPECT_EQ(roles[0]["leaving"], 1);
  EXPECT_EQ(roles[0]["busy"], 0.75);
  EXPECT_EQ(roles[0]["rate"], 600);
  EXPECT_EQ(roles[0]["rate_of"], "tokens");

  auto reader = RunStatusReader::Connect(server_.url());
  const auto status = reader->Read("test");
  ASSERT_TRUE(status.ok());
  Json told = Json::parse(StatusJson(*status).dump());
  for (size_t i = 0; i < 3; ++i) {  // but for the moment at which each looked
    Json mine = fleet["workers"][i];
    EXPECT_GE(mine["beat_age_s"], 0);
    mine.erase("beat_age_s");
    told["workers"][i].erase("beat_age_s");
    EXPECT_EQ(mine, told["workers"][i]);
  }
  EXPECT_THAT(StatusText(*status, 5000), HasSubstr("400 tokens/s"));
}

TEST_F(FleetViewTest, AWorkerThatIsNotHeardIsLostAndItsWorkNotCounted) {
  Beat("tools", 1);
  Beat("tools", 2);
  Age("tools-host2-2", std::chrono::seconds(25));
  const Json fleet = Fleet();
  EXPECT_EQ(fleet["lost_workers"], 1);
  EXPECT_EQ(fleet["workers"][0]["state"], "here");
  EXPECT_EQ(fleet["workers"][1]["state"], "lost");
  EXPECT_GT(fleet["workers"][1]["beat_age_s"], 20);
  EXPECT_EQ(fleet["roles"][0]["here"], 1);
  EXPECT_EQ(fleet["roles"][0]["lost"], 1);
  EXPECT_EQ(fleet["roles"][0]["rate"], 10);
  EXPECT_EQ(Names(Fleet("?state=lost")), std::vector<std::string>{"tools-host2-2"});
  EXPECT_EQ(Names(Fleet("?state=here")), std::vector<std::string>{"tools-host1-1"});
  EXPECT_EQ(Names(Fleet("?sort=silent"))[0], "tools-host2-2");
}

TEST_F(FleetViewTest, WorkersAreFilteredAndOrdered) {
  Beat("tools", 1, [](v1::Heartbeat& beat) { beat.set_busy(0.9); });
  Beat("tools", 2, [](v1::Heartbeat& beat) { beat.set_busy(0.1); });
  Beat("rollout", 3, [](v1::Heartbeat& beat) { beat.set_policy_version(9); });
  Beat("rollout", 4, [](v1::Heartbeat& beat) { beat.set_policy_version(5); });
  EXPECT_EQ(Fleet("?role=tools")["total"], 2);
  EXPECT_EQ(Names(Fleet("?search=host2")), std::vector<std::string>{"tools-host2-2"});
  EXPECT_EQ(Names(Fleet("?sort=idle"))[0], "tools-host2-2");
  EXPECT_EQ(Names(Fleet("?sort=lag"))[0], "rollout-host4-4");
  EXPECT_EQ(Fleet("?role=tools")["roles"].size(), 2u) << "figures are of all";
  RunApi api({.folder = folder_.path(), .bus_url = server_.url()});
  for (const char* wrong : {"limit=0", "limit=501", "state=gone", "sort=name", "offset=x"}) {
    Get(api, std::string("/api/runs/test/fleet?") + wrong, 400);
  }
}

TEST_F(FleetViewTest, AThousandWorkersComeInPages) {
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(bus_->Open(InboxTopic("w" + std::to_string(i), "rollout"), {}).ok());
  }
  ASSERT_TRUE(bus_->Open(kScoreTopic, {}).ok());
  ASSERT_TRUE(bus_->Flush(kPatience).ok());
  for (int i = 0; i < 1000; ++i) {
    Beat(i % 2 == 0 ? "rollout" : "tools", i, [](v1::Heartbeat& beat) {
      for (int n = 0; n < 60; ++n) (*beat.mutable_numbers())["number_" + std::to_string(n)] = n;
    });
  }
  // On a slow machine the first would be too old by now to be here.
  constexpr std::string_view kHeardNow =
      "for _, worker in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do "
      "redis.call('ZADD', KEYS[1], ARGV[1], worker) end";
  (void)server_.Do(
      {"EVAL", kHeardNow, "1", RedisKeys("test").Workers(), std::to_string(RealClock().WallMs())});
  RunApi api({.folder = folder_.path(), .bus_url = server_.url()});
  const HttpResponse response = api.Get("/api/runs/test/fleet");
  EXPECT_LT(response.body.size(), 200'000u);
  const Json fleet = Json::parse(response.body);
  EXPECT_EQ(fleet["total"], 1000);
  EXPECT_EQ(fleet["workers"].size(), 100u);
  EXPECT_EQ(fleet["roles"][0]["here"], 500);
  EXPECT_LE(fleet["topics"].size(), 3u) << fleet["topics"].dump();
  std::set<std::string> seen;
  for (int offset = 0; offset < 1000; offset += 300) {
    const Json page = Get(api, "/api/runs/test/fleet?limit=300&offset=" + std::to_string(offset));
    for (const std::string& name : Names(page)) seen.insert(name);
  }
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_TRUE(Get(api, "/api/runs/test/fleet?offset=5000")["workers"].empty());
}

TEST_F(FleetViewTest, WhileRedisIsAwayWhatWasKnownIsShownAsSuch) {
  Beat("tools", 1);
  RunApi api({.folder = folder_.path(), .bus_url = server_.url()});
  const Json before = Get(api, "/api/runs/test/fleet");
  server_.Stop(SIGKILL);
  Json away;
  EXPECT_TRUE(Eventually([&] {
    away = Get(api, "/api/runs/test/fleet");
    return away["state"] == "silent";
  }));
  EXPECT_THAT(away["error"].get<std::string>(), HasSubstr("redis"));
  EXPECT_EQ(away["read_ms"], before["read_ms"]);
  EXPECT_EQ(Names(away), Names(before));
  server_.Start();
  Beat("tools", 2);
  EXPECT_TRUE(Eventually([&] { return Get(api, "/api/runs/test/fleet")["state"] == "here"; }));
}

}  // namespace
}  // namespace tidemill
