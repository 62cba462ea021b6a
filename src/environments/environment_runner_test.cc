// Episodes over real sockets: a scripted environment, the gateway, and everything that may go wrong
// between them.
#include "environments/environment_runner.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>
#include <map>
#include <set>

#include "core/mutex.h"
#include "core/random.h"
#include "gateway/plain_recorder.h"
#include "http/http_server.h"
#include "rollout/episode.h"
#include "testing/agent_fixture.h"

namespace tidemill {
namespace {

// A NeMo-Gym resources server; what it answers is up to the test.
class ScriptedGym {
 public:
  using Script = std::function<void(const HttpRequest&, std::unique_ptr<HttpReply>)>;

  explicit ScriptedGym(Script script) : script_(std::move(script)) {
    HttpOptions options;
    options.own_access = true;
    options.give_way = false;
    options.connections_max = options.pending_max = 8192;
    options.idle_timeout = options.request_timeout = std::chrono::minutes(5);
    HttpHandlers handlers;
    handlers.route = [](const HttpRequest&) { return HttpRoute{.serve = true}; };
    handlers.serve = [this](HttpRequest request, std::unique_ptr<HttpReply> reply) {
      script_(request, std::move(reply));
    };
    handlers.answer = [](const HttpRequest&) { return HttpResponse(); };
    server_ = std::move(HttpServer::Start(options, std::move(handlers))).value();
  }
  HttpUrl url() const {
    std::string url = server_->url();
    url.pop_back();
    return ParseHttpUrl(url).value();
  }

 private:
  const Script script_;
  std::unique_ptr<HttpServer> server_;
};

void Reply(HttpReply& reply, const std::string& body, int status = 200) {
  HttpResponse response;
  response.status = status;
  response.body = body;
  reply.Send(std::move(response));
}

class EnvironmentRunnerTest : public AgentTest {
 protected:
  EnvironmentRunnerTest() { episodes_ = 4096; }
  void TearDown() override {
    environments_.reset();
    gym_.reset();
  }

  void Open(ScriptedGym::Script script, size_t slots = 64,
            Duration timeout = std::chrono::seconds(60)) {
    Serve("It is cold.");
    gym_ = std::make_unique<ScriptedGym>(std::move(script));
    EnvironmentRunnerOptions options;
    options.environments.push_back({.name = "gym",
                                    .standard = StandardNamed("nemo-gym"),
                                    .mode = "",
                                    .urls = {gym_->url()},
                                    .command = {},
                                    .slots = slots,
                                    .timeout = timeout});
    auto made =
        EnvironmentRunner::Create(std::move(options), server_->gateway(), *recorder_, clock_);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    environments_ = std::move(*made);
    environments_->events().Attach(waker_);
  }

  void StartEpisode(uint64_t tag) {
    auto group = std::make_shared<EpisodeGroup>();
    group->lease = lease_;
    group->lease.set_group(tag);
    const EnvironmentJson row = {{"responses_create_params", {{"input", "weather?"}}},
                                 {"tag", tag}};
    group->lease.mutable_task()->mutable_environment()->set_row_json(row.dump());
    environments_->Start({group, 0}, tag);
  }
  std::map<uint64_t, AgentOutcome> Await(size_t count) {
    std::map<uint64_t, AgentOutcome> all;
    for (int idle = 0; idle < 10 && all.size() < count; ++idle) {
      std::vector<AgentDone> done = environments_->events().TakeAll();
      if (done.empty()) waker_.Await();
      for (AgentDone& one : done) {
        EXPECT_TRUE(all.emplace(one.tag, std::move(one.outcome)).second) << "told twice";
        idle = 0;
      }
    }
    EXPECT_EQ(all.size(), count);
    return all;
  }

