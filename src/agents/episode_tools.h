// The task's tools for agents that are programs, as a server of the Model Context Protocol behind
// the gateway. The tools run where those of all episodes run; the agent's box gives its files and
// takes the changes.
//
//   Open(name) -> /mcp with the episode's key -> AgentCalls -> tools.* -> inbox -> answer
//              -> Close(name): what was called
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "agents/agent_calls.h"
#include "agents/episode_recorder.h"
#include "bus/bus.h"
#include "bus/outbox.h"
#include "bus/questions.h"
#include "core/counters.h"
#include "core/loop.h"
#include "core/message_check.h"
#include "core/mutex.h"
#include "gateway/mcp_door.h"
#include "mcp/mcp_server.h"
#include "rollout/protocol.h"
#include "store/blobs.h"
#include "tools/box/box.h"

namespace tidemill {

struct EpisodeToolsOptions {
  std::string worker = "local";
  std::string version = "0";  // of the program, for clients
  std::string secret{};       // of this worker: what tokens of its requests are made from
  EpisodeLimits limits{};
  std::vector<ToolDescription> tools{};
  size_t episodes = 64;  // open at once
  Duration lease_period = std::chrono::seconds(10);
  Duration call_patience = std::chrono::minutes(10);  // an answer that takes longer was lost
  Duration progress_every = std::chrono::seconds(5);  // of calls that are waited for
  MessageLimits messages{};
};

// Read from any thread.
struct EpisodeToolsCounters : CounterSet {
  Counter sessions{*this,
                   {.key = "mcp_sessions",
                    .metric = "tidemill_mcp_sessions_total",
                    .help = "Sessions of the Model Context Protocol that agents opened"}};
  Counter calls{*this,
                {.key = "mcp_calls",
                 .metric = "tidemill_mcp_calls_total",
                 .help = "Tool calls that agents made over the Model Context Protocol"}};
  Counter cancelled{*this,
                    {.key = "mcp_cancelled",
                     .metric = "tidemill_mcp_cancelled_total",
                     .help = "Tool calls of such agents that were cancelled"}};
  Counter refused{*this,
                  {.key = "mcp_refused",
                   .metric = "tidemill_mcp_refused_total",
                   .help = "Requests of such agents that were no message of the protocol, or of no "
                           "session"}};
};

// Thread-safe, but for the calls of the one who steps it.
class EpisodeTools final : public Loop, public McpDoor {
 public:
  // What is given by reference must outlive it; `recorder` may be null.
  EpisodeTools(Bus& bus, const Clock& clock, EpisodeToolsOptions options,
               EpisodeRecorder* recorder);
  ~EpisodeTools() override;

  std::string_view name() const override { return "mcp"; }
  void Attach(Waker& waker) override;
  Time Step(Time now) override;
  // What runs in the background is awaited no longer. From any thread.
  void Drain() override;
  bool Drained() const override;

  // A program's attempt at an episode begins. `errands` are done while its program runs, and by
  // Close; `blobs` may be null.
  struct Opening {
    std::shared_ptr<const EpisodeGroup> group;
    uint32_t member = 0;
    BoxErrands* errands = nullptr;
    BlobStore* blobs = nullptr;
  };
  // `name` is Tenant::session of the episode's key; new each time.
  void Open(const std::string& name, const Opening& opening);
  // Not ok: a part of ours failed, and the attempt with it.
  Status Look(const std::string& name) const;
  struct Ending {
    std::vector<v1::ToolCall> calls{};
    Status failed{};
  };
  // The program has ended. Waits for what is awaited at an episode's end.
  Ending Close(const std::string& name, Box& box);

  void Answer(const Tenant& tenant, HttpRequest request, std::unique_ptr<HttpReply> reply) override;

  const EpisodeToolsCounters& counters() const { return counters_; }

 private:
  // A call whose answer is waited for.
  struct Asked {
    std::string session;
    RpcJson id;
    RpcJson progress_token;
    std::unique_ptr<HttpReply> reply;
    bool streams = false;
    Time began{};
  };
  struct Underway {
    Opening opening;
    AgentCalls calls;
    std::vector<McpTool> offered;
    std::set<std::string> sessions{};
    std::map<uint64_t, Asked> asked{};  // by the call's number
    bool errands_wait = false;          // for Close
    bool closing = false;
  };
  struct LaterCall {
    std::string episode;
    v1::ToolRequest request;
  };

  void Hear(const std::string& name, Underway& episode, McpPost post,
            std::unique_ptr<HttpReply> reply) TM_REQUIRES(mutex_);
  void Greet(Underway& episode, const RpcMessage& message, HttpReply& reply) TM_REQUIRES(mutex_);
  void Call(const std::string& name, Underway& episode, McpPost post,
            std::unique_ptr<HttpReply> reply) TM_REQUIRES(mutex_);
  void Note(const std::string& name, Underway& episode, const McpPost& post) TM_REQUIRES(mutex_);
  void EndSession(const std::string& name, Underway& episode, const std::string& session)
      TM_REQUIRES(mutex_);
  void CancelAsked(const std::string& name, Underway& episode, uint64_t number) TM_REQUIRES(mutex_);
  void Act(const std::string& name, Underway& episode, AgentCallActions actions)
      TM_REQUIRES(mutex_);
  void Say(const std::string& name, Underway& episode, const AgentCallActions::Answer& answer)
      TM_REQUIRES(mutex_);
  void AddErrand(Underway& episode, BoxErrands::Errand errand) TM_REQUIRES(mutex_);
  void ReadFiles(const std::string& name, BlobStore* blobs, uint64_t call, Box& box);
  void ChangeFiles(const std::string& name, BlobStore* blobs,
                   const AgentCallActions::Change& change, Box& box);
  void TakeResults(Time now) TM_REQUIRES(mutex_);
  void OnNoResult(const std::string& name, const std::string& id, const std::string& why)
      TM_REQUIRES(mutex_);
  void SendDue(Time now) TM_REQUIRES(mutex_);
  void TellOfProgress(Time now) TM_REQUIRES(mutex_);
  void TellTools(const v1::ToolCancel& cancel) TM_REQUIRES(mutex_);
  static HttpResponse Refusal(int status, const RpcJson& id, const std::string& why);

  const Clock& clock_;
  const EpisodeToolsOptions options_;
  EpisodeRecorder* const recorder_;  // may be null
  Bus& bus_;

  mutable Mutex mutex_;
  CondVar changed_;
  Waker* waker_ TM_GUARDED_BY(mutex_) = nullptr;
  std::map<std::string, Underway> episodes_ TM_GUARDED_BY(mutex_);
  Outbox outbox_ TM_GUARDED_BY(mutex_);
  Questions<std::string> questions_ TM_GUARDED_BY(mutex_);  // about an episode
  LaterQueue<LaterCall> later_ TM_GUARDED_BY(mutex_);
  std::vector<std::string> forgotten_ TM_GUARDED_BY(mutex_);   // requests, since the last step
  std::vector<v1::ToolCancel> cancels_ TM_GUARDED_BY(mutex_);  // to be told
  std::set<std::string> tool_workers_ TM_GUARDED_BY(mutex_);   // that answered us
  bool draining_ TM_GUARDED_BY(mutex_) = false;
  Time next_progress_ TM_GUARDED_BY(mutex_) = kNever;
  EpisodeToolsCounters counters_;
};

}  // namespace tidemill
