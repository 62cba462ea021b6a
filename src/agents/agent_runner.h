// Agents as a port: threads that run one program each in a box of its own. The box's only network
// is its loopback, and what listens there is the gateway: nothing of ours runs where the program
// could reach it.
//
//   job -> box with workspace, home and task -> program <-HTTP-> gateway, EpisodeRecorder
//   -> program ends -> session settled, workspace collected -> AgentDone
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "agents/agent_program.h"
#include "agents/episode_recorder.h"
#include "agents/episode_tools.h"
#include "core/clock.h"
#include "core/mutex.h"
#include "gateway/gateway.h"
#include "rollout/agent_port.h"
#include "store/blobs.h"
#include "tools/box/box_pool.h"
#include "tools/root_pools.h"
#include "tools/tool_runner.h"

namespace tidemill {

struct AgentRunnerOptions {
  AgentProgram program;
  size_t slots = 64;  // programs at once
  size_t ready = 2;   // boxes opened before they are needed
  std::string roots;  // folder of unpacked root file systems; empty: the user's cache
  // When so many episodes have ended and none got an answer of the model, the run is in vain; with
  // `learns` also when none of training has a token to train. 0: never.
  uint32_t give_up = 0;
  bool learns = false;
  EpisodeTools* tools = nullptr;  // offered to the programs; null: none. Must outlive the runner
  BoxHostOptions boxes{};
};

class AgentRunner final : public AgentPort {
 public:
  // All that is given must outlive it; `blobs` may be null. kUnavailable: no box can run here, or a
  // mount cannot be read by the user of a box.
  static Result<std::unique_ptr<AgentRunner>> Create(AgentRunnerOptions options, Gateway& gateway,
                                                     EpisodeRecorder& recorder, BlobStore* blobs,
                                                     const Clock& clock);
  // Ends every program.
  ~AgentRunner() override;

  void Start(AgentJob job, uint64_t tag) override;
  void Cancel(uint64_t tag) override;
  Mailbox<AgentDone>& events() override { return events_; }

  size_t running() const;
  // Not ok: the first episodes were in vain, and why. From any thread.
  Status CheckUse() const;
  // Of boxes taken so far.
  BoxPool::Stats boxes() const { return pool_->stats(); }

 private:
  struct Queued {
    AgentJob job;
    uint64_t tag = 0;
    std::shared_ptr<Cancellation> cancellation;  // shared: Cancel may come while it ends
  };
  // One episode while it runs.
  struct Episode;

  AgentRunner(AgentRunnerOptions options, Gateway& gateway, EpisodeRecorder& recorder,
              BlobStore* blobs, const Clock& clock);
  void Work();
  AgentOutcome Carry(const Queued& queued);
  void Record(const Episode& episode, const RunReport& report, const EpisodeSession& session,
              AgentOutcome& outcome);
  // From an empty box to the outcome; `starved`: the machine had no time for the program, which
  // counts in the last attempt.
  AgentOutcome Attempt(const Queued& queued, bool last, bool* starved);
  Status Furnish(Episode& episode);
  RunReport Run(Episode& episode);
  v1::Outcome Watch(const Episode& episode) const;
  void Collect(Episode& episode, AgentOutcome& outcome);

  const AgentRunnerOptions options_;
  Gateway& gateway_;
  EpisodeRecorder& recorder_;
  BlobStore* const blobs_;
  const Clock& clock_;
  std::unique_ptr<BoxHost> host_;
  std::unique_ptr<BoxPool> pool_;
  std::unique_ptr<RootPools> roots_;
  Mailbox<AgentDone> events_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Queued> queue_ TM_GUARDED_BY(mutex_);
  std::map<uint64_t, std::shared_ptr<Cancellation>> under_way_ TM_GUARDED_BY(mutex_);  // by tag
  size_t idle_ TM_GUARDED_BY(mutex_) = 0;                                              // threads
  bool stopping_ TM_GUARDED_BY(mutex_) = false;
  uint64_t idle_episodes_ TM_GUARDED_BY(mutex_) = 0;  // without an answer of the model
  // Of training: with answers and none to train, and with some.
  uint64_t untrained_ TM_GUARDED_BY(mutex_) = 0, trained_ TM_GUARDED_BY(mutex_) = 0;
  std::string why_ TM_GUARDED_BY(mutex_);  // of the newest such episode
  std::vector<std::thread> threads_ TM_GUARDED_BY(mutex_);
};

// The part of a task that an agent may know, as JSON: prompt, answer file, examples, turns.
std::string AgentTaskSheet(const v1::GroupLease& lease);

}  // namespace tidemill
