// A run: every loop and port in one process on the embedded bus, or, with a fleet, those of the
// learner alone (dispatcher, replay, learner), the others being processes of their own.
// training_parts.cc is the wiring; it reads from top to bottom in the order in which things are
// made.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/run_config.h"
#include "cli/run_journal.h"
#include "core/loop_runner.h"
#include "policy/engine_port.h"
#include "proto/tidemill.pb.h"
#include "store/run_directory.h"

namespace tidemill {

class Metrics;
class RedisBus;
class WeightPublisher;

// Share of the time something worked since the run began, 0..1.
struct BusyShare {
  std::string name;
  bool port = false;  // else a loop
  double share = 0;
};

// How the run is doing; all totals since it (or its resumption) began.
struct RunSnapshot {
  double seconds = 0;
  uint64_t steps = 0, version = 0, epoch = 0;
  uint64_t episodes_running = 0, episodes_finished = 0, episodes_stored = 0;
  uint64_t waiting_for_tools = 0, waiting_verdicts = 0, ready_episodes = 0;
  uint64_t generated_tokens = 0, trained_tokens = 0;
  uint64_t scored = 0, solved = 0, stale = 0, too_old = 0, zero_variance = 0, duplicates = 0,
           used = 0;
  uint64_t tool_calls = 0, gradings = 0, tool_retries = 0, reward_retries = 0, unavailable = 0;
  uint64_t cache_hits = 0, cache_misses = 0, unscorable = 0, calls_lost = 0, groups_lost = 0;
  uint64_t skipped = 0;        // tool calls given up on
  uint64_t tool_commands = 0;  // run in boxes
  uint64_t dead_letters = 0;
  uint64_t put_off = 0;  // tasks that failed through us too often in a row
  uint64_t evicted = 0, rescored = 0, second_looks = 0, repeated_literals = 0;
  double tool_ms = 0;   // mean of a command in its box
  double queue_ms = 0;  // mean wait before it
  std::vector<BusyShare> busy;
  std::vector<std::pair<std::string, uint64_t>> depths;  // messages ready, by topic
  // Of a fleet: how many are there, by role, and how many are lost. Empty: it is one process.
  std::map<std::string, uint64_t> workers;
  uint64_t workers_lost = 0;
};

class TrainingRun {
 public:
  // What to do besides the config.
  struct Options {
    bool train = true;  // false: only the evaluations "before"
    bool resume = false;
    std::string eval_prefix;  // put before the names of evaluations
    // Not null: rollout, tools and reward are other processes on this bus, which must outlive the
    // run.
    RedisBus* fleet = nullptr;
    Metrics* metrics = nullptr;  // may be null; must outlive the run
  };

  // Loads, checks and wires everything; nothing runs yet. Failures name the file or key.
  static Result<std::unique_ptr<TrainingRun>> Make(const RunConfig& config, RunDirectory& directory,
                                                   RunJournal& journal, const Options& options);
  ~TrainingRun();

  Status Start();
  // Finish the step under way, save, evaluate and end. From any thread.
  void FinishSoon();
  // The same without evaluating: nothing is begun any more, here or in a fleet. From any thread.
  void Interrupt();
  // Everything that was to be done is done.
  bool Done() const;
  // The last step is published and saved; evaluations may still run.
  bool LearnerDone() const;
  // The run ended before it was done: a loop failed.
  bool Failed();
  // Ranks of the learner that died or hung, which is why it failed.
  int RanksLost() const;
  // Stops the loops in order. The status names the loop that failed, if one did.
  Status Stop();

  RunSnapshot Snapshot() const;
  // Where other processes get the weights; null without a fleet. The first version is out.
  WeightPublisher* publisher();
  // The loop that does not move; empty: all do.
  std::string StuckLoop() const;
  const std::vector<std::string>& warnings() const;
  // Its name on the bus of a fleet; nobody else, and no learner of the run before it, has it.
  const std::string& bus_name() const;
  uint64_t start_version() const;

 private:
  struct Parts;
  explicit TrainingRun(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace tidemill
