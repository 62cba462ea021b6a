// One attempt at a task as a state machine: turns from the engine and results from tools in, the
// next things to do out. It does no I/O and knows no time but what it is told.
//
//   prompt -> turn -> parse -> calls -> results -> observation -> turn -> ... -> answer ->
//   Trajectory
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/fate.h"
#include "engine/engine.h"
#include "proto/tidemill.pb.h"
#include "rollout/agent_port.h"
#include "rollout/background_calls.h"
#include "rollout/episode_clock.h"
#include "rollout/episode_seats.h"
#include "rollout/job_tools.h"
#include "rollout/protocol.h"
#include "rollout/turn_calls.h"

namespace tidemill {

// What a group's episodes have in common; shared because they end at different times.
struct EpisodeGroup {
  v1::GroupLease lease;
  uint32_t attempt = 1;
  std::string worker;
  // Counts the groups that the worker began: the same group may come to it twice, and the second
  // time its episodes ask other questions.
  uint64_t begun = 0;
  int64_t opened_ms = 0;  // EpisodeOpening::wall_ms
  std::vector<TokenId> prompt;
  Status prompted = Ok();  // else the template refused the task, and there are no prompts
  // With memory: each member's own prompt and the cases in it. Else empty.
  std::vector<std::vector<TokenId>> prompts = {};
  std::vector<v1::CaseSet> cases = {};
  const std::vector<TokenId>& PromptOf(uint32_t member) const {
    return prompts.empty() ? prompt : prompts[member];
  }
  // What the member is shown.
  const v1::CaseSet& CasesOf(uint32_t member) const {
    return cases.empty() ? v1::CaseSet::default_instance() : cases[member];
  }
  int32_t max_context = 0;
  PolicyId policy = PolicyId::kMain;  // lease.policy(): draws the turns of roles without their own
  // Who works on them; outlives the group. Null: one agent.
  const TeamPlan* team = nullptr;
  std::string secret;  // of the worker: what tokens of its cancellations are made from
};

// What follows from an event.
struct EpisodeActions {
  std::vector<ToolCallOrder> calls;
  std::vector<std::string> cancels;   // requests whose results nobody waits for any more
  bool generate = false;              // start (or continue) the sequence:
  size_t seat = 0;                    //   of this seat of the team,
  PolicyId policy = PolicyId::kMain;  //   drawn by this policy,
  std::vector<TokenId> append;        //   with these tokens behind what is there,
  bool anew = false;                  //   or instead of it, as a new sequence
  TurnParams turn;
  std::optional<size_t> leaves;     // a seat that will not work again
  bool interrupt = false;           // end the turn that is being drawn behind its next token
  std::optional<Duration> wake_in;  // call OnTime then
  bool finished = false;            // TakeTrajectory has the record
};

class Episode {
 public:
  Episode(std::shared_ptr<const EpisodeGroup> group, uint32_t member, const AgentProtocol& protocol,
          const EpisodeLimits& limits, int64_t now_ms);

  // The first turn; the caller starts a sequence with the group's prompt.
  EpisodeActions Begin(int64_t now_ms);
  // Whether it wants to see turns while they are drawn: then they come by OnTokens, else by OnTurn.
  bool streams() const { return streams_; }
  // What came to the turn since the last time; `done`: it is over.
  EpisodeActions OnTokens(TurnOutput part, bool done, int64_t now_ms);
  EpisodeActions OnTurn(const TurnOutput& output, int64_t now_ms);
  // A result for a request this episode does not wait for (any more) changes nothing.
  EpisodeActions OnResult(const v1::ToolResult& result, int64_t now_ms);
  // Time has passed. May come at any time.
  EpisodeActions OnTime(int64_t now_ms);
  // Whether it still waits for a request's result.
  bool WaitsFor(const std::string& request_id);
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
  // A "wait" that is being answered.
  struct Waiting {
    WaitOrder order;
    std::optional<int64_t> until_ms;
  };

  const v1::Task& task() const { return group_->lease.task(); }
  bool LastTurn() const;
  Result<TurnParams> NextTurnParams();
  void OpenTurn(int64_t now_ms);
  void MayInterrupt(EpisodeActions& actions);
  EpisodeActions StartCalls(int64_t now_ms);
  EpisodeActions GoOn(EpisodeActions actions, int64_t now_ms);
  void Launch(TurnCall& call, EpisodeActions& actions, int64_t now_ms);
  void LaunchJob(TurnCall& call, EpisodeActions& actions, int64_t now_ms);
  void RunJobTool(TurnCall& call, EpisodeActions& actions, int64_t now_ms);
  void MergeWave();
  EpisodeActions TakeCallResult(TurnCall& call, const v1::ToolResult& result, int64_t now_ms);
  EpisodeActions TakeJobResult(BackgroundCalls::Job& job, const v1::ToolResult& result,
                               int64_t now_ms);
  EpisodeActions AfterJobs(EpisodeActions actions, int64_t now_ms);
  void AskToBeWoken(EpisodeActions& actions, int64_t now_ms) const;
  EpisodeActions AfterCalls(EpisodeActions actions, int64_t now_ms);
  EpisodeActions Reply(TurnReplies replies, EpisodeActions actions, int64_t now_ms);
  EpisodeActions Speak(NextPrompt next, EpisodeActions actions, int64_t now_ms);
  EpisodeActions Answered(EpisodeActions actions, int64_t now_ms);
  EpisodeActions HandOver(const TeamNext& next, EpisodeActions actions, int64_t now_ms);
  EpisodeActions Finish(v1::EpisodeEnd end, EpisodeActions actions, int64_t now_ms);
  TurnCall MakeCall(const RequestedCall& call, size_t index) const;
  void WriteAnswer(const std::string& text);
  void RecordCalls();

  std::shared_ptr<const EpisodeGroup> group_;
  const AgentProtocol& protocol_;
  EpisodeLimits limits_;
  uint32_t member_;
  v1::Trajectory trajectory_;
  EpisodeSeats seats_;
  int visit_turns_ = 0;           // turns before the seat that works took over
  v1::Tree tree_;                 // the workspace now
  ParsedTurn parsed_;             // the turn whose calls are running
  bool checking_answer_ = false;  // the only call is the trial of an answer
  TurnCalls calls_;               // of this turn
  BackgroundCalls jobs_;
  std::optional<Waiting> waiting_;
  std::optional<v1::EpisodeEnd> ending_;  // it ends so when nothing runs in the background
  EpisodeClock clock_;
  bool watches_ = false;
  bool streams_ = false;
  std::unique_ptr<TurnWatch> watch_;  // of the turn that is drawn; may be null
  TurnOutput drawn_;                  // of it
  bool interrupted_ = false;          // it was told to end
  uint32_t interruptions_ = 0;        // since the seat that works took over
  uint32_t retries_ = 0;
  std::string box_holder_;
  bool over_ = false;
};

}  // namespace tidemill
