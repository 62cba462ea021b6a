#include "rollout/episode.h"

#include <algorithm>

#include "core/hash.h"
#include "core/ids.h"
#include "core/random.h"
#include "core/secret.h"
#include "rollout/episode_turns.h"
#include "rollout/tree_merge.h"

namespace tidemill {
namespace {

constexpr std::string_view kShellTool = "bash";

}  // namespace

Episode::Episode(std::shared_ptr<const EpisodeGroup> group, uint32_t member,
                 const AgentProtocol& protocol, const EpisodeLimits& limits, int64_t now_ms)
    : group_(std::move(group)),
      protocol_(protocol),
      limits_(limits),
      member_(member),
      seats_({.team = group_->team,
              .task = group_->lease.task(),
              .protocol = protocol,
              .policy = {group_->policy, group_->lease.policy()},
              .wall_ms = group_->opened_ms},
             group_->CasesOf(member)),
      calls_(limits),
      jobs_(limits.jobs) {
  v1::TrajectoryId& id = *trajectory_.mutable_id();
  id.set_task(task().id());
  id.set_group(group_->lease.group());
  id.set_member(member);
  id.set_attempt(group_->attempt);
  trajectory_.set_purpose(group_->lease.purpose());
  trajectory_.set_eval_name(group_->lease.eval_name());
  const std::vector<TokenId>& prompt = group_->PromptOf(member);
  trajectory_.mutable_prompt_ids()->Add(prompt.begin(), prompt.end());
  const v1::CaseSet& cases = group_->CasesOf(member);
  for (const v1::ShownCase& one : cases.cases()) trajectory_.add_shown_cases(one.number());
  for (const v1::ShownSkill& one : cases.skills()) *trajectory_.add_shown_skills() = one.skill();
  *trajectory_.mutable_sampling() = group_->lease.sampling();
  trajectory_.set_worker(group_->worker);
  trajectory_.set_started_ms(now_ms);
  trajectory_.set_group_members(group_->lease.members());
  trajectory_.set_token(group_->lease.token());
  *tree_.mutable_files() = task().files();
  NormalizeTree(tree_);
  seats_.now().tokens = prompt.size();
  watches_ = limits_.eager || (limits_.delivers_now() && !limits_.background.empty());
  streams_ = watches_ && seats_.now().talk->Watches();
}

Result<TurnParams> Episode::NextTurnParams() {
  const v1::Sampling& sampling = group_->lease.sampling();
  TurnParams turn;
  turn.sampling.temperature = static_cast<float>(sampling.temperature());
  if (sampling.top_p() > 0) turn.sampling.top_p = static_cast<float>(sampling.top_p());
  turn.sampling.top_k = static_cast<int32_t>(sampling.top_k());
  turn.sampling.min_p = static_cast<float>(sampling.min_p());
  turn.max_new_tokens = static_cast<int32_t>(sampling.max_turn_tokens());
  turn.stop_ids = protocol_.stop_ids();
  turn.seed = MixHash(group_->lease.seed(), member_);
  if (seats_.place() > 0) turn.seed = MixHash(turn.seed, seats_.place());
  if (sampling.constraint().empty()) return turn;
  TM_ASSIGN_OR_RETURN(turn.controls.constraint, seats_.now().talk->TurnConstraint());
  turn.controls.record_support = true;
  return turn;
}

bool Episode::LastTurn() const {
  // One that a result cut short is no turn of the agent's choice.
  const auto all = static_cast<uint32_t>(trajectory_.turns_size() - visit_turns_);
  const uint32_t turns = all - interruptions_;
  return turns >= group_->lease.max_turns();
}

EpisodeActions Episode::Begin(int64_t now_ms) {
  if (!group_->prompted.ok()) return GiveUp(Failure::kPrompt, group_->prompted.message(), now_ms);
  if (static_cast<int64_t>(seats_.now().tokens) >= group_->max_context) {
    return GiveUp(Failure::kPrompt,
                  "it has " + std::to_string(seats_.now().tokens) + " tokens and the context " +
                      std::to_string(group_->max_context),
                  now_ms);
  }
  Result<TurnParams> turn = NextTurnParams();
  if (!turn.ok()) return GiveUp(Failure::kPrompt, turn.status().message(), now_ms);
  trajectory_.add_turns();
  OpenTurn(now_ms);
  EpisodeActions actions;
  actions.generate = true;
  actions.policy = seats_.policy().id;
  actions.turn = std::move(*turn);
  return actions;
}

void Episode::OpenTurn(int64_t now_ms) {
  v1::Turn& turn = *trajectory_.mutable_turns(trajectory_.turns_size() - 1);
  turn.set_started_ms(now_ms);
  turn.set_policy(seats_.policy().name);
  turn.set_role(seats_.role());
  seats_.now().last_turn = trajectory_.turns_size() - 1;
  calls_.Open();
  interrupted_ = false;
  if (!streams_) return;
  drawn_ = {};
  watch_ = seats_.now().talk->Watch();
}

EpisodeActions Episode::OnTokens(TurnOutput part, bool done, int64_t now_ms) {
  if (over_) return {};
  EpisodeActions actions;
  const std::vector<TokenId> ids = part.ids;
  AppendPart(drawn_, std::move(part));
  if (done) {
    const TurnOutput whole = std::move(drawn_);
    return OnTurn(whole, now_ms);
  }
  if (watch_ == nullptr) return actions;
  for (const RequestedCall& found : watch_->Push(ids)) {
    TurnCall call = MakeCall(found, calls_.all().size());
    call.asked_token = static_cast<uint32_t>(drawn_.ids.size());
    call.asked_ms = now_ms;
    *call.request.mutable_tree() = tree_;
    call.request.set_created_ms(now_ms);
    if (const TurnCall* early = calls_.FoundEarly(std::move(call))) {
      actions.calls.push_back({early->request, Duration(0)});
    }
  }
  MayInterrupt(actions);
  return actions;
}

// A result that waits ends the turn, but never a call that is being written: the results then come
// with that call's.
void Episode::MayInterrupt(EpisodeActions& actions) {
  if (!limits_.delivers_now() || interrupted_ || jobs_.finished() == 0) return;
  if (watch_ == nullptr || watch_->called() || drawn_.ids.empty()) return;
  if (interruptions_ >= group_->lease.max_turns()) return;
  interrupted_ = true;
  actions.interrupt = true;
}

EpisodeActions Episode::OnTurn(const TurnOutput& output, int64_t now_ms) {
  if (over_) return {};
  watch_.reset();
  v1::Turn& turn = *trajectory_.mutable_turns(trajectory_.turns_size() - 1);
  FillTurn(output, turn);
  turn.set_finished_ms(now_ms);
  clock_.Turn(turn.started_ms(), output.place_ms, now_ms);
  seats_.now().tokens += output.ids.size();
  if (output.finish == TurnFinish::kCancelled) {
    return GiveUp(Failure::kEngine, "it cancelled the sequence", now_ms);
  }
  if (output.finish == TurnFinish::kContext) return Finish(v1::EPISODE_END_CONTEXT, {}, now_ms);
  if (output.finish == TurnFinish::kLength) return Finish(v1::EPISODE_END_MAX_TOKENS, {}, now_ms);

  parsed_ = seats_.now().talk->Parse(output.ids);
  checking_answer_ = false;
  if (output.finish == TurnFinish::kInterrupted) {
    ++interruptions_;
    // Its text is no answer, and half a call no mistake: the agent was cut short.
    parsed_.answer.reset();
    parsed_.malformed.clear();
  }
  if (parsed_.answer) {
    if (!seats_.Submits()) return Answered({}, now_ms);
    WriteAnswer(*parsed_.answer);
    if (!protocol_.ChecksAnswers() || LastTurn() || !task().has_examples()) {
      return Answered({}, now_ms);
    }
    checking_answer_ = true;
    parsed_.calls = {{"run_tests", "{}"}};
  } else if (!parsed_.malformed.empty()) {
    turn.set_malformed(parsed_.malformed);
    if (LastTurn()) return Finish(v1::EPISODE_END_MALFORMED, {}, now_ms);
    EpisodeActions actions;
    actions.cancels = calls_.TakeBack();
    return Reply({}, std::move(actions), now_ms);
  }
  return StartCalls(now_ms);
}

void Episode::WriteAnswer(const std::string& text) {
  trajectory_.set_submission(text);
  if (task().answer_file().empty() || text.empty()) return;
  v1::File file;
  file.set_path(task().answer_file());
  file.set_content(task().answer_prefix() + text + task().answer_suffix());
  file.set_has_content(true);
  file.set_hash(Sha256Hex(file.content()));
  PutFile(tree_, file);
}

TurnCall Episode::MakeCall(const RequestedCall& call, size_t index) const {
  TurnCall made;
  std::string arguments = call.arguments_json;
  const BackgroundTool background = BackgroundOf(limits_, call.tool);
  if (background.use != BackgroundUse::kNever && !checking_answer_) {
    const bool wished = TakeBackgroundWish(arguments);
    made.background = wished || background.use == BackgroundUse::kAlways;
  }
  v1::ToolRequest& request = made.request;
  request = RequestFor(task(), trajectory_.id(), call.tool, std::move(arguments));
  request.set_request_id(std::to_string(group_->lease.group()) + "." + std::to_string(member_) +
                         "." + std::to_string(group_->attempt) + ".t" +
                         std::to_string(trajectory_.turns_size()) + ".c" + std::to_string(index) +
                         "@" + group_->worker + "#" + std::to_string(group_->begun));
  request.set_cancel_token(CancelToken());
  request.set_background(made.background);
  request.set_keep_box(!checking_answer_ && !made.background);
  return made;
}

std::string Episode::CancelToken() const {
  return TokenFor(group_->secret, "cancel " + TrajectoryKey::From(trajectory_.id()).ToString() +
                                      "#" + std::to_string(group_->begun));
}

EpisodeActions Episode::StartCalls(int64_t now_ms) {
  std::vector<TurnCall> calls;
  for (size_t i = 0; i < parsed_.calls.size(); ++i) {
    calls.push_back(MakeCall(parsed_.calls[i], i));
    if (i < limits_.calls_per_turn) continue;
    AnswerAtOnce(
        calls.back(), v1::OUTCOME_INVALID,
        "refused: at most " + std::to_string(limits_.calls_per_turn) + " calls in one turn",
        now_ms);
    calls.back().result.set_cause("too many calls in one turn");
    calls.back().background = false;
  }
  EpisodeActions actions;
  actions.cancels = calls_.Settle(std::move(calls));
  for (const TurnCall& call : calls_.all()) {
    if (call.failed.empty()) continue;
    EpisodeActions ended = GiveUp(Failure::kTool, std::string(call.failed), now_ms);
    ended.cancels.insert(ended.cancels.end(), actions.cancels.begin(), actions.cancels.end());
    return ended;
  }
  return GoOn(std::move(actions), now_ms);
}

// Starts waves until one has to be waited for.
EpisodeActions Episode::GoOn(EpisodeActions actions, int64_t now_ms) {
  while (calls_.NextWave()) {
    for (TurnCall& call : calls_.wave()) Launch(call, actions, now_ms);
    if (!calls_.WaveDone()) {
      AskToBeWoken(actions, now_ms);
      return actions;
    }
    MergeWave();
  }
  return AfterCalls(std::move(actions), now_ms);
}

void Episode::Launch(TurnCall& call, EpisodeActions& actions, int64_t now_ms) {
  if (call.done && !call.background) return;  // refused, or begun early and over
  if (IsJobTool(call.request.tool()) && !limits_.background.empty()) {
    return RunJobTool(call, actions, now_ms);
  }
  if (call.background) return LaunchJob(call, actions, now_ms);
  if (call.sent) return;
  call.sent = true;
  call.asked_ms = now_ms;
  *call.request.mutable_tree() = tree_;
  if (call.request.tool() == kShellTool) call.request.set_box_holder(box_holder_);
  call.request.set_created_ms(now_ms);
  actions.calls.push_back({call.request, Duration(0)});
}

// Answers the call with a handle; the episode's jobs have it from then on.
void Episode::LaunchJob(TurnCall& call, EpisodeActions& actions, int64_t now_ms) {
  if (const Status room = jobs_.Room(now_ms); !room.ok()) {
    if (call.sent && !call.done) actions.cancels.push_back(call.request.request_id());
    call.background = false;
    return AnswerAtOnce(call, v1::OUTCOME_INVALID, room.message(), now_ms);
  }
  const bool over = call.done;
  if (!call.sent) {
    call.asked_ms = now_ms;
    *call.request.mutable_tree() = tree_;
    call.request.set_created_ms(now_ms);
    actions.calls.push_back({call.request, Duration(0)});
  }
  OpenCall open = call;
  open.done = false;
  call.skipped = false;
  BackgroundCalls::Job& job =
      jobs_.Start(std::move(open), BackgroundOf(limits_, call.request.tool()).keeps_files,
                  trajectory_.turns_size() - 1, static_cast<int>(&call - calls_.all().data()));
  call.handle = job.handle;
  if (over) jobs_.Finish(job, v1::ToolResult(call.result), call.answered_ms);
  AnswerAtOnce(
      call, v1::OUTCOME_OK,
      job.handle + ": " + call.request.tool() + " runs in the background; its result comes later",
      now_ms);
}

void Episode::RunJobTool(TurnCall& call, EpisodeActions& actions, int64_t now_ms) {
  const std::string& tool = call.request.tool();
  const std::string& arguments = call.request.arguments_json();
  const auto refuse = [&](const Status& status) {
    AnswerAtOnce(call, v1::OUTCOME_INVALID, "error: " + status.message(), now_ms);
  };
  if (tool == kJobsTool) {
    return AnswerAtOnce(call, v1::OUTCOME_OK, jobs_.Listing({}, now_ms), now_ms);
  }
  if (tool == kCancelTool) {
    const Result<std::vector<std::string>> handles = ReadCancel(arguments);
    if (!handles.ok()) return refuse(handles.status());
    if (const Status known = jobs_.Check(*handles); !known.ok()) return refuse(known);
    for (std::string& id : jobs_.Cancel(*handles)) actions.cancels.push_back(std::move(id));
    return AnswerAtOnce(call, v1::OUTCOME_OK, jobs_.Listing(*handles, now_ms), now_ms);
  }
  Result<WaitOrder> order = ReadWait(arguments);
  if (!order.ok()) return refuse(order.status());
  if (const Status known = jobs_.Check(order->handles); !known.ok()) return refuse(known);
  call.asked_ms = now_ms;
  if (jobs_.Over(order->handles, order->any)) {
    return AnswerAtOnce(call, v1::OUTCOME_OK, jobs_.Listing(order->handles, now_ms), now_ms);
  }
  waiting_ = Waiting{std::move(*order), std::nullopt};
  if (const auto& limit = waiting_->order.limit) {
    waiting_->until_ms = now_ms + std::chrono::duration_cast<milliseconds>(*limit).count();
  }
}

void Episode::MergeWave() {
  const v1::Tree before = tree_;
  for (const TurnCall& call : calls_.wave()) {
    if (call.handle.empty() && call.result.has_tree()) {
      MergeChanges(before, call.result.tree(), tree_);
    }
  }
}

bool Episode::WaitsFor(const std::string& request_id) {
  return !over_ && (calls_.Of(request_id) != nullptr || jobs_.Of(request_id) != nullptr);
}

EpisodeActions Episode::OnResult(const v1::ToolResult& result, int64_t now_ms) {
  if (over_) return {};
  if (TurnCall* call = calls_.Of(result.request_id())) {
    return TakeCallResult(*call, result, now_ms);
  }
  if (BackgroundCalls::Job* job = jobs_.Of(result.request_id())) {
    return TakeJobResult(*job, result, now_ms);
  }
  return {};
}

EpisodeActions Episode::TakeCallResult(TurnCall& call, const v1::ToolResult& result,
                                       int64_t now_ms) {
  EpisodeActions actions;
  if (FailedThroughUs(result)) {
    // A command may have run, and what was in its box is gone: nothing short of the whole episode
    // can be tried again.
    if (result.box_lost() || !call.request.box_holder().empty()) {
      return GiveUp(Failure::kBoxLost, result.cause(), now_ms);
    }
    if (std::optional<ToolCallOrder> again = TryAgain(call, limits_, now_ms)) {
      ++retries_;
      actions.calls.push_back(std::move(*again));
      return actions;
    }
    if (limits_.stale_on_unavailable()) {
      const std::string why = call.request.tool() + ": " + result.cause();
      if (!calls_.open()) return GiveUp(Failure::kTool, why, now_ms);
      call.failed = why;  // counts when the turn does
    }
    call.skipped = true;
  }
  TakeResult(call, result, now_ms);
  clock_.Call(call.request.created_ms(), call.queue_ms, now_ms);
  const bool ran = !call.skipped && result.outcome() != v1::OUTCOME_INVALID;
  if (call.request.tool() == kShellTool && ran) box_holder_ = result.worker();
  if (calls_.open()) return actions;
  trajectory_.mutable_turns(trajectory_.turns_size() - 1)->set_observed_ms(now_ms);
  if (!calls_.WaveDone()) return actions;
  MergeWave();
  return GoOn(std::move(actions), now_ms);
}

EpisodeActions Episode::TakeJobResult(BackgroundCalls::Job& job, const v1::ToolResult& result,
                                      int64_t now_ms) {
  EpisodeActions actions;
  if (FailedThroughUs(result)) {
    if (std::optional<ToolCallOrder> again = TryAgain(job.call, limits_, now_ms)) {
      ++retries_;
      actions.calls.push_back(std::move(*again));
      return actions;
    }
    if (limits_.stale_on_unavailable()) {
      return GiveUp(Failure::kTool, job.call.request.tool() + ": " + result.cause(), now_ms);
    }
    job.call.skipped = true;
  }
  clock_.Call(job.call.request.created_ms(), result.cached() ? 0 : result.queue_ms(), now_ms);
  jobs_.Finish(job, result, now_ms);
  return AfterJobs(std::move(actions), now_ms);
}

EpisodeActions Episode::OnTime(int64_t now_ms) {
  if (over_) return {};
  EpisodeActions actions;
  actions.cancels = jobs_.Expire(now_ms);
  return AfterJobs(std::move(actions), now_ms);
}

// What runs in the background may have ended, or a wait may have lasted long enough.
EpisodeActions Episode::AfterJobs(EpisodeActions actions, int64_t now_ms) {
  if (ending_ && jobs_.running() == 0) return Finish(*ending_, std::move(actions), now_ms);
  MayInterrupt(actions);
  if (waiting_) {
    const bool over = jobs_.Over(waiting_->order.handles, waiting_->order.any);
    const bool late = waiting_->until_ms && now_ms >= *waiting_->until_ms;
    if (over || late) {
      TurnCall& call = calls_.wave()[0];
      AnswerAtOnce(
          call, v1::OUTCOME_OK,
          (over ? "" : "the time is over\n") + jobs_.Listing(waiting_->order.handles, now_ms),
          now_ms);
      waiting_.reset();
      trajectory_.mutable_turns(trajectory_.turns_size() - 1)->set_observed_ms(now_ms);
      return GoOn(std::move(actions), now_ms);
    }
  }
  AskToBeWoken(actions, now_ms);
  return actions;
}

void Episode::AskToBeWoken(EpisodeActions& actions, int64_t now_ms) const {
  std::optional<int64_t> at = jobs_.expires_ms(now_ms);
  if (waiting_ && waiting_->until_ms) {
    at = at ? std::min(*at, *waiting_->until_ms) : *waiting_->until_ms;
  }
  if (at) actions.wake_in = milliseconds(std::max<int64_t>(1, *at - now_ms));
}

void Episode::RecordCalls() {
  v1::Turn& turn = *trajectory_.mutable_turns(trajectory_.turns_size() - 1);
  const std::string tree_hash = TreeHash(tree_);
  for (const TurnCall& call : calls_.all()) {
    v1::ToolCall& record = *turn.add_calls();
    record = RecordOf(call);
    record.set_tree_hash(tree_hash);
  }
}

EpisodeActions Episode::AfterCalls(EpisodeActions actions, int64_t now_ms) {
  RecordCalls();
  std::vector<TurnCall>& calls = calls_.all();
  v1::Turn& turn = *trajectory_.mutable_turns(trajectory_.turns_size() - 1);
  if (!calls.empty() && turn.observed_ms() == 0) turn.set_observed_ms(now_ms);
  if (checking_answer_) {
    const v1::ToolResult& check = calls[0].result;
    const bool passed = check.tests_total() > 0 && check.tests_passed() == check.tests_total();
    if (passed || calls[0].skipped) return Answered(std::move(actions), now_ms);
  }
  if (LastTurn()) return Finish(v1::EPISODE_END_MAX_TURNS, std::move(actions), now_ms);
  TurnReplies replies;
  for (TurnCall& call : calls) {
    replies.results.push_back(std::move(call.result));
    replies.handles.push_back(call.handle);
  }
  return Reply(std::move(replies), std::move(actions), now_ms);
}

EpisodeActions Episode::Reply(TurnReplies replies, EpisodeActions actions, int64_t now_ms) {
  v1::Turn& before = *trajectory_.mutable_turns(trajectory_.turns_size() - 1);
  replies.delivered = jobs_.Deliver(tree_);
  for (const DeliveredResult& result : replies.delivered) before.add_delivered(result.handle);
  Result<NextPrompt> next =
      seats_.now().talk->Observe(parsed_, replies, limits_.observation_tokens);
  if (!next.ok()) return GiveUp(Failure::kPrompt, next.status().message(), now_ms);
  return Speak(std::move(*next), std::move(actions), now_ms);
}

// The next turn of the seat that works, behind these tokens.
EpisodeActions Episode::Speak(NextPrompt next, EpisodeActions actions, int64_t now_ms) {
  const size_t tokens = next.anew ? next.ids.size() : seats_.now().tokens + next.ids.size();
  // Room for it and at least one token of an answer.
  if (static_cast<int64_t>(tokens) + 1 > group_->max_context) {
    return Finish(v1::EPISODE_END_CONTEXT, std::move(actions), now_ms);
  }
  Result<TurnParams> turn = NextTurnParams();
  if (!turn.ok()) return GiveUp(Failure::kPrompt, turn.status().message(), now_ms);
  seats_.now().tokens = tokens;
  auto& ids = next.anew
                  ? *trajectory_.add_turns()->mutable_prompt_ids()
                  : *trajectory_.mutable_turns(seats_.now().last_turn)->mutable_observation_ids();
  ids.Add(next.ids.begin(), next.ids.end());
  if (!next.anew) trajectory_.add_turns();
  OpenTurn(now_ms);
  AskToBeWoken(actions, now_ms);
  actions.generate = true;
  actions.seat = seats_.place();
  actions.policy = seats_.policy().id;
  actions.append = std::move(next.ids);
  actions.anew = next.anew;
  actions.turn = std::move(*turn);
  return actions;
}

// The seat that works is done with what it was given.
EpisodeActions Episode::Answered(EpisodeActions actions, int64_t now_ms) {
  const size_t left = seats_.place();
  const Result<TeamNext> next = seats_.Leave(parsed_, tree_);
  if (!next.ok()) {
    trajectory_.mutable_turns(trajectory_.turns_size() - 1)->set_malformed(next.status().message());
    return Finish(v1::EPISODE_END_MALFORMED, std::move(actions), now_ms);
  }
  if (!next->over) {
    if (!seats_.ComesBack(left)) actions.leaves = left;
    return HandOver(*next, std::move(actions), now_ms);
  }
  if (next->chosen) {
    tree_ = seats_.at(*next->chosen).tree;
    trajectory_.set_submission(seats_.at(*next->chosen).answer);
  }
  return Finish(v1::EPISODE_END_SUBMITTED, std::move(actions), now_ms);
}

EpisodeActions Episode::HandOver(const TeamNext& next, EpisodeActions actions, int64_t now_ms) {
  for (std::string& id : calls_.TakeBack()) actions.cancels.push_back(std::move(id));
  visit_turns_ = trajectory_.turns_size();
  interruptions_ = 0;
  Result<NextPrompt> prompt = seats_.TakeOver(next, tree_);
  if (!prompt.ok()) return GiveUp(Failure::kPrompt, prompt.status().message(), now_ms);
  streams_ = watches_ && seats_.now().talk->Watches();
  return Speak(std::move(*prompt), std::move(actions), now_ms);
}

EpisodeActions Episode::OnAgent(AgentOutcome outcome, int64_t now_ms) {
  if (over_) return {};
  trajectory_.clear_prompt_ids();  // the protocol's, which nobody sent
  *trajectory_.mutable_log() = std::move(outcome.log);
  PutBranches(std::move(outcome.branches), trajectory_, clock_);
  PutAgentCalls(outcome.calls, trajectory_, clock_);
  if (outcome.reward) *trajectory_.mutable_environment() = std::move(*outcome.reward);
  tree_ = std::move(outcome.tree);
  for (const v1::File& file : tree_.files()) {
    if (!file.path().empty() && file.path() == task().answer_file() && file.has_content()) {
      trajectory_.set_submission(file.content());
    }
  }
  return Finish(outcome.end, {}, now_ms);
}

EpisodeActions Episode::Finish(v1::EpisodeEnd end, EpisodeActions actions, int64_t now_ms) {
  for (std::string& id : calls_.TakeBack()) actions.cancels.push_back(std::move(id));
  if (end != v1::EPISODE_END_GIVEN_UP && limits_.awaits_at_end() && jobs_.running() > 0) {
    ending_ = end;
    AskToBeWoken(actions, now_ms);
    return actions;
  }
  for (std::string& id : jobs_.CancelAll()) actions.cancels.push_back(std::move(id));
  // Nobody reads them any more, but the files that they left are those of the agent.
  (void)jobs_.Deliver(tree_);
  jobs_.Record(trajectory_);
  over_ = true;
  trajectory_.set_end(end);
  trajectory_.set_finished_ms(now_ms);
  *trajectory_.mutable_time() = clock_.Split();
  *trajectory_.mutable_tree() = std::move(tree_);
  actions.finished = true;
  return actions;
}

EpisodeActions Episode::GiveUp(Failure failure, const std::string& detail, int64_t now_ms) {
  if (over_) return {};
  trajectory_.set_stale_cause(FailureText(failure, detail));
  trajectory_.set_failure(std::string(RowOf(failure).words));
  return Finish(v1::EPISODE_END_GIVEN_UP, {}, now_ms);
}

EpisodeActions Episode::GiveUpAgent(AgentOutcome outcome, int64_t now_ms) {
  if (over_) return {};
  trajectory_.clear_prompt_ids();
  *trajectory_.mutable_log() = std::move(outcome.log);
  return GiveUp(outcome.failure, outcome.status.ToString(), now_ms);
}

}  // namespace tidemill
