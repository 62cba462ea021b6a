// Episodes over real sockets: a scripted environment, the gateway, and everything that may go wrong
// between them.
#include "environments/environment_runner.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "core/mutex.h"
#include "gateway/plain_recorder.h"
#include "rollout/episode.h"
#include "testing/agent_fixture.h"
#include "testing/scripted_gym.h"

namespace tidemill {
namespace {

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

  void OpenCommand(std::vector<std::string> command, const std::string& log_folder,
                   size_t servers) {
    Serve("It is cold.");
    EnvironmentRunnerOptions options;
    options.log_folder = log_folder;
    options.environments.push_back({.name = "gym",
                                    .standard = StandardNamed("nemo-gym"),
                                    .mode = "",
                                    .urls = {},
                                    .command = std::move(command),
                                    .servers = servers});
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

  // A server may still be asked when the body of a test is over.
  Mutex mutex_;
  CondVar arrived_;
  std::vector<std::unique_ptr<HttpReply>> held_ TM_GUARDED_BY(mutex_);
  bool open_ TM_GUARDED_BY(mutex_) = false;
  std::atomic<int> asked_{0};
  std::unique_ptr<ScriptedGym> gym_;
  std::unique_ptr<EnvironmentRunner> environments_;
};

TEST_F(EnvironmentRunnerTest, AnEpisodeIsASessionWithTheDrawnTokensAndTheReward) {
  Open([](const HttpRequest& request, std::unique_ptr<HttpReply> reply) {
    if (request.path == "/seed_session") return ReplyTo(*reply, "{}");
    const auto body = EnvironmentJson::parse(request.body);
    const std::string said = body["response"]["output"][0]["content"][0]["text"];
    ReplyTo(*reply, said == "It is cold." ? R"({"reward": 0.5})" : R"({"reward": -1})");
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
  Open(
      [this](const HttpRequest& request, std::unique_ptr<HttpReply> reply) {
        const bool silent = EnvironmentJson::parse(request.body)["tag"] == 2;
        if (silent) {
          const MutexLock lock(mutex_);
          return held_.push_back(std::move(reply));
        }
        if (asked_++ < 2) return ReplyTo(*reply, "full", 503);
        ReplyTo(*reply, R"({"reward": 1})");
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

TEST_F(EnvironmentRunnerTest, ACancelledEpisodeIsOverOnceWhereverItStands) {
  Open(
      [this](const HttpRequest&, std::unique_ptr<HttpReply> reply) {
        const MutexLock lock(mutex_);
        held_.push_back(std::move(reply));
      },
      1);
  StartEpisode(1);
  StartEpisode(2);
  environments_->Cancel(2);
  environments_->Cancel(1);
  for (const auto& [tag, outcome] : Await(2)) EXPECT_FALSE(outcome.status.ok()) << tag;
}

// Of the process, from /proc/self/status.
int64_t ProcessFigure(const std::string& name) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word == name + ":") break;
  }
  int64_t value = 0;
  status >> value;
  return value;
}

double CpuSeconds() {
  timespec spent{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
  return static_cast<double>(spent.tv_sec) + static_cast<double>(spent.tv_nsec) / 1e9;
}

// The gateway and the environment are in the same process. TIDEMILL_WAIT_SECONDS: how long they
// wait while their CPU time is measured.
TEST_F(EnvironmentRunnerTest, WaitingEpisodesCostMemoryAndNoThreads) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const size_t count = std::min<size_t>(2000, (files.rlim_max - 200) / 2);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  Open(
      [this](const HttpRequest& request, std::unique_ptr<HttpReply> reply) {
        const MutexLock lock(mutex_);
        if (open_) return ReplyTo(*reply, request.path == "/verify" ? R"({"reward": 1})" : "{}");
        held_.push_back(std::move(reply));
        arrived_.NotifyAll();
      },
      count);
  const int64_t threads = ProcessFigure("Threads"), memory_kb = ProcessFigure("VmRSS");
  for (uint64_t tag = 1; tag <= count; ++tag) StartEpisode(tag);
  {
    MutexLock lock(mutex_);
    (void)arrived_.WaitFor(lock, std::chrono::minutes(1),
                           [&]() TM_REQUIRES(mutex_) { return held_.size() == count; });
    ASSERT_EQ(held_.size(), count);
    EXPECT_EQ(ProcessFigure("Threads"), threads);
    const int64_t grown_kb = ProcessFigure("VmRSS") - memory_kb;
    EXPECT_LT(grown_kb, 200 * 1024);
    if (const char* seconds = std::getenv("TIDEMILL_WAIT_SECONDS")) {
      const double before = CpuSeconds();
      (void)arrived_.WaitFor(lock, std::chrono::seconds(std::stoi(seconds)), [] { return false; });
      std::printf("%zu episodes wait: %lld MB, %.3f s of CPU in %s s\n", count,
                  static_cast<long long>(grown_kb / 1024), CpuSeconds() - before, seconds);
    }
    open_ = true;
    for (auto& reply : held_) ReplyTo(*reply, "{}");
  }
  for (const auto& [tag, outcome] : Await(count)) {
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  }
}

// A resources server in Python: `words` run at each request, with its path in `path`, and its port.
std::vector<std::string> PythonGym(const std::string& words) {
  return {"/usr/bin/python3", "-c",
          "import http.server, os, sys, time\n"
          "port = int(sys.argv[1])\n"
          "class Gym(http.server.BaseHTTPRequestHandler):\n"
          "    def do_POST(self):\n"
          "        self.rfile.read(int(self.headers['Content-Length']))\n"
          "        path = self.path\n"
          "        " +
              words +
              "\n"
              "        body = b'{\"reward\": 1}'\n"
              "        self.send_response(200)\n"
              "        self.send_header('Content-Length', str(len(body)))\n"
              "        self.end_headers()\n"
              "        self.wfile.write(body)\n"
              "    def log_message(self, *words): pass\n"
              "http.server.ThreadingHTTPServer(('127.0.0.1', port), Gym).serve_forever()\n",
          "{port}"};
}

TEST_F(EnvironmentRunnerTest, AnotherServerIsStartedWhileEpisodesWait) {
  const TemporaryDirectory place;
  const std::string seen = place.path() + "/seen-";
  // Nobody is answered before two servers were asked.
  OpenCommand(PythonGym("open('" + seen +
                        "%d' % port, 'w'); [time.sleep(0.01) for _ in iter("
                        "lambda: len([x for x in os.listdir('" +
                        place.path() + "') if x.startswith('seen-')]) < 2, False)]"),
              place.path(), 2);
  StartEpisode(1);
  StartEpisode(2);
  for (const auto& [tag, outcome] : Await(2)) {
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  }
}

TEST_F(EnvironmentRunnerTest, AServerThatDiesIsReplacedAndItsEpisodeWaits) {
  const TemporaryDirectory place;
  const std::string mark = place.path() + "/died";
  OpenCommand(PythonGym("os.path.exists('" + mark + "') or (open('" + mark +
                        "', 'w').close(), os._exit(3))"),
              place.path(), 1);
  StartEpisode(1);
  const auto all = Await(1);
  EXPECT_TRUE(all.at(1).status.ok()) << all.at(1).status.ToString();
  EXPECT_GT(environments_->counts().waited, 0u);
  EXPECT_EQ(environments_->counts().failed, 0u);
}

}  // namespace
}  // namespace tidemill
