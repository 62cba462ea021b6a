// A whole fleet of a test's own: Redis, a learner and workers as processes that can be killed,
// stopped and started again, and the books that must balance afterwards.
#pragma once

#include <gtest/gtest.h>
#include <hiredis/hiredis.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "bus/redis/redis_bus.h"
#include "bus/standard_topics.h"
#include "core/topics.h"
#include "proto/tidemill.pb.h"
#include "store/run_db.h"
#include "store/run_reader.h"
#include "testing/redis_test_server.h"
#include "tests/program.h"

namespace tidemill {

inline constexpr Duration kFleetPatience = std::chrono::seconds(150);

// What was found when everything had stopped. Nothing may be lost.
struct FleetBooks {
  uint64_t groups = 0, finished = 0, waiting = 0, lost = 0;
  uint64_t episodes = 0, uses = 0, steps = 0, resumes = 0, used_twice = 0;
  uint64_t left_out = 0;  // stale or too old members of groups whose others were used
  std::map<std::string, uint64_t> stale;  // episodes something of ours failed for, by cause
  uint64_t dead_letters = 0;
  std::vector<std::string> dead;     // topic: reason
  std::vector<std::string> missing;  // groups nobody knows of
};

class Fleet {
 public:
  // `folder` holds model and tasks, `runs` the run.
  Fleet(std::string folder, std::string runs, const std::string& more = "")
      : folder_(std::move(folder)), runs_(std::move(runs)), redis({"--appendonly", "yes"}) {
    std::ofstream(folder_ + "/fleet.toml")
        << "[run]\nfolder = \"" << runs_ << "\"\nsteps = 1000000\n"
        << "[model]\npath = \"" << folder_ << "/model\"\nprotocol = \"compact\"\n"
        << "[tasks]\ntrain = \"" << folder_ << "/train.jsonl\"\n"
        << "[rollout]\ngroup_size = 4\ngroups_per_step = 4\nmax_turn_tokens = 8\nmax_turns = 2\n"
        << "max_in_flight = 64\ncache_mb = 16\n"
        << "[replay]\ndrop_zero_variance = false\n"
        << "[learner]\nlearning_rate = 0.001\ncheckpoint_every_steps = 2\n"
        << "[tools]\nslots = 1\n[bus]\nlease = \"3s\"\npatience = \"15s\"\n"
        << "[threads]\nengine = 1\ntrainer = 1\n[dashboard]\nweb = false\n"
        << more;
  }

  void Add(const std::string& role, const std::string& more = "") {
    const std::string name = role + std::to_string(++count_[role]);
    const std::string config =
        role == "learner" ? " " + folder_ + "/fleet.toml --resume --json" : "";
    workers[name] = std::make_unique<BackgroundProgram>(
        "--log-level info worker " + role + " --bus " + redis.url() + " --run fleet" + config +
            " " + more,
        BackgroundProgram::Files{folder_ + "/" + name + ".log"});
  }
  BackgroundProgram& at(const std::string& name) { return *workers.at(name); }

  std::string db() const { return runs_ + "/fleet/run.db"; }
  // Steps of the line that lives.
  uint64_t Steps() const {
    auto reader = RunReader::Open(db());
    if (!reader.ok()) return 0;
    const auto counts = (*reader)->Counts();
    return counts.ok() ? counts->steps : 0;
  }
  // Whoever ended by itself is started again, as a supervisor does.
  void Supervise() {
    for (auto& [name, worker] : workers) {
      if (worker->Ended() || worker->pid() <= 0) worker->Start();
    }
  }
  [[nodiscard]] bool StepsRise(uint64_t by, Duration patience = kFleetPatience) {
    const uint64_t from = Steps();
    return Eventually(
        [&] {
          Supervise();
          return Steps() >= from + by;
        },
        patience);
  }
  std::string Logs() const {
    std::string all;
    for (const auto& [name, worker] : workers) {
      const std::string log = worker->Log();
      all += "--- " + name + "\n" + log.substr(log.size() - std::min<size_t>(log.size(), 3000));
    }
    return all;
  }

  // A client of the run's bus, as a worker would be.
  std::unique_ptr<RedisBus> Client() {
    RedisBusOptions options;
    options.url = redis.url();
    options.run = "fleet";
    options.client = "test";
    auto bus = RedisBus::Connect(options);
    EXPECT_TRUE(bus.ok()) << bus.status().ToString();
    return std::move(*bus);
  }

  // Everybody leaves in order: the others first, so that the learner takes in what they finished.
  void StopInOrder() {
    for (auto& [name, worker] : workers) {
      if (name.starts_with("learner")) continue;
      EXPECT_EQ(worker->Stop(SIGTERM), 0) << name << "\n" << worker->Log();
    }
    for (auto& [name, worker] : workers) {
      if (!name.starts_with("learner")) continue;
      // It was interrupted, and can be resumed.
      EXPECT_EQ(worker->Stop(SIGTERM), 130) << name << "\n" << worker->Log();
    }
  }

