// A run that learns from the sessions it serves, and is killed while clients use it.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "core/hash.h"
#include "core/mutex.h"
#include "core/random.h"
#include "store/case_reader.h"
#include "store/run_db.h"
#include "store/session_reader.h"
#include "store/sqlite.h"
#include "testing/golden_models.h"
#include "testing/test_folders.h"
#include "testing/test_kit.h"
#include "tests/line_fixture.h"

namespace tidemill {
namespace {

using Body = nlohmann::json;

// The answer to a POST; none: the server is away, or died before it answered.
std::optional<Body> Post(int port, const std::string& path, const Body& body,
                         const std::string& header = {}) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  const timeval patience{20, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    const std::string text = body.dump();
    const std::string request =
        "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + header +
        "Content-Length: " + std::to_string(text.size()) + "\r\n\r\n" + text;
    if (send(fd, request.data(), request.size(), MSG_NOSIGNAL) ==
        static_cast<ssize_t>(request.size())) {
      char part[4096];
      for (ssize_t n; (n = recv(fd, part, sizeof part, 0)) > 0;) {
        answer.append(part, static_cast<size_t>(n));
      }
    }
  }
  close(fd);
  const size_t at = answer.find("\r\n\r\n");
  if (answer.rfind("HTTP/1.1 200", 0) != 0 || at == std::string::npos) return std::nullopt;
  Body json = Body::parse(answer.substr(at + 4), nullptr, false);
  if (!json.is_object()) return std::nullopt;
  return json;
}

// People who ask, and say what they think of the answers, until they are told to stop.
class Crowd {
 public:
  explicit Crowd(int port) : port_(port) {
    for (uint64_t who = 0; who < 4; ++who) {
      threads_.emplace_back([this, who] { Use(who); });
    }
  }
  ~Crowd() { Leave(); }
  void Leave() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  // Whether so many answers and signals came.
  bool Had(size_t answers_min, size_t signals_min) const {
    MutexLock lock(mutex_);
    return answers.size() >= answers_min && signals.size() >= signals_min;
  }

  // Read them when all have left.
  std::set<std::string> answers;          // whose end a client saw
  std::map<std::string, double> signals;  // that were acknowledged, by answer

 private:
  void Use(uint64_t who) {
    Random random(MixHash(77, who));
    for (uint64_t session = 0; !stop_; ++session) {
      const std::string name = "c" + std::to_string(who) + "-" + std::to_string(session);
      const uint64_t turns = 1 + random.Below(2);
      for (uint64_t turn = 0; turn < turns && !stop_; ++turn) {
        const auto answer = Post(port_, "/s/" + name + "/v1/completions",
                                 {{"model", "m"}, {"prompt", "int f" + name}, {"max_tokens", 6}});
        MutexLock lock(mutex_);
        if (!answer) {
          std::this_thread::sleep_for(milliseconds(20));  // the server is being started
          continue;
        }
        ids_[who] = answer->at("id");
        answers.insert(ids_[who]);
      }
      if (ids_[who].empty()) continue;
      const double score = static_cast<double>(random.Below(5)) / 2 - 1;
      const auto said =
          Post(port_, "/v1/feedback", {{"id", ids_[who]}, {"score", score}, {"end", true}});
      MutexLock lock(mutex_);
      if (said) signals[ids_[who]] = score;
      ids_[who].clear();
    }
  }

