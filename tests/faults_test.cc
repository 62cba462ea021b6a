// A fleet of eight processes on a real Redis, and everything that can happen to it. Short by
// default; TIDEMILL_FAULT_SECONDS makes it go on (make soak).
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>

#include "core/version.h"
#include "testing/test_folders.h"
#include "tests/fleet_kit.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

bool Soon(const std::function<bool()>& holds) {
  return Eventually(holds, kFleetPatience);
}

// Bytes in memory; 0 when it is not there.
uint64_t MemoryOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  uint64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

class FaultsTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tidemill-faults-XXXXXX";
    folder_ = mkdtemp(name);
    MustRun("tasks generate --family cfunc --count 200 --seed 3 --difficulty 1,2 --out " + folder_ +
            "/train.jsonl");
    MakeTinyModel(folder_);
    runs_ = folder_ + "/runs";
    fs::create_directory(runs_);
    small_disk_ = MountSmallDisk();
  }
  void TearDown() override {
    if (small_disk_) umount2(runs_.c_str(), MNT_DETACH);
    if (!HasFailure() || std::getenv("TIDEMILL_KEEP") == nullptr) fs::remove_all(folder_);
  }

  // A disk of its own that can be filled, seen by this process and its children alone.
  bool MountSmallDisk() {
    return unshare(CLONE_NEWNS) == 0 &&
           mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           mount("tmpfs", runs_.c_str(), "tmpfs", 0, "size=96m") == 0;
  }

  void StartAll(Fleet& fleet) {
    fleet.Add("learner");
    for (int i = 0; i < 2; ++i) fleet.Add("rollout");
    for (int i = 0; i < 4; ++i) fleet.Add("tools");
    fleet.Add("reward");
    ASSERT_TRUE(fleet.StepsRise(2)) << fleet.Logs();
  }

  void KillSomebodyEveryFewSeconds(Fleet& fleet, int kills);
  void StopPastTheLease(Fleet& fleet);
  void SlowDownConsumers(Fleet& fleet);
  void RestartRedis(Fleet& fleet, Duration away);
  void StopRedis(Fleet& fleet, Duration still);
  void FillTheDisk(Fleet& fleet);
  void SendNonsense(Fleet& fleet);
  void SendAMessageOfANewerVersion(Fleet& fleet);
  // The learner's summary accounts for every group, and tells what others did.
  void CheckSummary(Fleet& fleet);
  static void Tell(const FleetBooks& books);

  std::string folder_, runs_;
  bool small_disk_ = false;
  std::mt19937 random_{11};
};

void FaultsTest::KillSomebodyEveryFewSeconds(Fleet& fleet, int kills) {
  std::vector<std::string> order;
  for (const auto& [name, worker] : fleet.workers) order.push_back(name);
  std::shuffle(order.begin(), order.end(), random_);
  for (int i = 0; i < kills; ++i) {
    const std::string& name = order[static_cast<size_t>(i) % order.size()];
    fleet.at(name).Stop(SIGKILL);
    fleet.at(name).Start();
    std::this_thread::sleep_for(milliseconds(1500 + random_() % 1500));
    fleet.Supervise();
  }
  EXPECT_TRUE(fleet.StepsRise(2)) << fleet.Logs();
}

void FaultsTest::StopPastTheLease(Fleet& fleet) {
  // A rollout worker whose groups go to the other and whose answers come too late; and a slow
  // consumer, for which the others have to wait.
  fleet.at("rollout1").Signal(SIGSTOP);
  fleet.at("reward1").Signal(SIGSTOP);
  std::this_thread::sleep_for(milliseconds(4500));
  fleet.at("rollout1").Signal(SIGCONT);
  fleet.at("reward1").Signal(SIGCONT);
  EXPECT_TRUE(fleet.StepsRise(2)) << fleet.Logs();
}

// The learner takes in trajectories, and the only reward worker score requests, at a tenth of their
// speed: what the others produce waits on the topics, and leases are kept.
void FaultsTest::SlowDownConsumers(Fleet& fleet) {
  for (int i = 0; i < 12; ++i) {
    for (const char* name : {"learner1", "reward1"}) fleet.at(name).Signal(SIGSTOP);
    std::this_thread::sleep_for(milliseconds(360));
    for (const char* name : {"learner1", "reward1"}) fleet.at(name).Signal(SIGCONT);
    std::this_thread::sleep_for(milliseconds(40));
  }
  EXPECT_TRUE(fleet.StepsRise(2)) << fleet.Logs();
}

void FaultsTest::RestartRedis(Fleet& fleet, Duration away) {
  fleet.redis.Stop();
  std::this_thread::sleep_for(away);
  fleet.redis.Start();
  EXPECT_TRUE(fleet.StepsRise(2)) << fleet.Logs();
}

