// The tool loop serves the tools.* topics.
//
//   tools.* --lease--> known already? stored result : cache? : port (boxes) --> result to reply_to,
//   then ack
//
// It takes no more than there are slots, prolongs leases while tools run, and answers a request
// that comes a second time with the result of the first.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "bus/bus.h"
#include "bus/lease_keeper.h"
#include "bus/outbox.h"
#include "core/counters.h"
#include "core/loop.h"
#include "core/message_check.h"
#include "tools/tool_cache.h"
#include "tools/tool_config.h"
#include "tools/tool_port.h"

namespace tidemill {

// Waiting added to the agent's calls, to see what slow tools do to a run: log-normal, one call in a
// thousand at `tail`, none above it. It takes no slot.
struct AddedWait {
  Duration median{0};  // 0: none
  Duration tail{0};

  // The same for the same request.
  Duration Of(std::string_view request_id) const;
};

struct ToolLoopOptions : ToolConfig {
  std::string worker = "local";
  Duration lease_period = std::chrono::seconds(10);  // how often leases are prolonged
  size_t remember_results = 1024;                    // finished requests, by id
  MessageLimits limits;
  std::set<std::string> asked_tools;  // of programs that are asked: their answers are not shared
};

// Read from any thread.
struct ToolCounters : CounterSet {
  Counter requests{*this,
                   {.key = "tool_requests",
                    .metric = "tidemill_tool_calls_total",
                    .help = "Tool requests received",
                    .labels = {{"kind", "agent"}}}};
  Counter gradings{*this,
                   {.key = "gradings",
                    .metric = "tidemill_tool_calls_total",
                    .help = "Tool requests received",
                    .labels = {{"kind", "grade"}}}};
  Counter background{*this,
                     {.key = "tool_background",
                      .metric = "tidemill_tool_background_total",
                      .help = "Tool requests whose agent goes on meanwhile"}};
  Counter running{*this,
                  {.key = "tools_running",
                   .metric = "tidemill_tool_calls_running",
                   .help = "Tool requests running",
                   .kind = Counter::Kind::kLevel}};
  Counter completed{*this,
                    {.key = "tool_commands",
                     .metric = "tidemill_tool_commands_total",
                     .help = "Tool requests run in boxes"}};
  Counter unavailable{*this,
                      {.key = "unavailable",
                       .metric = "tidemill_tool_unavailable_total",
                       .help = "Tool requests that failed because of the system"}};
  Counter cache_hits{*this,
                     {.key = "cache_hits",
                      .metric = "tidemill_tool_cache_hits_total",
                      .help = "Tool requests answered from the cache"}};
  Counter cache_misses{*this,
                       {.key = "cache_misses",
                        .metric = "tidemill_tool_cache_misses_total",
                        .help = "Tool requests not in the cache"}};
  Counter joined{*this,
                 {.key = "cache_joined",
                  .metric = "tidemill_tool_joined_total",
                  .help = "Tool requests that shared the run of an identical one"}};
  Counter repeated{*this,
                   {.key = "tool_repeated",
                    .metric = "tidemill_tool_repeated_total",
                    .help = "Tool requests delivered again"}};
  Counter cancelled{*this,
                    {.key = "tool_cancelled",
                     .metric = "tidemill_tool_cancelled_total",
                     .help = "Tool requests cancelled: nobody waits for them any more"}};
  Counter wall_us{*this,
                  {.key = "tool_wall_us",
                   .metric = "tidemill_tool_wall_seconds_total",
                   .help = "Total wall-clock time of tool requests run in boxes",
                   .scale = 1e-6}};
  Counter queue_us{*this,
                   {.key = "tool_queue_us",
                    .metric = "tidemill_tool_queue_seconds_total",
                    .help = "Total queue wait of tool requests run in boxes",
                    .scale = 1e-6}};
};

class ToolLoop final : public Loop {
 public:
  ToolLoop(Bus& bus, ToolPort& port, ToolLoopOptions options);

  std::string_view name() const override { return "tools"; }
  void Attach(Waker& waker) override;
  Time Step(Time now) override;
  // Takes nothing new; what runs is finished and answered.
  void Drain() override { draining_ = true; }
  bool Drained() const override { return running_.empty() && outbox_.waiting() == 0; }

  const ToolCounters& counters() const { return counters_; }

 private:
  struct Running {
    v1::ToolRequest asked;  // as far as an answer needs it
    std::string hash;       // of the whole request
    bool grading = false;
    std::vector<std::pair<uint64_t, v1::ToolRequest>> followers;  // identical requests, by tag
  };

  void TakeDone();
  void TakeCancels();
  void CancelOne(const std::string& episode, const std::string& request_id);
  void TakeRequests(std::string_view topic, bool grading, Time now);
  void Start(Lease lease, bool grading, Time now);
  // Whether those who ask the same may have one answer.
  bool Shares(const v1::ToolRequest& request) const;
  // Answers without a box what can be: a repetition, a given-up episode, a known result. `hash`: of
  // the request.
  bool AnswerAtOnce(const v1::ToolRequest& request, const std::string& hash, Lease& lease);
  bool JoinRunning(const v1::ToolRequest& request, const std::string& hash, Lease& lease, Time now);
  void Answer(const v1::ToolRequest& asked, const std::string& hash, v1::ToolResult result,
              Lease lease);
  size_t Free(bool grading) const;

  Bus& bus_;
  ToolPort& port_;
  ToolLoopOptions options_;
  const std::string cancels_;  // topic
  const std::string boxes_;    // topic: calls of episodes whose box is here
  Outbox outbox_;
  LeaseKeeper leases_;  // by tag
  ToolCache cache_;
  std::unordered_map<uint64_t, Running> running_;  // by tag
  // By request id, token and hash: who cannot show the token asks something else.
  std::unordered_map<std::string, uint64_t> running_ids_;  // to tag
  std::unordered_map<std::string, std::string> finished_;  // results in bytes
  std::deque<std::string> finished_order_;
  std::unordered_set<std::string> cancelled_;  // episodes given up, with their tokens
  std::deque<std::string> cancelled_order_;
  std::unordered_set<std::string> served_;  // episodes of which a call was taken, likewise
  std::deque<std::string> served_order_;
  std::unordered_map<std::string, uint64_t> running_hashes_;  // content hash to tag
  size_t running_gradings_ = 0;
  size_t next_topic_ = 0;  // so that no topic is always first
  uint64_t next_tag_ = 1;
  bool draining_ = false;
  ToolCounters counters_;
};

}  // namespace tidemill