  FleetBooks Books();

 private:
  // Everything on a topic, also what dead workers held.
  std::vector<std::string> DrainTopic(RedisBus& bus, std::string_view topic);

  std::string folder_, runs_;
  std::map<std::string, int> count_;

 public:
  RedisTestServer redis;
  std::map<std::string, std::unique_ptr<BackgroundProgram>> workers;  // by name; gone before Redis
};

inline std::vector<std::string> Fleet::DrainTopic(RedisBus& bus, std::string_view topic) {
  std::vector<std::string> bodies;
  EXPECT_TRUE(Eventually(
      [&] {
        auto leases = bus.Receive(topic, 1000);
        if (leases.ok()) {
          for (const Lease& lease : *leases) {
            bodies.push_back(lease.body);
            (void)bus.Ack(lease);
          }
        }
        (void)bus.Flush(std::chrono::seconds(10));
        const ReplyPtr left = redis.Do({"XLEN", "{fleet}:t:" + std::string(topic) + ":stream"});
        const ReplyPtr later = redis.Do({"ZCARD", "{fleet}:t:" + std::string(topic) + ":delayed"});
        return left->integer + later->integer == 0;
      },
      kFleetPatience))
      << topic;
  return bodies;
}

inline FleetBooks Fleet::Books() {
  FleetBooks books;
  const auto bus = Client();
  EXPECT_TRUE(OpenStandardTopics(*bus, {.lease = std::chrono::seconds(3)}).ok());
  std::set<uint64_t> waiting;                         // groups still on the bus
  std::map<uint64_t, std::set<uint32_t>> on_the_way;  // members finished and not stored
  for (const std::string& body : DrainTopic(*bus, kGroupsTopic)) {
    v1::GroupLease group;
    if (group.ParseFromString(body)) waiting.insert(group.group());
  }
  for (const std::string& body : DrainTopic(*bus, kGivenUpTopic)) {
    v1::GroupGivenUp given_up;
    if (given_up.ParseFromString(body)) waiting.insert(given_up.group());
  }
  for (const std::string& body : DrainTopic(*bus, kTrajectoriesTopic)) {
    v1::Trajectory trajectory;
    if (trajectory.ParseFromString(body))
      on_the_way[trajectory.id().group()].insert(trajectory.id().member());
  }
  for (const std::string& body : DrainTopic(*bus, kDeadTopic)) {
    v1::DeadLetter letter;
    EXPECT_TRUE(letter.ParseFromString(body));
    books.dead.push_back(letter.topic() + ": " + letter.reason());
  }
  books.dead_letters = books.dead.size();

  auto reader = RunReader::Open(db()).value();
  const RunCounts counts = reader->Counts().value();
  books.steps = counts.steps;
  books.resumes = counts.resumes;
  std::map<uint64_t, std::set<uint32_t>> stored;
  struct GroupUses {
    uint64_t used = 0, left_out = 0;
  };
  std::map<uint64_t, GroupUses> groups;
  for (uint64_t offset = 0;; offset += 1000) {
    const EpisodePage page = reader->Episodes({}, EpisodeSort::kOldest, {offset, 1000}).value();
    for (const EpisodeRow& row : page.rows) {
      stored[row.group].insert(row.member);
      ++books.episodes;
      if (row.fate == "stale") ++books.stale[row.fate_reason];
      books.uses += row.uses;
      groups[row.group].used += row.uses;
      groups[row.group].left_out += row.fate == "stale" || row.fate == "too_old" ? 1 : 0;
      books.used_twice += row.uses > 1 ? 1 : 0;
    }
    if (page.rows.size() < 1000) break;
  }
  for (const auto& [id, group] : groups) books.left_out += group.used > 0 ? group.left_out : 0;
  RealClock clock;
  auto database = RunDb::Open(db(), clock).value();
  EXPECT_TRUE(database->CheckIntegrity().ok());
  const ResumeState state = database->LoadForResume(1).value();
  books.groups = state.next_group - 1;
  std::set<uint64_t> outstanding;
  for (const auto& group : state.outstanding) {
    const uint64_t id = group.group.group();
    outstanding.insert(id);
    size_t known = stored[id].size();
    for (const uint32_t member : on_the_way[id]) known += 1 - stored[id].count(member);
    const bool accounted = waiting.count(id) != 0 || known >= group.group.members();
    if (!accounted) books.missing.push_back("group " + std::to_string(id));
  }
  books.lost = books.missing.size();
  books.waiting = outstanding.size();
  books.finished = books.groups - books.waiting;
  return books;
}

}  // namespace tidemill
