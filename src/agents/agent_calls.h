// The calls that an agent that is a program makes of its task's tools, as a state machine: calls
// and results in, requests, answers and wishes for files out. It does no I/O and knows no time but
// what it is told.
//
//   Begin -> files are read (OnFiles) -> request -> OnResult -> files are changed (OnChanged)
//   -> answer
//
// A tool sees the program's workspace as it is when the call is made, and what it changes is put
// there, unless the program changed the same files meanwhile. Results of background calls come with
// the next answer.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/status.h"
#include "proto/tidemill.pb.h"
#include "rollout/background_calls.h"
#include "rollout/episode.h"
#include "rollout/job_tools.h"
#include "rollout/open_call.h"

namespace tidemill {

// What follows from an event.
struct AgentCallActions {
  struct Answer {
    uint64_t call = 0;
    std::vector<std::string> texts{};  // the call's result, then those that are delivered with it
    bool failed = false;
  };
  struct Change {
    uint64_t call = 0;
    v1::Tree before{}, after{};
  };
  std::vector<ToolCallOrder> calls{};
  std::vector<std::string> cancels{};  // requests whose results nobody waits for any more
  std::vector<Answer> answers{};
  std::vector<uint64_t> reads{};  // calls that want the workspace: OnFiles
  std::vector<Change> changes{};  // to be made in the workspace: OnChanged
};

class AgentCalls {
 public:
  // `name` is the session's, which tells the program's attempt from others; `tools` are those that
  // are offered.
  AgentCalls(std::shared_ptr<const EpisodeGroup> group, uint32_t member, std::string name,
             const EpisodeLimits& limits, std::set<std::string> tools);

  // The call's number; the tool is one that is offered. Its answer comes with these actions or
  // later ones, exactly once, unless it is cancelled.
  uint64_t Begin(const std::string& tool, std::string arguments_json, int64_t now_ms,
                 AgentCallActions& actions);
  // kInvalid and kFull: the program's doing.
  void OnFiles(uint64_t call, Result<v1::Tree> files, int64_t now_ms, AgentCallActions& actions);
  // The files that could not be changed; none: all were.
  void OnChanged(uint64_t call, const std::vector<std::string>& kept, int64_t now_ms,
                 AgentCallActions& actions);
  void OnResult(const v1::ToolResult& result, int64_t now_ms, AgentCallActions& actions);
  void OnTime(int64_t now_ms, AgentCallActions& actions);
  // Nobody waits for it any more.
  void Cancel(uint64_t call, int64_t now_ms, AgentCallActions& actions);
  // The program has ended. What runs is cancelled; with `awaits` background calls go on.
  void End(bool awaits, int64_t now_ms, AgentCallActions& actions);

  bool Offers(const std::string& tool) const { return tools_.count(tool) != 0; }
  bool WaitsFor(const std::string& request_id) const;
  // When OnTime is wanted; nothing: no time matters.
  std::optional<int64_t> wakes_ms(int64_t now_ms) const;
  bool idle() const { return calls_.empty() && jobs_.running() == 0; }
  // Not ok: a part of ours failed in a way that ends the episode.
  const Status& failed() const { return failed_; }
  // What was called, in order, for the record.
  std::vector<v1::ToolCall> Record() const;
  const v1::TrajectoryId& id() const { return id_; }
  std::string CancelToken() const;
  const std::string& box_holder() const { return box_holder_; }

 private:
  struct Call : OpenCall {
    enum class State : uint8_t { kReading, kAsked, kChanging, kWaiting } state = State::kReading;
    bool background = false;
    size_t record = 0;  // its place
    std::optional<WaitOrder> order{};
    std::optional<int64_t> until_ms{};
  };
  using Calls = std::map<uint64_t, Call>;

  void Refuse(uint64_t number, std::string why, AgentCallActions& actions) const;
  void RunJobTool(uint64_t number, Call& call, int64_t now_ms, AgentCallActions& actions);
  void LaunchJob(uint64_t number, Call call, int64_t now_ms, AgentCallActions& actions);
  void TakeJobResult(BackgroundCalls::Job& job, v1::ToolResult result, int64_t now_ms,
                     AgentCallActions& actions);
  void TakeCallResult(uint64_t number, Call& call, const v1::ToolResult& result, int64_t now_ms,
                      AgentCallActions& actions);
  // Answers those that wait for what has come.
  void AfterJobs(int64_t now_ms, AgentCallActions& actions);
  void AnswerCall(uint64_t number, AgentCallActions& actions);
  void AnswerWith(uint64_t number, v1::Outcome outcome, std::string text, int64_t now_ms,
                  AgentCallActions& actions);
  v1::ToolRequest RequestOf(uint64_t number, const std::string& tool,
                            std::string arguments_json) const;
  // The request is tried again, or its failure ends the episode; false: the agent is told.
  bool Retried(OpenCall& call, const v1::ToolResult& result, int64_t now_ms,
               AgentCallActions& actions);

  const std::shared_ptr<const EpisodeGroup> group_;
  const std::string name_;
  const EpisodeLimits limits_;
  const std::set<std::string> tools_;
  v1::TrajectoryId id_;
  Calls calls_;  // that are not over, in the order they were made
  BackgroundCalls jobs_;
  // Background calls whose files are being changed, by the number of their change.
  std::map<uint64_t, std::pair<std::string, v1::ToolResult>> changing_;
  std::vector<v1::ToolCall> records_;
  uint64_t made_ = 0;  // calls and changes that ever were
  std::string box_holder_;
  Status failed_;
};

}  // namespace tidemill
