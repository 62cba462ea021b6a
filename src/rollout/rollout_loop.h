// The rollout loop runs thousands of episodes at once over one engine.
//
//   rollout.groups --lease--> episodes --> engine (port) --> turns --> tools.* --> inbox --> .. -->
//   replay.trajectories
//
// A group's lease is held and prolonged until every member's trajectory was taken by the bus; only
// then is it acknowledged, so that a worker that dies loses nothing but time.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>

#include "bus/bus.h"
#include "bus/lease_keeper.h"
#include "bus/outbox.h"
#include "bus/questions.h"
#include "core/counters.h"
#include "core/failure_counters.h"
#include "core/loop.h"
#include "core/message_check.h"
#include "core/number_range.h"
#include "core/policy_names.h"
#include "engine/engine_port.h"
#include "rollout/agent_port.h"
#include "rollout/episode.h"
#include "rollout/protocol.h"
#include "rollout/team.h"

namespace tidemill {

struct RolloutOptions {
  std::string worker = "local";
  uint32_t max_episodes = 512;  // at once
  int32_t max_context = 2048;   // tokens of one episode, the engine's at most
  EpisodeLimits limits;
  Duration lease_period = std::chrono::seconds(10);   // how often a group's lease is prolonged
  Duration call_patience = std::chrono::minutes(10);  // an answer that takes longer was lost
  uint32_t give_up_after =
      4;               // deliveries of a group after which it is dropped: it ends its workers
  std::string secret;  // of this worker: what tokens of its requests are made from
  MessageLimits messages;
  PolicyNames policies;               // that the engine has
  std::optional<TeamPlan> team = {};  // who works on an episode; nothing: one agent
};

// Read from any thread.
struct RolloutCounters : CounterSet {
  Counter episodes_running{*this,
                           {.key = "episodes_running",
                            .metric = "tidemill_episodes_running",
                            .help = "Episodes in flight",
                            .kind = Counter::Kind::kLevel}};
  Counter waiting_for_tools{*this,
                            {.key = "waiting_for_tools",
                             .metric = "tidemill_episodes_waiting_for_tools",
                             .help = "Tool calls without a result yet",
                             .kind = Counter::Kind::kLevel}};
  Counter finished{*this,
                   {.key = "episodes_finished",
                    .metric = "tidemill_episodes_finished_total",
                    .help = "Episodes finished"}};
  Counter given_up{*this,
                   {.key = "episodes_given_up",
                    .metric = "tidemill_episodes_given_up_total",
                    .help = "Episodes abandoned after system failures"}};
  Counter tool_calls{*this,
                     {.key = "tool_calls",
                      .metric = "tidemill_tool_calls_asked_total",
                      .help = "Tool calls requested by agents"}};
  Counter early_calls{*this,
                      {.key = "early_calls",
                       .metric = "tidemill_tool_calls_early_total",
                       .help = "Tool calls that began while their turn was drawn"}};
  Counter background_calls{*this,
                           {.key = "background_calls",
                            .metric = "tidemill_tool_calls_background_total",
                            .help = "Tool calls that went on in the background"}};
  Counter cancelled_calls{*this,
                          {.key = "cancelled_calls",
                           .metric = "tidemill_tool_calls_cancelled_total",
                           .help = "Tool calls cancelled before their result came"}};
  Counter generating_us{*this,
                        {.key = "episode_generating_us",
                         .metric = "tidemill_episode_seconds_total",
                         .help = "Time of finished episodes by what they did",
                         .labels = {{"doing", "generating"}},
                         .scale = 1e-6}};
  Counter tool_us{*this,
                  {.key = "episode_tool_us",
                   .metric = "tidemill_episode_seconds_total",
                   .help = "Time of finished episodes by what they did",
                   .labels = {{"doing", "tool"}},
                   .scale = 1e-6}};
  Counter place_us{*this,
                   {.key = "episode_place_us",
                    .metric = "tidemill_episode_seconds_total",
                    .help = "Time of finished episodes by what they did",
                    .labels = {{"doing", "place"}},
                    .scale = 1e-6}};
  Counter tool_retries{*this,
                       {.key = "tool_retries",
                        .metric = "tidemill_retries_total",
                        .help = "Work retried after a system failure",
                        .labels = {{"what", "tool"}}}};
  Counter agent_retries{*this,
                        {.key = "agent_retries",
                         .metric = "tidemill_retries_total",
                         .help = "Work retried after a system failure",
                         .labels = {{"what", "agent"}}}};
  Counter skipped{*this,
                  {.key = "skipped",
                   .metric = "tidemill_skipped_total",
                   .help = "Work abandoned after its retries",
                   .labels = {{"what", "tool"}}}};
  FailureCounters failures{
      *this,
      {.key = "failed_",
       .metric = "tidemill_failures_total",
       .help = "Failures of ours in episodes by what failed, those that were tried again too"}};
  Counter calls_lost{*this,
                     {.key = "calls_lost",
                      .metric = "tidemill_tool_calls_lost_total",
                      .help = "Tool calls without an answer"}};
  Counter groups_lost{*this,
                      {.key = "groups_lost",
                       .metric = "tidemill_groups_lost_total",
                       .help = "Groups whose lease expired while a worker held them"}};
  Counter generated_tokens{*this,
                           {.key = "generated_tokens",
                            .metric = "tidemill_generated_tokens_total",
                            .help = "Tokens sampled"}};
};

class RolloutLoop final : public Loop {
 public:
  // With `agents` every episode is a program that asks the gateway; the loop asks the engine for
  // nothing then.
  RolloutLoop(Bus& bus, EnginePort& engine, const AgentProtocol& protocol, const Clock& clock,
              RolloutOptions options, AgentPort* agents = nullptr);