  const int port_;
  std::atomic<bool> stop_{false};
  mutable Mutex mutex_;
  std::array<std::string, 4> ids_;
  std::vector<std::thread> threads_;
};

class LiveRunTest : public LineTest {
 protected:
  static std::string Words(const std::string& name, int port) {
    return Train(name,
                 "--set tasks.train= --set live.on=true --set live.batch=4 --set "
                 "live.compare_min=2 --set live.idle=2s --set run.steps=1000000 --set "
                 "learner.checkpoint_every_steps=3 --set staleness.hard_max_steps=50 --set "
                 "gateway.port=" +
                     std::to_string(port));
  }
  static std::string IdOf(const std::string& answer) {
    return "req_" + answer.substr(answer.find('-') + 1);
  }
  // Whether a step that counts used a trajectory.
  static bool Trained(const std::string& name) {
    Database::Options options;
    options.mode = Database::Mode::kRead;
    auto raw = Database::Open(folder_ + "/runs/" + name + "/run.db", options);
    if (!raw.ok()) return false;
    const auto uses = (*raw)->Integer("SELECT count(*) FROM uses WHERE abandoned = 0");
    return uses.ok() && *uses > 0;
  }
  // No acknowledged turn or signal is lost, none is in two trajectories, none was used twice.
  static void CheckRun(const std::string& name, const Crowd& crowd) {
    const std::string path = folder_ + "/runs/" + name + "/run.db";
    auto reader = SessionReader::Open(path).value();
    const auto rows = reader->List({}, 1'000'000).value();
    std::map<std::string, std::pair<uint64_t, uint32_t>> stored;
    for (const SessionRow& row : rows) {
      const StoredSession session = reader->Read(row.session.number()).value();
      EXPECT_TRUE(session.damage.empty()) << session.damage;
      for (const v1::SessionTurn& turn : session.turns) {
        EXPECT_TRUE(
            stored.emplace(turn.request_id(), std::pair(turn.session(), turn.turn())).second);
      }
    }
    for (const std::string& answer : crowd.answers) EXPECT_TRUE(stored.contains(IdOf(answer)));
    RealClock clock;
    auto db = RunDb::Open(path, clock).value();
    const LiveState state = db->LoadLive(1'000'000).value();
    std::map<std::pair<uint64_t, uint32_t>, double> said;
    for (const v1::Signal& signal : state.signals) {
      said[{signal.session(), signal.turn()}] = signal.score();
    }
    for (const auto& [answer, score] : crowd.signals) {
      const auto it = said.find(stored.at(IdOf(answer)));
      ASSERT_TRUE(it != said.end()) << "the signal on " << answer << " was lost";
      EXPECT_EQ(it->second, score);
    }
    std::set<std::pair<uint64_t, uint32_t>> in_trajectories;
    for (const StoredLive& live : state.trajectories) {
      for (const v1::Turn& turn : live.trajectory.turns()) {
        EXPECT_TRUE(in_trajectories.emplace(live.session.number(), turn.session_turn()).second)
            << "turn " << turn.session_turn() << " of session " << live.session.number()
            << " is in two trajectories";
      }
    }
    Database::Options options;
    options.mode = Database::Mode::kRead;
    auto raw = Database::Open(path, options).value();
    EXPECT_EQ(
        raw->Integer("SELECT count(*) FROM (SELECT seq FROM uses WHERE abandoned = 0 GROUP BY "
                     "seq HAVING count(*) > 1)")
            .value(),
        0);
    EXPECT_EQ(raw->Integer("SELECT count(*) FROM trajectories WHERE uses > 1").value(), 0);
  }
};

// TIDEMILL_KILLS: how often.
TEST_F(LiveRunTest, KilledUnderLoadItLosesNoAcknowledgedTurnAndTrainsNoneTwice) {
  const char* wanted = std::getenv("TIDEMILL_KILLS");
  const int kills = wanted != nullptr ? std::atoi(wanted) : 3;
  const int port = FreePort();
  const std::string log = folder_ + "/log";
  Random random(5);
  auto program = std::make_unique<BackgroundProgram>(
      Words("killed", port), BackgroundProgram::Files{log, folder_ + "/out"});
  Crowd crowd(port);
  const std::string again =
      "--log-level warn train --json --no-web --resume " + folder_ + "/runs/killed";
  for (int kill = 0; kill < kills; ++kill) {
    ASSERT_TRUE(Eventually([&] { return Listens(port); }, 2 * kPatience)) << TextOf(log);
    std::this_thread::sleep_for(milliseconds(100 + random.Below(1500)));
    EXPECT_EQ(program->Stop(SIGKILL), 128 + SIGKILL);
    program =
        std::make_unique<BackgroundProgram>(again, BackgroundProgram::Files{log, folder_ + "/out"});
  }
  ASSERT_TRUE(Eventually([&] { return Listens(port); }, 2 * kPatience)) << TextOf(log);
  EXPECT_TRUE(Eventually([&] { return crowd.Had(11, 4) && Trained("killed"); }, 4 * kPatience))
      << TextOf(log);
  crowd.Leave();
  EXPECT_EQ(program->Stop(SIGTERM), 130) << TextOf(log);
  CheckRun("killed", crowd);
}

// A client of the gateway with a key.
struct KeyedClient {
  int port = 0;
  std::string key;

