#include "rollout/rollout_loop.h"

#include <algorithm>

#include "bus/read_message.h"
#include "core/topics.h"
#include "rollout/open_call.h"
#include "tools/tool_table.h"

namespace tidemill {
namespace {

v1::ToolCancel CancelOf(const Episode& episode) {
  v1::ToolCancel cancel;
  *cancel.mutable_episode() = episode.id();
  cancel.set_token(episode.CancelToken());
  return cancel;
}

// Each member's prompt with its own skills and cases, as far as they fit and leave room for the
// answer. An agent that is a program reads its skills as files, every one of them.
Status PutPrompts(const AgentProtocol& protocol, bool program, EpisodeGroup& group) {
  const v1::GroupLease& lease = group.lease;
  const v1::CaseSet none;
  if (group.team != nullptr) {
    const v1::Task first =
        TaskFor(group.team->seats[0], TeamPlay(*group.team).Submits(0), lease.task(), "");
    TM_ASSIGN_OR_RETURN(group.prompt, protocol.Prompt({first, none, group.opened_ms}));
    return Ok();
  }
  TM_ASSIGN_OR_RETURN(group.prompt, protocol.Prompt({lease.task(), none, group.opened_ms}));
  if (lease.contexts().empty()) return Ok();
  const int64_t room = group.max_context - static_cast<int64_t>(group.prompt.size()) -
                       int64_t{lease.sampling().max_turn_tokens()} * lease.max_turns();
  const auto within = [room](size_t used, uint32_t most) {
    return static_cast<size_t>(
        std::clamp<int64_t>(room - static_cast<int64_t>(used), 0, int64_t{most}));
  };
  for (uint32_t member = 0; member < lease.members(); ++member) {
    v1::CaseSet cases;
    if (static_cast<int>(member) < lease.contexts_size()) {
      cases = lease.contexts(static_cast<int>(member));
    }
    if (program) {
      group.prompts.push_back(group.prompt);
      group.cases.push_back(std::move(cases));
      continue;
    }
    TM_ASSIGN_OR_RETURN(const size_t skills, FitSkills(protocol, lease.task(), group.opened_ms,
                                                       within(0, lease.max_skill_tokens()), cases));
    TM_ASSIGN_OR_RETURN(std::vector<TokenId> prompt,
                        PromptWithin(protocol, lease.task(), group.opened_ms,
                                     within(skills, lease.max_case_tokens()), cases));
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
  calls.most =
      size_t{options.max_episodes} * (options.limits.calls_per_turn + options.limits.jobs.jobs);
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
    if (TurnFeed* feed = engine_.episode_feed()) feed->Attach(waker);
  }
}

Time RolloutLoop::Step(Time now) {
  TakeResults(now);
  agents_ != nullptr ? TakeAgents(now) : TakeEngineEvents(now);
  TakeEpisodeFeed(now);
  TakeDueTimes(now);
  SendDueCalls(now);
  GiveUpLostCalls(now);
  DropLostGroups(now);
  if (!draining_) TakeGroups(now);
  outbox_.Flush(now);
  counters_.generated_tokens = engine_.Stats().generated_tokens;  // as drawn, turn over or not
  counters_.episodes_running = episodes_.size();
  counters_.waiting_for_tools = calls_.open();
  Time wake = std::min({now + milliseconds(100), leases_.next(), later_.next(),
                        later_agents_.next(), timers_.next()});
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
  shared->begun = ++groups_begun_;
  shared->secret = options_.secret;
  shared->max_context = options_.max_context;
  if (group.max_context_tokens() > 0) {
    shared->max_context =
        std::min(shared->max_context, static_cast<int32_t>(group.max_context_tokens()));
  }
  shared->opened_ms = clock_.WallMs();
  if (options_.team) shared->team = &*options_.team;
  const auto policy = options_.policies.Find(group.policy());
  if (policy.ok()) shared->policy = *policy;
  shared->prompted =
      policy.ok() ? PutPrompts(protocol_, agents_ != nullptr, *shared) : policy.status();
  if (!shared->prompted.ok()) shared->prompts.clear(), shared->cases.clear();
  leases_.Hold(group.group(), std::move(lease), now);
  Group& entry = groups_[group.group()];
  entry.shared = shared;
  std::vector<EpisodeNumber> numbers;
  for (uint32_t member = 0; member < group.members(); ++member) {
    const EpisodeNumber number = new_sequences_.Take();  // its first sequence
    entry.running.emplace(member, number);
    episodes_.emplace(number,
                      Running{Episode(shared, member, protocol_, options_.limits, clock_.WallMs()),
                              group.group(), member, number});
    numbers.push_back(number);
  }
  for (const EpisodeNumber number : numbers) {
    if (agents_ != nullptr) {
      StartAgent(number);
      continue;
    }
    of_sequence_.emplace(number, number);
    Act(number, episodes_.at(number).episode.Begin(clock_.WallMs()), now);
  }
}

void RolloutLoop::StartAgent(EpisodeNumber number) {
  Running& running = episodes_.at(number);
  running.started = true;
  agents_->Start({groups_.at(running.group).shared, running.member}, number);
}

void RolloutLoop::TakeAgents(Time now) {
  for (AgentDone& done : agents_->events().TakeAll()) {
    const auto it = episodes_.find(done.tag);
    if (it == episodes_.end()) continue;  // given up meanwhile
    Running& running = it->second;
    running.started = false;
    if (!done.outcome.status.ok()) counters_.failures.Add(done.outcome.failure);
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
  for (const EpisodeNumber number : later_agents_.TakeDue(now)) {
    if (episodes_.count(number) != 0) StartAgent(number);
  }
}

void RolloutLoop::StopSequence(SequenceId sequence) {
  of_sequence_.erase(sequence);
  engine_.Release(sequence);
}

void RolloutLoop::StopPorts(EpisodeNumber number, const Running& running) {
  for (const auto& [seat, sequence] : running.others) StopSequence(sequence);
  of_sequence_.erase(running.sequence);
  if (!running.started) return;
  if (agents_ != nullptr) {
    agents_->Cancel(number);
  } else {
    engine_.Release(running.sequence);
  }
}

void RolloutLoop::Act(EpisodeNumber number, EpisodeActions actions, Time now) {
  auto it = episodes_.find(number);
  if (it == episodes_.end()) return;
  Running& running = it->second;
  if (!actions.cancels.empty()) CancelCalls(running.episode, actions.cancels);
  if (actions.finished) {
    FinishEpisode(number);
    return;
  }
  for (ToolCallOrder& call : actions.calls) {
    if (call.delay.count() == 0)
      SendCall(number, std::move(call.request), now);
    else
      later_.Put(now + call.delay, {number, std::move(call.request)});
  }
  if (actions.wake_in && now + *actions.wake_in < running.wakes) {
    running.wakes = now + *actions.wake_in;
    timers_.Put(running.wakes, number);
  }
  if (actions.interrupt) engine_.Interrupt(running.sequence);
  if (actions.generate) Generate(number, std::move(actions));
}

// Another seat works from here on, with its own sequence or, at first, without one.
void RolloutLoop::ChangeSeat(EpisodeNumber number, const EpisodeActions& actions) {
  Running& running = episodes_.at(number);
  if (actions.leaves) {
    StopSequence(running.sequence);
  } else {
    running.others[running.seat] = running.sequence;
  }
  running.seat = actions.seat;
  const auto own = running.others.extract(actions.seat);
  running.started = !own.empty();
  if (running.started) running.sequence = own.mapped();
}

void RolloutLoop::Generate(EpisodeNumber number, EpisodeActions actions) {
  Running& running = episodes_.at(number);
  if (actions.seat != running.seat) ChangeSeat(number, actions);
  if (running.started && !actions.anew) {
    engine_.Continue(running.sequence, std::move(actions.append), std::move(actions.turn));
    return;
  }
  Group& group = groups_.at(running.group);
  SequenceStart start;
  start.turn = std::move(actions.turn);
  if (actions.anew) {
    if (running.started) StopSequence(running.sequence);
    start.prompt = std::move(actions.append);
    running.sequence = new_sequences_.Take();
    of_sequence_.emplace(running.sequence, number);
  } else {
    start.prompt = group.shared->PromptOf(running.member);
    if (group.shared->prompts.empty()) start.share_group = running.group;
  }
  start.id = running.sequence;
  start.policy = actions.policy;
  start.stream = running.episode.streams() && engine_.episode_feed() != nullptr;
  start.readers = TurnReaders::kEpisodes;
  running.started = true;
  engine_.Start(std::move(start));
}

void RolloutLoop::SendCall(EpisodeNumber number, v1::ToolRequest request, Time now) {
  ++counters_.tool_calls;
  std::string topic(ToolTopic(request.tool()));
  if (!request.box_holder().empty()) topic = ToolBoxTopic(request.box_holder());
  calls_.Ask(topic, std::move(request), number, now);
}

// A result that comes all the same is for nobody.
void RolloutLoop::CancelCalls(const Episode& episode, const std::vector<std::string>& requests) {
  v1::ToolCancel cancel = CancelOf(episode);
  for (const std::string& id : requests) {
    calls_.Forget(id);
    cancel.add_request_ids(id);
    ++counters_.cancelled_calls;
  }
  TellTools(cancel);
}

void RolloutLoop::SendDueCalls(Time now) {
  for (LaterCall& due : later_.TakeDue(now)) {
    auto it = episodes_.find(due.episode);
    // Cancelled before its next try, perhaps.
    if (it == episodes_.end() || !it->second.episode.WaitsFor(due.request.request_id())) continue;
    ++counters_.tool_retries;
    SendCall(due.episode, std::move(due.request), now);
  }
}

RolloutLoop::Running* RolloutLoop::OfSequence(SequenceId sequence) {
  const auto number = of_sequence_.find(sequence);
  return number == of_sequence_.end() ? nullptr : &episodes_.at(number->second);
}

void RolloutLoop::TakeEngineEvents(Time now) {
  for (EngineEvent& event : engine_.events().TakeAll()) {
    Running* running = OfSequence(event.turn.id);
    if (running == nullptr) continue;  // given up meanwhile
    const EpisodeNumber number = of_sequence_.at(event.turn.id);
    const bool cancelled = event.turn.finish == TurnFinish::kCancelled;
    if (!event.status.ok() || cancelled) counters_.failures.Add(Failure::kEngine);
    EpisodeActions actions =
        event.status.ok()
            ? running->episode.OnTurn(event.turn, clock_.WallMs())
            : running->episode.GiveUp(Failure::kEngine, event.status.ToString(), clock_.WallMs());
    if (!event.status.ok()) running->started = false;  // the engine forgot it
    Act(number, std::move(actions), now);
  }
}

void RolloutLoop::TakeEpisodeFeed(Time now) {
  TurnFeed* const feed = agents_ == nullptr ? engine_.episode_feed() : nullptr;
  if (feed == nullptr) return;
  for (TurnDelta& delta : feed->TakeAll()) {
    const SequenceId sequence = delta.part.id;
    Running* running = OfSequence(sequence);
    if (running == nullptr) continue;
    const EpisodeNumber number = of_sequence_.at(sequence);
    const bool cancelled = delta.done && delta.part.finish == TurnFinish::kCancelled;
    if (!delta.status.ok() || cancelled) counters_.failures.Add(Failure::kEngine);
    EpisodeActions actions;
    if (delta.status.ok()) {
      actions = running->episode.OnTokens(std::move(delta.part), delta.done, clock_.WallMs());
      if (!delta.done) counters_.early_calls += actions.calls.size();
    } else {
      running->started = false;
      actions = running->episode.GiveUp(Failure::kEngine, delta.status.ToString(), clock_.WallMs());
    }
    Act(number, std::move(actions), now);
  }
}

void RolloutLoop::TakeDueTimes(Time now) {
  for (const EpisodeNumber number : timers_.TakeDue(now)) {
    auto it = episodes_.find(number);
    if (it == episodes_.end()) continue;
    it->second.wakes = kNever;  // it asks again
    Act(number, it->second.episode.OnTime(clock_.WallMs()), now);
  }
}

void RolloutLoop::TakeResults(Time now) {
  for (auto& [number, status, result, lease] : calls_.TakeAnswers<v1::ToolResult>(kResultsAtOnce)) {
    if (!status.ok()) {
      OnNoResult(number, result.request_id(), status.message(), now);
      continue;
    }
    (void)bus_.Ack(lease);
    if (tool_workers_.size() < kToolWorkersKnown) tool_workers_.insert(result.worker());
    auto it = episodes_.find(number);
    if (it == episodes_.end()) continue;
    if (FailedThroughUs(result)) {
      counters_.failures.Add(result.box_lost() ? Failure::kBoxLost : Failure::kTool);
    }
    Act(number, it->second.episode.OnResult(result, clock_.WallMs()), now);
  }
}

// A request that died on the way is never answered.
void RolloutLoop::GiveUpLostCalls(Time now) {
  for (const auto& [id, number] : calls_.TakeLost(now)) {
    ++counters_.calls_lost;
    OnNoResult(number, id, "no answer in time", now);
  }
}

// The call counts as unavailable, which is ours, and the episode tries again.
void RolloutLoop::OnNoResult(EpisodeNumber number, const std::string& id, const std::string& why,
                             Time now) {
  auto it = episodes_.find(number);
  if (it == episodes_.end()) return;
  v1::ToolResult result;
  result.set_request_id(id);
  result.set_outcome(v1::OUTCOME_UNAVAILABLE);
  result.set_cause(why);
  counters_.failures.Add(Failure::kTool);
  Act(number, it->second.episode.OnResult(result, clock_.WallMs()), now);
}

void RolloutLoop::DropLostGroups(Time now) {
  for (uint64_t group : leases_.Extend(now)) {
    ++counters_.groups_lost;
    ForgetGroup(group);
  }
}

void RolloutLoop::Count(const v1::Trajectory& trajectory) {
  ++counters_.finished;
  if (trajectory.end() == v1::EPISODE_END_GIVEN_UP) {
    ++counters_.given_up;
    // The others were counted when they came.
    if (trajectory.failure() == RowOf(Failure::kPrompt).words) {
      counters_.failures.Add(Failure::kPrompt);
    }
  }
  for (const v1::Turn& turn : trajectory.turns()) {
    for (const v1::ToolCall& call : turn.calls()) {
      counters_.skipped += call.skipped() ? 1 : 0;
      counters_.background_calls += call.handle().empty() ? 0 : 1;
    }
  }
  const v1::EpisodeTime& time = trajectory.time();
  counters_.generating_us += static_cast<uint64_t>(time.generating_ms() * 1e3);
  counters_.tool_us += static_cast<uint64_t>(time.tool_ms() * 1e3);
  counters_.place_us += static_cast<uint64_t>(time.place_ms() * 1e3);
}

void RolloutLoop::FinishEpisode(EpisodeNumber number) {
  auto node = episodes_.extract(number);
  Running& running = node.mapped();
  const v1::Trajectory trajectory = running.episode.TakeTrajectory();
  Count(trajectory);
  StopPorts(number, running);
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
  for (auto& [member, number] : node.mapped().running) {
    auto it = episodes_.find(number);
    if (it == episodes_.end()) continue;
    StopPorts(number, it->second);
    TellTools(CancelOf(it->second.episode));
    episodes_.erase(it);
  }
  if (leases_.Holds(group_id)) (void)leases_.Take(group_id);
}

// To every tool worker we know of. Best effort: one that does not hear it runs a call in vain.
void RolloutLoop::TellTools(const v1::ToolCancel& cancel) {
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