// It is there and does not answer: connections stay, and every lease runs out.
void FaultsTest::StopRedis(Fleet& fleet, Duration still) {
  fleet.redis.Signal(SIGSTOP);
  std::this_thread::sleep_for(still);
  fleet.redis.Signal(SIGCONT);
  EXPECT_TRUE(fleet.StepsRise(2)) << fleet.Logs();
}

void FaultsTest::FillTheDisk(Fleet& fleet) {
  if (!small_disk_) {
    std::printf("no disk to fill: mounting a tmpfs is not allowed here\n");
    return;
  }
  const std::string ballast = runs_ + "/ballast";
  {
    std::ofstream file(ballast, std::ios::binary);
    const std::string block(1 << 20, 'x');
    while (file.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
    file.clear();
    while (file.put('x').flush()) {
    }
  }
  BackgroundProgram& learner = fleet.at("learner1");
  std::optional<int> ended;
  EXPECT_TRUE(Soon([&] { return (ended = learner.Ended()).has_value(); })) << learner.Log();
  EXPECT_EQ(ended.value_or(0), 1);
  EXPECT_THAT(learner.Log(), testing::AnyOf(HasSubstr("full"), HasSubstr("No space")));
  fs::remove(ballast);
  EXPECT_TRUE(fleet.StepsRise(2)) << fleet.Logs();
}

void FaultsTest::SendNonsense(Fleet& fleet) {
  const auto bus = fleet.Client();
  v1::Trajectory nobodys;  // parses, and is no trajectory
  nobodys.mutable_id()->set_group(1);
  nobodys.set_group_members(1);
  for (const std::string_view topic :
       {kGroupsTopic, kTrajectoriesTopic, kScoreTopic, kToolsTestsTopic, kToolsGradeTopic}) {
    EXPECT_TRUE(Soon([&] { return bus->Publish(topic, "\xff\xff nonsense").ok(); })) << topic;
  }
  EXPECT_TRUE(
      Soon([&] { return bus->Publish(kTrajectoriesTopic, nobodys.SerializeAsString()).ok(); }));
  ASSERT_TRUE(bus->Flush(std::chrono::seconds(10)).ok());
  EXPECT_TRUE(fleet.StepsRise(2)) << fleet.Logs();
}

void FaultsTest::SendAMessageOfANewerVersion(Fleet& fleet) {
  const auto bus = fleet.Client();
  const std::string inbox = "inbox.test.newer";
  ASSERT_TRUE(bus->Open(inbox, {}).ok());
  v1::ToolRequest request;
  request.set_request_id("newer");
  request.set_tool("compile");
  request.set_reply_to(inbox);
  v1::TrajectoryId& episode = *request.mutable_episode();
  episode.set_task("test"), episode.set_group(1), episode.set_attempt(1);
  // Field 900, a number: what a later program might add.
  const std::string body = request.SerializeAsString() + "\xa0\x38\x2a";
  ASSERT_TRUE(Soon([&] { return bus->PublishRequest(kToolsCompileTopic, inbox, body).ok(); }));
  v1::ToolResult result;
  EXPECT_TRUE(Soon([&] {
    auto answers = bus->Receive(inbox, 1);
    if (!answers.ok() || answers->empty()) return false;
    (void)bus->Ack(answers->at(0));
    return result.ParseFromString(answers->at(0).body);
  }));
  EXPECT_EQ(result.request_id(), "newer");
  (void)bus->Remove(inbox);
}

void FaultsTest::CheckSummary(Fleet& fleet) {
  std::ifstream file(runs_ + "/fleet/summary.json");
  const auto summary = nlohmann::json::parse(file, nullptr, false);
  ASSERT_TRUE(summary.is_object()) << fleet.at("learner1").Log();
  const auto& groups = summary["groups"];
  uint64_t known = 0;
  for (const char* fate : {"trained", "evaluated", "ready", "open", "abandoned", "lost"}) {
    known += groups[fate].get<uint64_t>();
  }
  for (const auto& [why, count] : groups["dropped"].items()) known += count.get<uint64_t>();
  EXPECT_EQ(groups["issued"], known) << groups.dump();
  EXPECT_EQ(summary["lost"], 0) << groups.dump();
  EXPECT_GE(summary["tool_calls"], 1);
  EXPECT_GT(summary["generated_tokens"], 0);  // up to the last heartbeat of those killed
  for (const char* loop : {"rollout", "tools", "reward", "learner"}) {
    EXPECT_GT(summary["busy"]["loops"].value(loop, 0.0), 0) << loop;
  }
  for (const char* port : {"engine", "boxes", "trainer"}) {
    EXPECT_GT(summary["busy"]["ports"].value(port, 0.0), 0) << port;
  }
  std::printf("summary: groups %s, lost %s, retries %s\n", groups.dump().c_str(),
              summary["lost"].dump().c_str(), summary["retries"].dump().c_str());
}

void FaultsTest::Tell(const FleetBooks& books) {
  std::printf(
      "groups issued %lu: finished %lu, under way %lu, lost %lu\n"
      "episodes stored %lu, used %lu in %lu steps, twice %lu; the learner resumed %lu times\n"
      "dead letters %lu\n",
      books.groups, books.finished, books.waiting, books.lost, books.episodes, books.uses,
      books.steps, books.used_twice, books.resumes, books.dead_letters);
  for (const auto& [cause, count] : books.stale)
    std::printf("  stale: %lu %s\n", count, cause.c_str());
  for (const std::string& what : books.missing) std::printf("  lost: %s\n", what.c_str());
  for (const std::string& what : books.dead) std::printf("  dead: %s\n", what.c_str());
}

TEST_F(FaultsTest, AFleetSurvivesWhateverHappensToItAndLosesNothing) {
  const char* longer = std::getenv("TIDEMILL_FAULT_SECONDS");
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::seconds(longer ? std::atoi(longer) : 0);
  Fleet fleet(folder_, runs_);
  StartAll(fleet);
  if (HasFatalFailure()) return;
  uint64_t nonsense = 0, before = 0;
  do {
    before = fleet.Steps();
    KillSomebodyEveryFewSeconds(fleet, longer ? 16 : 8);
    StopPastTheLease(fleet);
    SlowDownConsumers(fleet);
    RestartRedis(fleet, milliseconds(0));
    RestartRedis(fleet, std::chrono::seconds(longer ? 20 : 5));
    StopRedis(fleet, std::chrono::seconds(20));
    FillTheDisk(fleet);
    SendNonsense(fleet);
    nonsense += 6;
    SendAMessageOfANewerVersion(fleet);
    EXPECT_GT(fleet.Steps(), before);
  } while (std::chrono::steady_clock::now() < until && !HasFailure());

  // With nothing happening to it, memory stays as it is.
  std::map<std::string, uint64_t> memory;
  for (auto& [name, worker] : fleet.workers) memory[name] = MemoryOf(worker->pid());
  ASSERT_TRUE(fleet.StepsRise(10)) << fleet.Logs();
  for (auto& [name, worker] : fleet.workers) {
    EXPECT_LT(MemoryOf(worker->pid()), memory[name] + (uint64_t{48} << 20)) << name;
  }
  fleet.StopInOrder();
  CheckSummary(fleet);
  const FleetBooks books = fleet.Books();
  Tell(books);
  EXPECT_EQ(books.lost, 0u);
  EXPECT_EQ(books.used_twice, 0u);
  // A step takes whole groups, 16 episodes. A member that is stale (no answer while Redis was away
  // for longer than the patience) or was too old when its group's turn came is not trained on.
  EXPECT_EQ(books.uses + books.left_out, books.steps * 16) << books.left_out << " left out";
  EXPECT_GE(books.resumes, 1u);
  EXPECT_EQ(books.dead_letters, nonsense) << "only what was nonsense is dead";
  if (!small_disk_ && !HasFailure()) {
    GTEST_SKIP() << "everything but a full disk was tried: mounting a tmpfs is not allowed here";
  }
}

TEST_F(FaultsTest, AWorkerThatSpeaksAnotherVersionOfTheMessagesIsTurnedAway) {
  RedisTestServer redis;
  redis.Do({"SET", "{other}:sheet",
            R"({"run":"other","program":"9.0","messages":99,"host":"h","shm_domain":"d","pid":1,)"
            R"("version":1,"incarnation":1,"shm":"","weights_folder":"/nowhere","config":""})"});
  for (const char* role : {"rollout", "tools", "reward"}) {
    const ProcessOutput output =
        RunTidemill("worker " + std::string(role) + " --bus " + redis.url() + " --run other");
    EXPECT_EQ(output.exit_code, 2) << role;
    EXPECT_THAT(output.output, HasSubstr("version 99 of the messages"));
  }
}

TEST(UnsignedSheet, NoWorkerTakesFromItWhatToRunOrToShow) {
  const struct {
    const char* role;
    const char* config;
    const char* key;
  } kCases[] = {
      {"rollout", "[agent]\ncommand = [\"/bin/sh\", \"-c\", \"cat /shown/*\"]\n", "agent.command"},
      {"rollout", "[agent]\npreset = \"opencode\"\n", "agent.preset"},
      {"rollout", "[agent]\nmounts = [\"/etc:/agent/etc\"]\n", "agent.mounts"},
      {"rollout", "[[environment]]\ncommand = [\"/bin/sh\", \"-c\", \"id\"]\n",
       "environment[].command"},
      {"rollout", "[[environment]]\nurls = [\"http://10.0.0.1:80\"]\n", "environment[].urls"},
      {"rollout", "[engine]\ncommand = [\"/bin/true\"]\n", "engine.command"},
      {"rollout", "[tools]\nroots = \"/\"\n", "tools.roots"},
      {"rollout", "[tools]\nown_user = true\n", "tools.own_user"},
      {"tools", "[tools]\nown_user = true\n", "tools.own_user"},
      {"reward", "[[judge]]\nname = \"j\"\nendpoint = \"http://10.0.0.1/v1\"\n",
       "judge[].endpoint"},
      {"reward", "[reward]\ncommand = [\"/bin/true\"]\n", "reward.command"}};
  for (const auto& one : kCases) {
    SCOPED_TRACE(one.key);
    RedisTestServer redis;
    const nlohmann::json sheet = {{"run", "forged"},
                                  {"program", "x"},
                                  {"messages", kMessagesVersion},
                                  {"host", "h"},
                                  {"shm_domain", "d"},
                                  {"pid", 1},
                                  {"version", 1},
                                  {"incarnation", 1},
                                  {"shm", ""},
                                  {"weights_folder", "/nowhere"},
                                  {"config", one.config}};
    redis.Do({"SET", "{forged}:sheet", sheet.dump()});
    const ProcessOutput output =
        RunTidemill("worker " + std::string(one.role) + " --bus " + redis.url() + " --run forged");
    EXPECT_EQ(output.exit_code, 2);
    EXPECT_THAT(output.output, HasSubstr("box here (" + std::string(one.key) + ")"));
  }
}

// With a program in a box as the agent; each role dies once, and Redis stands still for longer than
// leases and patience last.
TEST_F(FaultsTest, AFleetOfAgentsSurvivesTheDeathOfEachRoleAndARedisThatStandsStill) {
  const char* longer = std::getenv("TIDEMILL_FAULT_SECONDS");
  Fleet fleet(folder_, runs_,
              "[agent]\ncommand = [\"/usr/bin/python3\", \"/agent/agent.py\"]\nmounts = [\"" +
                  SourceDir() + "/examples/agent.py:/agent/agent.py\"]\nslots = 4\n");
  fleet.Add("learner");
  fleet.Add("rollout", "--config " + folder_ + "/fleet.toml");
  for (const char* role : {"tools", "reward"}) fleet.Add(role);
  ASSERT_TRUE(fleet.StepsRise(1)) << fleet.Logs();
  for (const char* name : {"rollout1", "tools1", "reward1", "learner1"}) {
    SCOPED_TRACE(name);
    fleet.at(name).Stop(SIGKILL);
    fleet.at(name).Start();
    ASSERT_TRUE(fleet.StepsRise(1)) << fleet.Logs();
  }
  StopRedis(fleet, std::chrono::seconds(longer ? 60 : 20));
  fleet.StopInOrder();
  const FleetBooks books = fleet.Books();
  Tell(books);
  EXPECT_EQ(books.lost, 0u);
  EXPECT_EQ(books.used_twice, 0u);
  EXPECT_EQ(books.dead_letters, 0u);
  EXPECT_GE(books.resumes, 1u);
}

TEST_F(FaultsTest, WeightsComeThroughFilesOrTheBrokerWhereMemoryCannotBeShared) {
  Fleet fleet(folder_, runs_);
  fleet.Add("learner");
  fleet.Add("rollout", "--set bus.weights=files");
  // One that sees nothing of the learner's folders.
  setenv("XDG_CACHE_HOME", (folder_ + "/cache").c_str(), 1);
  fleet.Add("rollout", "--set bus.weights=bus --set model.path=/nowhere/model");
  fleet.Add("tools");
  fleet.Add("reward");
  ASSERT_TRUE(fleet.StepsRise(4)) << fleet.Logs();
  EXPECT_THAT(fleet.at("rollout1").Log(), HasSubstr("receiving weights  by=files"));
  ASSERT_TRUE(Eventually([&] {
    return fleet.at("rollout2").Log().find("receiving weights  by=bus") != std::string::npos;
  })) << fleet.at("rollout2").Log();
  EXPECT_THAT(fleet.at("rollout2").Log(), HasSubstr("fetching the model's files"));
  EXPECT_TRUE(fs::exists(runs_ + "/fleet/policy/newest.json"));
  // A second learner finds the first one's seat taken.
  const ProcessOutput second = RunTidemill("worker learner --bus " + fleet.redis.url() +
                                           " --run fleet " + folder_ + "/fleet.toml --resume");
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.output, HasSubstr("is the learner of run fleet"));
  fleet.StopInOrder();
  const FleetBooks books = fleet.Books();
  Tell(books);
  EXPECT_EQ(books.lost, 0u);
  EXPECT_EQ(books.dead_letters, 0u);
}

}  // namespace
}  // namespace tidemill
