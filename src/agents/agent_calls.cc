#include "agents/agent_calls.h"

#include <algorithm>
#include <utility>

#include "core/hash.h"
#include "core/ids.h"
#include "core/secret.h"

namespace tidemill {
namespace {

constexpr std::string_view kCallsShell = "bash";

std::string PathsOf(const std::vector<std::string>& paths) {
  std::string text;
  for (const std::string& path : paths) text += (text.empty() ? "" : ", ") + path;
  return text;
}

}  // namespace

AgentCalls::AgentCalls(std::shared_ptr<const EpisodeGroup> group, uint32_t member, std::string name,
                       const EpisodeLimits& limits, std::set<std::string> tools)
    : group_(std::move(group)),
      name_(std::move(name)),
      limits_(limits),
      tools_(std::move(tools)),
      jobs_(limits.jobs) {
  id_.set_task(group_->lease.task().id());
  id_.set_group(group_->lease.group());
  id_.set_member(member);
  id_.set_attempt(group_->attempt);
}

std::string AgentCalls::CancelToken() const {
  return TokenFor(group_->secret, "cancel " + TrajectoryKey::From(id_).ToString());
}

void AgentCalls::Refuse(uint64_t number, std::string why, AgentCallActions& actions) const {
  actions.answers.push_back({number, {std::move(why)}, true});
}

v1::ToolRequest AgentCalls::RequestOf(uint64_t number, const std::string& tool,
                                      std::string arguments_json) const {
  v1::ToolRequest request = RequestFor(group_->lease.task(), id_, tool, std::move(arguments_json));
  request.set_request_id(name_ + ".m" + std::to_string(number) + "@" + group_->worker);
  request.set_cancel_token(CancelToken());
  return request;
}

uint64_t AgentCalls::Begin(const std::string& tool, std::string arguments_json, int64_t now_ms,
                           AgentCallActions& actions) {
  const uint64_t number = ++made_;
  const uint64_t most = uint64_t{group_->lease.max_turns()} * limits_.calls_per_turn;
  if (records_.size() >= most) {
    Refuse(number, "refused: the episode has made its " + std::to_string(most) + " tool calls",
           actions);
  } else if (calls_.size() >= limits_.calls_per_turn) {
    Refuse(number, "refused: at most " + std::to_string(limits_.calls_per_turn) + " calls at once",
           actions);
  } else {
    Call call;
    call.record = records_.size();
    call.asked_ms = now_ms;
    const BackgroundTool background = BackgroundOf(limits_, tool);
    if (background.use != BackgroundUse::kNever) {
      const bool wished = TakeBackgroundWish(arguments_json);
      call.background = wished || background.use == BackgroundUse::kAlways;
    }
    call.request = RequestOf(number, tool, std::move(arguments_json));
    call.request.set_background(call.background);
    records_.push_back(RecordOf(call));
    Call& open = calls_[number] = std::move(call);
    if (IsJobTool(tool)) {
      RunJobTool(number, open, now_ms, actions);
    } else {
      actions.reads.push_back(number);
    }
  }
  return number;
}

void AgentCalls::RunJobTool(uint64_t number, Call& call, int64_t now_ms,
                            AgentCallActions& actions) {
  const std::string& tool = call.request.tool();
  const std::string& arguments = call.request.arguments_json();
  const auto refuse = [&](const Status& status) {
    AnswerWith(number, v1::OUTCOME_INVALID, "error: " + status.message(), now_ms, actions);
  };
  if (tool == kJobsTool) {
    return AnswerWith(number, v1::OUTCOME_OK, jobs_.Listing({}, now_ms), now_ms, actions);
  }
  if (tool == kCancelTool) {
    const Result<std::vector<std::string>> handles = ReadCancel(arguments);
    if (!handles.ok()) return refuse(handles.status());
    if (const Status known = jobs_.Check(*handles); !known.ok()) return refuse(known);
    for (std::string& id : jobs_.Cancel(*handles)) actions.cancels.push_back(std::move(id));
    AnswerWith(number, v1::OUTCOME_OK, jobs_.Listing(*handles, now_ms), now_ms, actions);
    return AfterJobs(now_ms, actions);
  }
  Result<WaitOrder> order = ReadWait(arguments);
  if (!order.ok()) return refuse(order.status());
  if (const Status known = jobs_.Check(order->handles); !known.ok()) return refuse(known);
  call.state = Call::State::kWaiting;
  if (order->limit) {
    call.until_ms = now_ms + std::chrono::duration_cast<milliseconds>(*order->limit).count();
  }
  call.order = std::move(*order);
  AfterJobs(now_ms, actions);
}

void AgentCalls::OnFiles(uint64_t number, Result<v1::Tree> files, int64_t now_ms,
                         AgentCallActions& actions) {
  const auto found = calls_.find(number);
  if (found == calls_.end()) return;
  Call& call = found->second;
  if (!files.ok()) {
    return AnswerWith(number, v1::OUTCOME_INVALID,
                      "error: the workspace cannot be read: " + files.status().message(), now_ms,
                      actions);
  }
  *call.request.mutable_tree() = std::move(*files);
  call.request.set_created_ms(now_ms);
  if (call.background) {
    Call job = std::move(call);
    return LaunchJob(number, std::move(job), now_ms, actions);
  }
  if (call.request.tool() == kCallsShell) call.request.set_box_holder(box_holder_);
  call.state = Call::State::kAsked;
  actions.calls.push_back({call.request, Duration(0)});
}

void AgentCalls::LaunchJob(uint64_t number, Call call, int64_t now_ms, AgentCallActions& actions) {
  Call& open = calls_.at(number);
  open.request = call.request;
  if (const Status room = jobs_.Room(now_ms); !room.ok()) {
    return AnswerWith(number, v1::OUTCOME_INVALID, room.message(), now_ms, actions);
  }
  actions.calls.push_back({call.request, Duration(0)});
  const std::string tool = call.request.tool();
  // Its files are applied when they are there, by a change, so they are kept here.
  BackgroundCalls::Job& job = jobs_.Start(std::move(call), BackgroundOf(limits_, tool).keeps_files,
                                          0, static_cast<int>(open.record));
  AnswerWith(number, v1::OUTCOME_OK,
             job.handle + ": " + tool + " runs in the background; its result comes later", now_ms,
             actions);
}

bool AgentCalls::Retried(OpenCall& call, const v1::ToolResult& result, int64_t now_ms,
                         AgentCallActions& actions) {
  // A command may have run, and what was in its box is gone.
  const bool lost = result.box_lost() || !call.request.box_holder().empty();
  if (!lost) {
    if (std::optional<ToolCallOrder> again = TryAgain(call, limits_, now_ms)) {
      actions.calls.push_back(std::move(*again));
      return true;
    }
  }
  if (!lost && !limits_.stale_on_unavailable()) return false;
  if (failed_.ok()) failed_ = Unavailable(call.request.tool() + ": " + result.cause());
  return true;
}

void AgentCalls::OnResult(const v1::ToolResult& result, int64_t now_ms, AgentCallActions& actions) {
  const std::string& id = result.request_id();
  if (BackgroundCalls::Job* job = jobs_.Of(id)) return TakeJobResult(*job, result, now_ms, actions);
  for (auto& [number, call] : calls_) {
    if (call.state != Call::State::kAsked || call.request.request_id() != id) continue;
    return TakeCallResult(number, call, result, now_ms, actions);
  }
}

void AgentCalls::TakeCallResult(uint64_t number, Call& call, const v1::ToolResult& result,
                                int64_t now_ms, AgentCallActions& actions) {
  if (FailedThroughUs(result)) {
    if (Retried(call, result, now_ms, actions)) return;
    call.skipped = true;
  }
  TakeResult(call, result, now_ms);
  const bool ran = !call.skipped && result.outcome() != v1::OUTCOME_INVALID;
  if (call.request.tool() == kCallsShell && ran) box_holder_ = result.worker();
  const bool changed = ran && result.has_tree() && ChangesFiles(limits_, call.request.tool()) &&
                       TreeHash(result.tree()) != TreeHash(call.request.tree());
  if (!changed) return AnswerCall(number, actions);
  call.state = Call::State::kChanging;
  actions.changes.push_back({number, call.request.tree(), result.tree()});
}

void AgentCalls::TakeJobResult(BackgroundCalls::Job& job, v1::ToolResult result, int64_t now_ms,
                               AgentCallActions& actions) {
  if (FailedThroughUs(result)) {
    if (Retried(job.call, result, now_ms, actions)) return;
    job.call.skipped = true;
  }
  const bool changed = job.keeps_files && !job.call.skipped && result.has_tree() &&
                       TreeHash(result.tree()) != TreeHash(job.before);
  if (changed) {
    const uint64_t number = ++made_;
    actions.changes.push_back({number, job.before, result.tree()});
    changing_[number] = {job.call.request.request_id(), std::move(result)};
    return;
  }
  result.clear_tree();
  jobs_.Finish(job, result, now_ms);
  AfterJobs(now_ms, actions);
}

void AgentCalls::OnChanged(uint64_t number, const std::vector<std::string>& kept, int64_t now_ms,
                           AgentCallActions& actions) {
  const std::string remark =
      kept.empty() ? "" : "\nits files were not kept: changed meanwhile: " + PathsOf(kept);
  if (const auto call = calls_.find(number); call != calls_.end()) {
    call->second.result.mutable_text()->append(remark);
    return AnswerCall(number, actions);
  }
  auto node = changing_.extract(number);
  if (node.empty()) return;
  BackgroundCalls::Job* job = jobs_.Of(node.mapped().first);
  if (job == nullptr) return;  // cancelled meanwhile
  v1::ToolResult& result = node.mapped().second;
  result.mutable_text()->append(remark);
  result.clear_tree();
  jobs_.Finish(*job, result, now_ms);
  AfterJobs(now_ms, actions);
}

void AgentCalls::AfterJobs(int64_t now_ms, AgentCallActions& actions) {
  std::vector<std::pair<uint64_t, bool>> answered;
  for (const auto& [number, call] : calls_) {
    if (call.state != Call::State::kWaiting) continue;
    const bool over = jobs_.Over(call.order->handles, call.order->any);
    if (over || (call.until_ms && now_ms >= *call.until_ms)) answered.emplace_back(number, over);
  }
  for (const auto& [number, over] : answered) {
    const std::vector<std::string> handles = calls_.at(number).order->handles;
    AnswerWith(number, v1::OUTCOME_OK,
               (over ? "" : "the time is over\n") + jobs_.Listing(handles, now_ms), now_ms,
               actions);
  }
}

void AgentCalls::OnTime(int64_t now_ms, AgentCallActions& actions) {
  for (std::string& id : jobs_.Expire(now_ms)) actions.cancels.push_back(std::move(id));
  AfterJobs(now_ms, actions);
}

void AgentCalls::AnswerWith(uint64_t number, v1::Outcome outcome, std::string text, int64_t now_ms,
                            AgentCallActions& actions) {
  v1::ToolResult result;
  result.set_outcome(outcome);
  if (outcome == v1::OUTCOME_INVALID) result.set_cause(text);
  result.set_text(std::move(text));
  TakeResult(calls_.at(number), result, now_ms);
  AnswerCall(number, actions);
}

void AgentCalls::AnswerCall(uint64_t number, AgentCallActions& actions) {
  auto node = calls_.extract(number);
  const Call& call = node.mapped();
  records_[call.record] = RecordOf(call);
  const bool failed = call.skipped || call.result.outcome() == v1::OUTCOME_INVALID;
  AgentCallActions::Answer answer{number, {call.result.text()}, failed};
  v1::Tree none;
  for (const DeliveredResult& one : jobs_.Deliver(none)) {
    answer.texts.push_back(one.handle + " (" + one.tool + "): " + one.text);
  }
  actions.answers.push_back(std::move(answer));
}

void AgentCalls::Cancel(uint64_t number, int64_t now_ms, AgentCallActions& actions) {
  auto node = calls_.extract(number);
  if (node.empty()) return;
  Call& call = node.mapped();
  if (call.state == Call::State::kAsked) actions.cancels.push_back(call.request.request_id());
  v1::ToolCall& record = records_[call.record];
  record = RecordOf(call);
  record.set_cancelled(true);
  AfterJobs(now_ms, actions);
}

void AgentCalls::End(bool awaits, int64_t now_ms, AgentCallActions& actions) {
  while (!calls_.empty()) Cancel(calls_.begin()->first, now_ms, actions);
  if (awaits && failed_.ok()) return;
  for (std::string& id : jobs_.CancelAll()) actions.cancels.push_back(std::move(id));
}

bool AgentCalls::WaitsFor(const std::string& request_id) const {
  return jobs_.Waits(request_id) || std::any_of(calls_.begin(), calls_.end(), [&](const auto& one) {
           return one.second.state == Call::State::kAsked &&
                  one.second.request.request_id() == request_id;
         });
}

std::optional<int64_t> AgentCalls::wakes_ms(int64_t now_ms) const {
  std::optional<int64_t> at = jobs_.expires_ms(now_ms);
  for (const auto& [number, call] : calls_) {
    if (call.until_ms && (!at || *call.until_ms < *at)) at = call.until_ms;
  }
  return at;
}

std::vector<v1::ToolCall> AgentCalls::Record() const {
  v1::Trajectory scratch;
  v1::Turn& turn = *scratch.add_turns();
  for (const v1::ToolCall& record : records_) *turn.add_calls() = record;
  jobs_.Record(scratch);
  return {turn.calls().begin(), turn.calls().end()};
}

}  // namespace tidemill
