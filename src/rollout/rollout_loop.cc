#include "rollout/rollout_loop.h"

#include <algorithm>

#include "bus/read_message.h"
#include "core/topics.h"
#include "tools/tool_table.h"

namespace tidemill {
namespace {

v1::ToolCancel CancelOf(const Episode& episode) {
  v1::ToolCancel cancel;
  *cancel.mutable_episode() = episode.id();
  cancel.set_token(episode.CancelToken());
  return cancel;
}

// Each member's prompt with its own cases, as far as they fit and leave room for the answer.
Status PutPrompts(const AgentProtocol& protocol, EpisodeGroup& group) {
  const v1::GroupLease& lease = group.lease;
  const v1::CaseSet none;
  TM_ASSIGN_OR_RETURN(group.prompt, protocol.Prompt({lease.task(), none, group.opened_ms}));
  if (lease.contexts().empty()) return Ok();
  const int64_t room = group.max_context - static_cast<int64_t>(group.prompt.size()) -
                       int64_t{lease.sampling().max_turn_tokens()} * lease.max_turns();
  const auto most =
      static_cast<size_t>(std::clamp<int64_t>(room, 0, int64_t{lease.max_case_tokens()}));
  for (uint32_t member = 0; member < lease.members(); ++member) {
    v1::CaseSet cases;
    if (static_cast<int>(member) < lease.contexts_size()) {
      cases = lease.contexts(static_cast<int>(member));
    }
    TM_ASSIGN_OR_RETURN(std::vector<TokenId> prompt,
                        PromptWithin(protocol, lease.task(), group.opened_ms, most, cases));
    group.prompts.push_back(std::move(prompt));
    group.cases.push_back(std::move(cases));
  }
  return Ok();
}

constexpr size_t kResultsAtOnce = 256;
constexpr size_t kToolWorkersKnown = 1024;

QuestionOptions CallsOf(const RolloutOptions& options) {
  QuestionOptions calls;
  calls.inbox = InboxTopic(options.worker, "rollout");
  // Room for every call that every episode may have open.
  calls.most = size_t{options.max_episodes} * options.limits.calls_per_turn;
  calls.patience = options.call_patience;
  calls.secret = options.secret;
  calls.limits = options.messages;
  return calls;
}

}  // namespace

RolloutLoop::RolloutLoop(Bus& bus, EnginePort& engine, const AgentProtocol& protocol,
                         const Clock& clock, RolloutOptions options, AgentPort* agents)
    : bus_(bus),
      engine_(engine),
      protocol_(protocol),
      clock_(clock),
      options_(std::move(options)),
      agents_(agents),
      outbox_(bus, options_.lease_period),
      leases_(bus, options_.lease_period),
      calls_(bus, outbox_, CallsOf(options_)) {}

void RolloutLoop::Attach(Waker& waker) {
  calls_.Attach(waker);
  bus_.Subscribe(kGroupsTopic, waker);
  if (agents_ != nullptr) {
    agents_->events().Attach(waker);
  } else {
    engine_.events().Attach(waker);
  }
}

Time RolloutLoop::Step(Time now) {
  TakeResults(now);
  agents_ != nullptr ? TakeAgents(now) : TakeEngineEvents(now);
  SendDueCalls(now);
  GiveUpLostCalls(now);
  DropLostGroups(now);
  if (!draining_) TakeGroups(now);
  outbox_.Flush(now);
  counters_.generated_tokens = engine_.Stats().generated_tokens;  // as drawn, turn over or not
  counters_.episodes_running = episodes_.size();
  counters_.waiting_for_tools = calls_.open();
  Time wake =
      std::min({now + milliseconds(100), leases_.next(), later_.next(), later_agents_.next()});
  if (outbox_.waiting() > 0) wake = std::min(wake, now + milliseconds(5));
  return wake;
}

void RolloutLoop::TakeGroups(Time now) {
  while (episodes_.size() < options_.max_episodes) {
    std::vector<Lease> leases = TakeFrom(bus_, kGroupsTopic, 1);
    if (leases.empty()) return;
    Lease& lease = leases[0];
    v1::GroupLease group;
    if (!ReadOrReject(bus_, lease, group, options_.messages)) continue;
    if (lease.deliveries > options_.give_up_after) {
      v1::GroupGivenUp given_up;
      given_up.set_group(group.group());
      given_up.set_token(group.token());
      given_up.set_reason("abandoned after " + std::to_string(lease.deliveries - 1) +
                          " workers were lost");
      outbox_.Publish(kGivenUpTopic, given_up.SerializeAsString(), std::move(lease));
      continue;
    }
    if (groups_.count(group.group()) != 0) {
      if (leases_.StillOurs(group.group())) {  // a repetition of what is running
        (void)bus_.Ack(lease);
        continue;
      }
      ForgetGroup(group.group());  // ours ran out and came back to us: the newer delivery counts
    }
    StartGroup(std::move(lease), group, now);
  }
}

void RolloutLoop::StartGroup(Lease lease, const v1::GroupLease& group, Time now) {
  auto shared = std::make_shared<EpisodeGroup>();
  shared->lease = group;
  shared->attempt = lease.deliveries;
  shared->worker = options_.worker;
  shared->secret = options_.secret;
  shared->max_context = options_.max_context;
  if (group.max_context_tokens() > 0) {
    shared->max_context =
        std::min(shared->max_context, static_cast<int32_t>(group.max_context_tokens()));
  }
  shared->opened_ms = clock_.WallMs();
  shared->prompted = PutPrompts(protocol_, *shared);
  if (!shared->prompted.ok()) shared->prompts.clear(), shared->cases.clear();
  leases_.Hold(group.group(), std::move(lease), now);
  Group& entry = groups_[group.group()];
  entry.shared = shared;
  std::vector<SequenceId> sequences;
  for (uint32_t member = 0; member < group.members(); ++member) {
    const SequenceId sequence = new_sequences_.Take();
    entry.running.emplace(member, sequence);
    episodes_.emplace(sequence,
                      Running{Episode(shared, member, protocol_, options_.limits, clock_.WallMs()),
                              group.group(), member});
    sequences.push_back(sequence);
  }
  for (SequenceId sequence : sequences) {
    if (agents_ != nullptr) {
      StartAgent(sequence);
      continue;
    }
    Act(sequence, episodes_.at(sequence).episode.Begin(clock_.WallMs()), now);
  }
}

void RolloutLoop::StartAgent(SequenceId sequence) {
  Running& running = episodes_.at(sequence);
  running.started = true;
  agents_->Start({groups_.at(running.group).shared, running.member}, sequence);
}

void RolloutLoop::TakeAgents(Time now) {
  for (AgentDone& done : agents_->events().TakeAll()) {
    const auto it = episodes_.find(done.tag);
    if (it == episodes_.end()) continue;  // given up meanwhile
    Running& running = it->second;
    running.started = false;
    if (done.outcome.status.ok()) {
      Act(done.tag, running.episode.OnAgent(std::move(done.outcome), clock_.WallMs()), now);
    } else if (RowOf(done.outcome.failure).deed == FailureDeed::kRetry &&
               running.tries < options_.limits.tool_retries) {
      later_agents_.Put(now + BackOff(options_.limits.retry_delay, running.tries++), done.tag);
      ++counters_.agent_retries;
    } else {
      Act(done.tag, running.episode.GiveUpAgent(std::move(done.outcome), clock_.WallMs()), now);
    }
  }
  for (const SequenceId sequence : later_agents_.TakeDue(now)) {
    if (episodes_.count(sequence) != 0) StartAgent(sequence);
  }
}

void RolloutLoop::StopPorts(SequenceId sequence, const Running& running) {
  if (!running.started) return;
  if (agents_ != nullptr) {
    agents_->Cancel(sequence);
  } else {
    engine_.Release(sequence);
  }
}

void RolloutLoop::Act(SequenceId sequence, EpisodeActions actions, Time now) {
  auto it = episodes_.find(sequence);
  if (it == episodes_.end()) return;
  Running& running = it->second;
  if (actions.finished) {
    FinishEpisode(sequence);
    return;
  }
  for (ToolCallOrder& call : actions.calls) {
    if (call.delay.count() == 0)
      SendCall(sequence, std::move(call.request), now);
    else
      later_.Put(now + call.delay, {sequence, std::move(call.request)});
  }
  if (!actions.generate) return;
  if (running.started && !actions.anew) {
    engine_.Continue(sequence, std::move(actions.append), std::move(actions.turn));
    return;
  }
  Group& group = groups_.at(running.group);
  SequenceStart start;
  start.turn = std::move(actions.turn);
  if (actions.anew) {
    StopPorts(sequence, running);
    start.prompt = std::move(actions.append);
    sequence = new_sequences_.Take();
    group.running.at(running.member) = sequence;
    auto node = episodes_.extract(it);
    node.key() = sequence;
    it = episodes_.insert(std::move(node)).position;
  } else {
    start.prompt = group.shared->PromptOf(running.member);
    if (group.shared->prompts.empty()) start.share_group = running.group;
  }
  start.id = sequence;
  it->second.started = true;
  engine_.Start(std::move(start));
}

void RolloutLoop::SendCall(SequenceId sequence, v1::ToolRequest request, Time now) {
  ++counters_.tool_calls;
  std::string topic(ToolTopic(request.tool()));
  if (!request.box_holder().empty()) topic = ToolBoxTopic(request.box_holder());
  calls_.Ask(topic, std::move(request), sequence, now);
}

void RolloutLoop::SendDueCalls(Time now) {
  for (LaterCall& due : later_.TakeDue(now)) {
    if (episodes_.count(due.sequence) == 0) continue;
    ++counters_.tool_retries;
    SendCall(due.sequence, std::move(due.request), now);
  }
}

void RolloutLoop::TakeEngineEvents(Time now) {
  for (EngineEvent& event : engine_.events().TakeAll()) {
    auto it = episodes_.find(event.turn.id);
    if (it == episodes_.end()) continue;  // given up meanwhile
    Episode& episode = it->second.episode;
    EpisodeActions actions =
        event.status.ok()
            ? episode.OnTurn(event.turn, clock_.WallMs())
            : episode.GiveUp(Failure::kEngine, event.status.ToString(), clock_.WallMs());
    if (!event.status.ok()) it->second.started = false;  // the engine forgot it
    Act(event.turn.id, std::move(actions), now);
  }
}

void RolloutLoop::TakeResults(Time now) {
  for (auto& [sequence, status, result, lease] :
       calls_.TakeAnswers<v1::ToolResult>(kResultsAtOnce)) {
    if (!status.ok()) {
      OnNoResult(sequence, result.request_id(), status.message(), now);
      continue;
    }
    (void)bus_.Ack(lease);
    if (tool_workers_.size() < kToolWorkersKnown) tool_workers_.insert(result.worker());
    auto it = episodes_.find(sequence);
    if (it == episodes_.end()) continue;
    Act(sequence, it->second.episode.OnResult(result, clock_.WallMs()), now);
  }
}

// A request that died on the way is never answered.
void RolloutLoop::GiveUpLostCalls(Time now) {
  for (const auto& [id, sequence] : calls_.TakeLost(now)) {
    ++counters_.calls_lost;
    OnNoResult(sequence, id, "no answer in time", now);
  }
}

// The call counts as unavailable, which is ours, and the episode tries again.
void RolloutLoop::OnNoResult(SequenceId sequence, const std::string& id, const std::string& why,
                             Time now) {
  auto it = episodes_.find(sequence);
  if (it == episodes_.end()) return;
  v1::ToolResult result;
  result.set_request_id(id);
  result.set_outcome(v1::OUTCOME_UNAVAILABLE);
  result.set_cause(why);
  Act(sequence, it->second.episode.OnResult(result, clock_.WallMs()), now);
}

void RolloutLoop::DropLostGroups(Time now) {
  for (uint64_t group : leases_.Extend(now)) {
    ++counters_.groups_lost;
    ForgetGroup(group);
  }
}

void RolloutLoop::FinishEpisode(SequenceId sequence) {
  auto node = episodes_.extract(sequence);
  Running& running = node.mapped();
  const v1::Trajectory trajectory = running.episode.TakeTrajectory();
  ++counters_.finished;
  if (trajectory.end() == v1::EPISODE_END_GIVEN_UP) ++counters_.given_up;
  for (const v1::Turn& turn : trajectory.turns()) {
    for (const v1::ToolCall& call : turn.calls()) counters_.skipped += call.skipped() ? 1 : 0;
  }
  StopPorts(sequence, running);
  if (const std::string& holder = running.episode.box_holder(); !holder.empty()) {
    (void)bus_.Publish(ToolCancelTopic(holder), CancelOf(running.episode).SerializeAsString());
  }
  Group& group = groups_.at(running.group);
  group.running.erase(running.member);
  std::optional<Lease> done;
  if (group.running.empty()) {
    done = leases_.Take(running.group);
    groups_.erase(running.group);
  }
  // One topic keeps its order: when the last member was taken, so were the others, and the group is
  // done.
  outbox_.Publish(kTrajectoriesTopic, trajectory.SerializeAsString(), std::move(done));
}

void RolloutLoop::ForgetGroup(uint64_t group_id) {
  auto node = groups_.extract(group_id);
  if (node.empty()) return;
  for (auto& [member, sequence] : node.mapped().running) {
    auto it = episodes_.find(sequence);
    if (it == episodes_.end()) continue;
    StopPorts(sequence, it->second);
    TellTools(it->second.episode);
    episodes_.erase(it);
  }
  if (leases_.Holds(group_id)) (void)leases_.Take(group_id);
}

// To every tool worker we know of. Best effort: one that does not hear it runs a call in vain.
void RolloutLoop::TellTools(const Episode& given_up) {
  const v1::ToolCancel cancel = CancelOf(given_up);
  for (auto it = tool_workers_.begin(); it != tool_workers_.end();) {
    const Status sent = bus_.Publish(ToolCancelTopic(*it), cancel.SerializeAsString());
    it = sent.code() == Code::kNotFound ? tool_workers_.erase(it) : std::next(it);
  }
}

void RolloutLoop::Drain() {
  draining_ = true;
  std::vector<uint64_t> held;
  for (auto& [id, group] : groups_) held.push_back(id);
  for (uint64_t id : held) {
    if (leases_.Holds(id)) (void)bus_.Release(leases_.Take(id), Duration(0));
    ForgetGroup(id);
  }
}

}  // namespace tidemill