  std::unique_ptr<ScriptedGym> gym_;
  std::unique_ptr<EnvironmentRunner> environments_;
};

TEST_F(EnvironmentRunnerTest, AnEpisodeIsASessionWithTheDrawnTokensAndTheReward) {
  Open([](const HttpRequest& request, std::unique_ptr<HttpReply> reply) {
    if (request.path == "/seed_session") return Reply(*reply, "{}");
    const auto body = EnvironmentJson::parse(request.body);
    const std::string said = body["response"]["output"][0]["content"][0]["text"];
    Reply(*reply, said == "It is cold." ? R"({"reward": 0.5})" : R"({"reward": -1})");
  });
  StartEpisode(1);
  const auto all = Await(1);
  const AgentOutcome& outcome = all.at(1);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  EXPECT_EQ(outcome.end, v1::EPISODE_END_SUBMITTED);
  ASSERT_TRUE(outcome.reward.has_value());
  EXPECT_EQ(outcome.reward->parts(0).value(), 0.5);
  ASSERT_EQ(outcome.branches.size(), 1u);
  ASSERT_EQ(outcome.branches[0].turns_size(), 1);
  EXPECT_EQ(TextOf(outcome.branches[0].turns(0).ids()), "It is cold.<|im_end|>");
  EXPECT_EQ(environments_->counts().ended, 1u);
}

TEST_F(EnvironmentRunnerTest, AFullServerIsWaitedForAndASilentOneIsATimeout) {
  std::atomic<int> refused{0};
  Mutex mutex;
  std::vector<std::unique_ptr<HttpReply>> held;
  Open(
      [&](const HttpRequest& request, std::unique_ptr<HttpReply> reply) {
        const bool silent = EnvironmentJson::parse(request.body)["tag"] == 2;
        if (silent) {
          const MutexLock lock(mutex);
          return held.push_back(std::move(reply));
        }
        if (refused++ < 2) return Reply(*reply, "full", 503);
        Reply(*reply, R"({"reward": 1})");
      },
      64, milliseconds(700));
  StartEpisode(1);
  StartEpisode(2);
  const auto all = Await(2);
  EXPECT_TRUE(all.at(1).status.ok()) << all.at(1).status.ToString();
  EXPECT_EQ(all.at(2).failure, Failure::kTimeout);
  EXPECT_FALSE(all.at(2).status.ok());
  EXPECT_EQ(environments_->counts().waited, 2u);
}

// Whatever a server does at random, every episode has one outcome, and a reward is one that the
// verifier gave.
TEST_F(EnvironmentRunnerTest, FaultsAreNeverARewardOfZero) {
  constexpr uint64_t kEpisodes = 300;
  std::atomic<uint64_t> asked{0};
  Open([&](const HttpRequest& request, std::unique_ptr<HttpReply> reply) {
    Random random(++asked);
    const uint64_t tag = EnvironmentJson::parse(request.body)["tag"];
    switch (random.Below(12)) {
      case 0:
        return Reply(*reply, "{\"detail\": \"broken\"}", 500);
      case 1:
        return Reply(*reply, "\x01garbage{{{");
      case 2:
        return Reply(*reply, "busy", 503);
      case 3:
        return Reply(*reply, R"({"reward": null})");
      case 4:
        return Reply(*reply, R"({"reward": 0, "mask_sample": true})");
      default:
        break;
    }
    Reply(*reply, request.path == "/verify" ? "{\"reward\": " + std::to_string(tag) + "}" : "{}");
  });
  for (uint64_t tag = 1; tag <= kEpisodes; ++tag) StartEpisode(tag);
  std::map<Failure, int> failures;
  int paid = 0;
  for (const auto& [tag, outcome] : Await(kEpisodes)) {
    if (!outcome.status.ok()) {
      ++failures[outcome.failure];
      EXPECT_FALSE(outcome.reward.has_value());
      continue;
    }
    ++paid;
    ASSERT_TRUE(outcome.reward.has_value());
    ASSERT_EQ(outcome.reward->parts_size(), 1);
    EXPECT_EQ(outcome.reward->parts(0).value(), static_cast<double>(tag));
    ASSERT_EQ(outcome.branches.size(), 1u);
  }
  EXPECT_GT(paid, 0);
  EXPECT_GT(failures[Failure::kEnvironment], 0);
  EXPECT_GT(failures[Failure::kVerifier], 0);
  EXPECT_GT(failures[Failure::kMasked], 0);
  EXPECT_EQ(failures[Failure::kCapacity], 0) << "full servers are waited for";
}

TEST_F(EnvironmentRunnerTest, ACancelledEpisodeIsOverOnceWhereverItStands) {
  Mutex mutex;
  std::vector<std::unique_ptr<HttpReply>> held;
  Open(
      [&](const HttpRequest&, std::unique_ptr<HttpReply> reply) {
        const MutexLock lock(mutex);
        held.push_back(std::move(reply));
      },
      1);
  StartEpisode(1);
  StartEpisode(2);
  environments_->Cancel(2);
  environments_->Cancel(1);
  for (const auto& [tag, outcome] : Await(2)) EXPECT_FALSE(outcome.status.ok()) << tag;
}

TEST_F(EnvironmentRunnerTest, WaitingEpisodesCostMemoryAndNoThreads) {
  const auto threads = [] {
    std::ifstream status("/proc/self/status");
    std::string word;
    while (status >> word) {
      if (word == "Threads:") break;
    }
    int count = 0;
    status >> count;
    return count;
  };
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const size_t count = std::min<size_t>(2000, (files.rlim_max - 200) / 2);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  Mutex mutex;
  CondVar arrived;
  std::vector<std::unique_ptr<HttpReply>> held;
  bool open = false;
  Open(
      [&](const HttpRequest& request, std::unique_ptr<HttpReply> reply) {
        const MutexLock lock(mutex);
        if (open) return Reply(*reply, request.path == "/verify" ? R"({"reward": 1})" : "{}");
        held.push_back(std::move(reply));
        arrived.NotifyAll();
      },
      count);
  const int before = threads();
  for (uint64_t tag = 1; tag <= count; ++tag) StartEpisode(tag);
  {
    MutexLock lock(mutex);
    (void)arrived.WaitFor(lock, std::chrono::minutes(1), [&] { return held.size() == count; });
    ASSERT_EQ(held.size(), count);
    EXPECT_EQ(threads(), before);
    open = true;
    for (auto& reply : held) Reply(*reply, "{}");
  }
  for (const auto& [tag, outcome] : Await(count)) {
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  }
}

}  // namespace
}  // namespace tidemill