  std::string_view name() const override { return "rollout"; }
  void Attach(Waker& waker) override;
  Time Step(Time now) override;
  // Gives the groups back at once: another worker, or the resumed run, takes them up.
  void Drain() override;
  bool Drained() const override { return outbox_.waiting() == 0; }

  const RolloutCounters& counters() const { return counters_; }

 private:
  // One for as long as the episode runs here. Its sequence changes where a prompt begins anew.
  using EpisodeNumber = uint64_t;
  struct Group {
    std::shared_ptr<const EpisodeGroup> shared;
    std::map<uint32_t, EpisodeNumber> running;  // by member
  };
  struct Running {
    Episode episode;
    uint64_t group;
    uint32_t member;
    SequenceId sequence = 0;  // the newest, where the engine draws its turns
    Time wakes = kNever;      // the earliest that it asked for
    bool started = false;     // the engine, or the agents' port, knows the sequence
    uint32_t tries = 0;       // of an agent that failed through us
    size_t seat = 0;          // of the team, whose sequence it is
    std::map<size_t, SequenceId> others = {};  // of the seats that may work again
  };
  struct LaterCall {
    EpisodeNumber episode;
    v1::ToolRequest request;
  };

  void TakeGroups(Time now);
  void StartGroup(Lease lease, const v1::GroupLease& group, Time now);
  void TakeEngineEvents(Time now);
  void TakeEpisodeFeed(Time now);
  void TakeDueTimes(Time now);
  Running* OfSequence(SequenceId sequence);
  void StartAgent(EpisodeNumber number);
  void TakeAgents(Time now);
  void StopPorts(EpisodeNumber number, const Running& running);
  void StopSequence(SequenceId sequence);
  void ChangeSeat(EpisodeNumber number, const EpisodeActions& actions);
  void TakeResults(Time now);
  void SendDueCalls(Time now);
  void GiveUpLostCalls(Time now);
  void OnNoResult(EpisodeNumber number, const std::string& id, const std::string& why, Time now);
  void DropLostGroups(Time now);
  void Act(EpisodeNumber number, EpisodeActions actions, Time now);
  void Generate(EpisodeNumber number, EpisodeActions actions);
  void SendCall(EpisodeNumber number, v1::ToolRequest request, Time now);
  void CancelCalls(const Episode& episode, const std::vector<std::string>& requests);
  void FinishEpisode(EpisodeNumber number);
  void Count(const v1::Trajectory& trajectory);
  void ForgetGroup(uint64_t group);
  void TellTools(const v1::ToolCancel& cancel);

  Bus& bus_;
  EnginePort& engine_;
  const AgentProtocol& protocol_;
  const Clock& clock_;
  RolloutOptions options_;
  AgentPort* const agents_;  // may be null
  Outbox outbox_;
  LeaseKeeper leases_;  // by group
  std::unordered_map<uint64_t, Group> groups_;
  uint64_t groups_begun_ = 0;
  std::unordered_map<EpisodeNumber, Running> episodes_;
  std::unordered_map<SequenceId, EpisodeNumber> of_sequence_;  // of the engine's
  Questions<EpisodeNumber> calls_;
  LaterQueue<LaterCall> later_;
  LaterQueue<EpisodeNumber> later_agents_;
  LaterQueue<EpisodeNumber> timers_;    // of episodes that asked to be woken
  std::set<std::string> tool_workers_;  // that answered us
  NumberSource new_sequences_{kRolloutSequences};
  bool draining_ = false;
  RolloutCounters counters_;
};

}  // namespace tidemill
