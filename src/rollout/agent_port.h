// Agents that are programs, as a port: an episode in, what its program left and what its session
// with the gateway gave out. The simulator puts a fake here.
//
//   RolloutLoop -> Start(job, tag) -> box, gateway, session -> AgentDone -> Episode -> Trajectory
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/fate.h"
#include "core/mailbox.h"
#include "core/status.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

struct EpisodeGroup;

struct AgentJob {
  std::shared_ptr<const EpisodeGroup> group;
  uint32_t member = 0;
};

struct AgentOutcome {
  // Not ok: a part of ours failed (a box was lost, the engine gave up a turn). The episode can be
  // tried again; of the rest only `log` counts then.
  Status status;
  Failure failure = Failure::kAgent;  // then: of which kind
  v1::EpisodeEnd end = v1::EPISODE_END_UNSPECIFIED;
  v1::Tree tree;  // the workspace as the program left it
  // The trained part of its session: each a branch, with prompt, turns and sampling.
  std::vector<v1::Trajectory> branches;
  std::string words;                            // how the program ended, for people
  std::optional<v1::EnvironmentReward> reward;  // of an environment
  v1::AgentLog log;                             // what it printed
  std::vector<v1::ToolCall> calls;              // of the task's tools, in order
};

// The answer to one Start; exactly one comes for each, cancelled or not.
struct AgentDone {
  uint64_t tag = 0;
  AgentOutcome outcome;
};

class AgentPort {
 public:
  virtual ~AgentPort() = default;
  // Jobs beyond its slots wait.
  virtual void Start(AgentJob job, uint64_t tag) = 0;
  // The episode was given up: its box is ended.
  virtual void Cancel(uint64_t tag) = 0;
  virtual Mailbox<AgentDone>& events() = 0;
};

}  // namespace tidemill