  std::string Header() const { return "Authorization: Bearer " + key + "\r\n"; }
  // A new session with one question; its answer, or nothing.
  std::optional<Body> Ask(const std::string& question) const {
    return Post(port, "/v1/chat/completions",
                {{"model", "m"},
                 {"max_tokens", 8},
                 {"messages", {{{"role", "user"}, {"content", question}}}}},
                Header());
  }
  bool Like(const Body& answer) const {
    return Post(port, "/v1/feedback", {{"id", answer.at("id")}, {"thumb", "up"}, {"end", true}},
                Header())
        .has_value();
  }
  // Tokens of the prompt that a new session gets for the question.
  int PromptTokens(const std::string& question) const {
    const auto answer = Ask(question);
    return answer ? answer->at("/usage/prompt_tokens"_json_pointer).get<int>() : -1;
  }
};

// Two tenants ask the same. What one liked is shown to its own later sessions alone, also after the
// process was killed, and to nobody once it is deleted.
TEST_F(LiveRunTest, SessionsOfATenantAreShownItsOwnCasesAndNobodyElses) {
  const int port = FreePort();
  const KeyedClient ann{port, "key-of-ann"}, bob{port, "key-of-bob"}, eve{port, "key-of-eve"};
  std::ofstream(folder_ + "/keys.txt")
      << "sha256:" << Sha256Hex(ann.key) << " tenant=ann consent=train\n"
      << "sha256:" << Sha256Hex(bob.key) << " tenant=bob consent=train\n"
      << "sha256:" << Sha256Hex(eve.key) << " tenant=eve consent=store\n";
  const std::string run = folder_ + "/runs/tenants", log = folder_ + "/tenants.log";
  const auto start = [&](const std::string& words) {
    return std::make_unique<BackgroundProgram>(
        words, BackgroundProgram::Files{log, folder_ + "/tenants.out"});
  };
  auto program = start(
      Train("tenants", "--set model.path=" + GoldenRoot(SourceDir()) +
                           "/qwen3-tiny --set model.protocol=hermes --set tasks.train= --set "
                           "live.on=true --set memory.on=true --set memory.retrieval=lexical --set "
                           "run.steps=1000000 --set gateway.keys=" +
                           folder_ + "/keys.txt --set gateway.port=" + std::to_string(port)));
  ASSERT_TRUE(Eventually([&] { return Listens(port); }, 2 * kPatience)) << TextOf(log);
  const std::string question = "where is it?";
  const int plain = bob.PromptTokens(question);
  ASSERT_GT(plain, 0) << TextOf(log);
  const auto cases = [&] { return ReadCases(run + "/run.db").value(); };
  // A model that learned nothing may say nothing; then ann asks again.
  ASSERT_TRUE(Eventually(
      [&] {
        const auto answer = ann.Ask(question);
        return answer && ann.Like(*answer) && !cases().empty();
      },
      2 * kPatience))
      << TextOf(log);
  EXPECT_EQ(cases()[0].record.tenant(), "ann");
  EXPECT_EQ(cases()[0].record.prompt(), question);
  ASSERT_TRUE(Eventually([&] { return ann.PromptTokens(question) > plain; })) << TextOf(log);
  EXPECT_EQ(bob.PromptTokens(question), plain);
  EXPECT_EQ(eve.PromptTokens(question), plain);

  EXPECT_EQ(program->Stop(SIGKILL), 128 + SIGKILL);
  const auto before = cases();
  program = start("--log-level warn train --json --no-web --resume " + run);
  ASSERT_TRUE(Eventually([&] { return Listens(port); }, 2 * kPatience)) << TextOf(log);
  ASSERT_TRUE(Eventually([&] { return ann.PromptTokens(question) > plain; })) << TextOf(log);
  EXPECT_EQ(bob.PromptTokens(question), plain);
  const auto after = cases();
  ASSERT_GE(after.size(), before.size());
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(after[i].record.SerializeAsString(), before[i].record.SerializeAsString());
  }
  // One session after the other: those that were shown its case are named. Of several cases not
  // all may have been shown.
  std::set<uint64_t> liked;
  for (const auto& one : after) liked.insert(one.record.session());
  ProcessOutput deleted;
  bool named = false;
  for (const uint64_t session : liked) {
    deleted =
        RunTidemill("live delete " + run + " --json --session " + std::to_string(session), "2>&1");
    const bool shown = deleted.exit_code == 3;
    EXPECT_TRUE(shown || deleted.exit_code == 0) << deleted.output;
    const Body report = Body::parse(deleted.output, nullptr, false);
    EXPECT_EQ(report.value("shown_to", Body()).empty(), !shown) << deleted.output;
    named = named || shown;
  }
  EXPECT_TRUE(named) << deleted.output;
  deleted = RunTidemill("live delete " + run + " --json --tenant ann", "2>&1");
  EXPECT_EQ(deleted.exit_code, 0) << deleted.output;
  EXPECT_TRUE(cases().empty());
  EXPECT_EQ(ann.PromptTokens(question), plain) << "the bank in memory forgot it, too";
  EXPECT_EQ(program->Stop(SIGTERM), 130) << TextOf(log);
}

