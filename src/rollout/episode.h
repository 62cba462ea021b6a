// One attempt at a task as a state machine: turns from the engine and results from tools in, the
// next things to do out. It does no I/O and knows no time but what it is told.
//
//   prompt -> turn -> parse -> calls -> results -> observation -> turn -> ... -> answer ->
//   Trajectory
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/fate.h"
#include "engine/engine.h"
#include "proto/tidemill.pb.h"
#include "rollout/agent_port.h"
#include "rollout/protocol.h"
#include "rollout/rollout_config.h"

namespace tidemill {

struct EpisodeLimits : RolloutConfig {
  Duration retry_delay = milliseconds(200);  // doubles with every retry
  std::vector<std::string> reading_tools;    // configured ones that leave the files as they are
};

// What a group's episodes have in common; shared because they end at different times.
struct EpisodeGroup {
  v1::GroupLease lease;
  uint32_t attempt = 1;
  std::string worker;
  int64_t opened_ms = 0;  // EpisodeOpening::wall_ms
  std::vector<TokenId> prompt;
  Status prompted = Ok();  // else the template refused the task, and there are no prompts
  // With memory: each member's own prompt and the cases in it. Else empty.
  std::vector<std::vector<TokenId>> prompts = {};
  std::vector<v1::CaseSet> cases = {};
  const std::vector<TokenId>& PromptOf(uint32_t member) const {
    return prompts.empty() ? prompt : prompts[member];
  }
  int32_t max_context = 0;
  std::string secret;  // of the worker: what tokens of its cancellations are made from
};

struct ToolCallOrder {
  v1::ToolRequest request;
  Duration delay{0};  // send it after this
};

// What follows from an event.
struct EpisodeActions {
  std::vector<ToolCallOrder> calls;
  bool generate = false;        // start (or continue) the sequence:
  std::vector<TokenId> append;  //   with these tokens behind what is there,
  bool anew = false;            //   or instead of it, as a new sequence
  TurnParams turn;
  bool finished = false;  // TakeTrajectory has the record
};

class Episode {
 public:
  Episode(std::shared_ptr<const EpisodeGroup> group, uint32_t member, const AgentProtocol& protocol,
          const EpisodeLimits& limits, int64_t now_ms);

  // The first turn; the caller starts a sequence with the group's prompt.
  EpisodeActions Begin(int64_t now_ms);
  EpisodeActions OnTurn(const TurnOutput& output, int64_t now_ms);
  // A result for a request this episode does not wait for (any more) changes nothing.
  EpisodeActions OnResult(const v1::ToolResult& result, int64_t now_ms);
  // Of an agent that is a program: instead of Begin and all turns. The outcome's status is ok. The
  // trajectory has the prompts that were sent, and no other.
  EpisodeActions OnAgent(AgentOutcome outcome, int64_t now_ms);
  // Something of ours failed in a way that ends the episode: it is kept, counted and never trained
  // on.
  EpisodeActions GiveUp(Failure failure, const std::string& detail, int64_t now_ms);
  // The same for an agent that is a program.
  EpisodeActions GiveUpAgent(AgentOutcome outcome, int64_t now_ms);

  // After `finished`.
  v1::Trajectory TakeTrajectory() { return std::move(trajectory_); }
  const v1::TrajectoryId& id() const { return trajectory_.id(); }
  // Who shows it may cancel the episode's tool calls.
  std::string CancelToken() const;
  uint32_t retries() const { return retries_; }
  // The tool worker that holds the episode's box; empty: it has none.
  const std::string& box_holder() const { return box_holder_; }

 private:
  struct PendingCall {
    v1::ToolRequest request;
    v1::ToolResult result;
    uint32_t retries = 0;
    int64_t asked_ms = 0;
    bool done = false;
    bool skipped = false;
  };

  const v1::Task& task() const { return group_->lease.task(); }
  bool LastTurn() const;
  TurnParams NextTurnParams() const;
  EpisodeActions StartCalls(int64_t now_ms);
  EpisodeActions NextWave(int64_t now_ms);
  bool ChangesFiles(const PendingCall& call) const;
  EpisodeActions AfterCalls(int64_t now_ms);
  EpisodeActions ContinueWith(Result<NextPrompt> next, int64_t now_ms);
  EpisodeActions Finish(v1::EpisodeEnd end, int64_t now_ms);
  v1::ToolRequest MakeRequest(const RequestedCall& call, size_t index) const;
  void WriteAnswer(const std::string& text);
  void RecordCalls();

  std::shared_ptr<const EpisodeGroup> group_;
  const AgentProtocol& protocol_;
  EpisodeLimits limits_;
  uint32_t member_;
  v1::Trajectory trajectory_;
  std::unique_ptr<EpisodeTalk> talk_;
  v1::Tree tree_;                   // the workspace now
  ParsedTurn parsed_;               // the turn whose calls are running
  bool checking_answer_ = false;    // the only call is the trial of an answer
  std::vector<PendingCall> calls_;  // of this turn
  size_t wave_begin_ = 0;           // calls [begin, end) are running
  size_t wave_end_ = 0;
  size_t tokens_ = 0;  // of the whole sequence so far
  uint32_t retries_ = 0;
  std::string box_holder_;
  bool over_ = false;
};

}  // namespace tidemill
