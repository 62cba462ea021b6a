// Episodes in environments of others, as a port: one thread that carries all of them, however long
// they wait.
//
//   job -> room in a server -> driver <-> environment's server
//                                     <-> gateway, with the episode's key -> EpisodeRecorder
//   -> session settled -> AgentDone with the reward
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agents/episode_recorder.h"
#include "core/clock.h"
#include "environments/environment_driver.h"
#include "gateway/gateway.h"
#include "rollout/agent_port.h"

namespace tidemill {

// Servers of one kind.
struct EnvironmentServers {
  std::string name;
  const StandardRow* standard = nullptr;
  std::string mode;
  std::vector<HttpUrl> urls;         // run elsewhere
  std::vector<std::string> command;  // or are started here
  size_t servers = 1;
  size_t slots = 1;  // episodes in one server at once
  Duration timeout = std::chrono::minutes(2);
  Duration patience = std::chrono::minutes(10);
};

struct EnvironmentRunnerOptions {
  std::vector<EnvironmentServers> environments;
  std::string log_folder;  // of servers that are started here
};

class EnvironmentRunner final : public AgentPort {
 public:
  // All that is given must outlive it. kUnavailable: a server could not be started.
  static Result<std::unique_ptr<EnvironmentRunner>> Create(EnvironmentRunnerOptions options,
                                                           Gateway& gateway,
                                                           EpisodeRecorder& recorder,
                                                           const Clock& clock);
  // Leaves every environment.
  ~EnvironmentRunner() override;

  void Start(AgentJob job, uint64_t tag) override;
  void Cancel(uint64_t tag) override;
  Mailbox<AgentDone>& events() override;

  // Since the start, by any thread.
  struct Counts {
    uint64_t ended = 0;        // episodes with a reward
    uint64_t waited = 0;       // that found no room, each time
    uint64_t failed = 0;       // attempts that a part of ours ended
    uint64_t bad_actions = 0;  // the agents' own mistakes
  };
  Counts counts() const;

 private:
  class Impl;
  explicit EnvironmentRunner(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tidemill