// It cannot be compared with other sessions: there are never enough of them.
TEST_F(LiveRunTest, ASessionBoundToATaskIsTrainedAgainstAGroupOfIt) {
  const int port = FreePort();
  const std::string log = folder_ + "/siblings.log";
  BackgroundProgram program(
      Train("siblings",
            "--set live.on=true --set live.batch=1 --set live.compare_min=1000 --set "
            "live.window=2000 --set rollout.group_size=4 --set live.siblings=5 --set "
            "live.task_share=0.8 --set replay.drop_zero_variance=false --set "
            "run.steps=1 --set gateway.port=" +
                std::to_string(port)),
      BackgroundProgram::Files{log, folder_ + "/siblings.out"});
  ASSERT_TRUE(Eventually([&] { return Listens(port); }, 2 * kPatience)) << TextOf(log);
  std::ifstream tasks(folder_ + "/train.jsonl");
  std::string first;
  std::getline(tasks, first);
  const std::string task =
      "x-tidemill-task: " + Body::parse(first).at("id").get<std::string>() + "\r\n";
  const auto answer =
      Post(port, "/v1/completions", {{"model", "m"}, {"prompt", "int f"}, {"max_tokens", 6}}, task);
  ASSERT_TRUE(answer.has_value()) << TextOf(log);
  ASSERT_TRUE(
      Post(port, "/v1/feedback",
           {{"id", answer->at("id")}, {"tests", {{"passed", 1}, {"total", 1}}}, {"end", true}}));
  std::optional<int> ended;
  ASSERT_TRUE(Eventually([&] { return (ended = program.Ended()).has_value(); }, 2 * kPatience))
      << TextOf(log);
  EXPECT_EQ(*ended, 0) << TextOf(log);
  const Body summary = Body::parse(TextOf(folder_ + "/siblings.out"), nullptr, false);
  EXPECT_EQ(summary.at("/counters/live_used"_json_pointer), 1) << summary.dump();
  EXPECT_EQ(summary.at("/counters/sibling_groups"_json_pointer), 1) << summary.dump();
}

}  // namespace
}  // namespace tidemill
