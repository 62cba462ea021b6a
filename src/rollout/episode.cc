#include "rollout/episode.h"

#include <algorithm>
#include <map>

#include "bus/questions.h"
#include "core/hash.h"
#include "core/ids.h"
#include "core/random.h"
#include "core/secret.h"
#include "core/token_support.h"
#include "tools/tool_table.h"

namespace tidemill {
namespace {

constexpr std::string_view kShellTool = "bash";

void PutFile(v1::Tree& tree, const v1::File& file) {
  for (v1::File& present : *tree.mutable_files()) {
    if (present.path() == file.path()) {
      present = file;
      return;
    }
  }
  *tree.add_files() = file;
}

// Applies what `after` changed of `before` to `tree`, so that calls that ran side by side add up.
void MergeChanges(const v1::Tree& before, const v1::Tree& after, v1::Tree& tree) {
  std::map<std::string, const v1::File*> old;
  for (const v1::File& file : before.files()) old.emplace(file.path(), &file);
  for (const v1::File& file : after.files()) {
    auto it = old.find(file.path());
    const bool same = it != old.end() && it->second->hash() == file.hash() &&
                      it->second->executable() == file.executable();
    if (!same) PutFile(tree, file);
    if (it != old.end()) old.erase(it);
  }
  auto* files = tree.mutable_files();
  files->erase(std::remove_if(files->begin(), files->end(),
                              [&](const v1::File& file) { return old.count(file.path()) != 0; }),
               files->end());
}

}  // namespace

Episode::Episode(std::shared_ptr<const EpisodeGroup> group, uint32_t member,
                 const AgentProtocol& protocol, const EpisodeLimits& limits, int64_t now_ms)
    : group_(std::move(group)), protocol_(protocol), limits_(limits), member_(member) {
  v1::TrajectoryId& id = *trajectory_.mutable_id();
  id.set_task(task().id());
  id.set_group(group_->lease.group());
  id.set_member(member);
  id.set_attempt(group_->attempt);
  trajectory_.set_purpose(group_->lease.purpose());
  trajectory_.set_eval_name(group_->lease.eval_name());
  const std::vector<TokenId>& prompt = group_->PromptOf(member);
  trajectory_.mutable_prompt_ids()->Add(prompt.begin(), prompt.end());
  const v1::CaseSet none;
  const v1::CaseSet& cases = group_->cases.empty() ? none : group_->cases[member];
  for (const v1::ShownCase& one : cases.cases()) trajectory_.add_shown_cases(one.number());
  talk_ = protocol.Begin({task(), cases, group_->opened_ms});
  *trajectory_.mutable_sampling() = group_->lease.sampling();
  trajectory_.set_worker(group_->worker);
  trajectory_.set_started_ms(now_ms);
  trajectory_.set_group_members(group_->lease.members());
  trajectory_.set_token(group_->lease.token());
  *tree_.mutable_files() = task().files();
  NormalizeTree(tree_);
  tokens_ = prompt.size();
}

TurnParams Episode::NextTurnParams() const {
  const v1::Sampling& sampling = group_->lease.sampling();
  TurnParams turn;
  turn.sampling.temperature = static_cast<float>(sampling.temperature());
  if (sampling.top_p() > 0) turn.sampling.top_p = static_cast<float>(sampling.top_p());
  turn.sampling.top_k = static_cast<int32_t>(sampling.top_k());
  turn.sampling.min_p = static_cast<float>(sampling.min_p());
  turn.max_new_tokens = static_cast<int32_t>(sampling.max_turn_tokens());
  turn.stop_ids = protocol_.stop_ids();
  turn.seed = MixHash(group_->lease.seed(), member_);
  return turn;
}

bool Episode::LastTurn() const {
  return static_cast<uint32_t>(trajectory_.turns_size()) >= group_->lease.max_turns();
}

EpisodeActions Episode::Begin(int64_t now_ms) {
  if (!group_->prompted.ok()) return GiveUp(Failure::kPrompt, group_->prompted.message(), now_ms);
  if (static_cast<int64_t>(tokens_) >= group_->max_context) {
    return GiveUp(Failure::kPrompt,
                  "it has " + std::to_string(tokens_) + " tokens and the context " +
                      std::to_string(group_->max_context),
                  now_ms);
  }
  trajectory_.add_turns()->set_started_ms(now_ms);
  EpisodeActions actions;
  actions.generate = true;
  actions.turn = NextTurnParams();
  return actions;
}

EpisodeActions Episode::OnTurn(const TurnOutput& output, int64_t now_ms) {
  if (over_) return {};
  v1::Turn& turn = *trajectory_.mutable_turns(trajectory_.turns_size() - 1);
  turn.mutable_ids()->Add(output.ids.begin(), output.ids.end());
  turn.mutable_logprobs()->Add(output.logprobs.begin(), output.logprobs.end());
  if (!output.supports.empty()) FillSupports(output.supports, 0, *turn.mutable_supports());
  for (const TokenVersionRun& run : output.versions) {
    v1::VersionRun& stored = *turn.add_versions();
    stored.set_version(run.version);
    stored.set_tokens(run.tokens);
  }
  turn.set_finished_ms(now_ms);
  tokens_ += output.ids.size();
  switch (output.finish) {
    case TurnFinish::kStop:
      turn.set_end(v1::TURN_END_STOP);
      break;
    case TurnFinish::kLength:
      turn.set_end(v1::TURN_END_LENGTH);
      break;
    case TurnFinish::kContext:
      turn.set_end(v1::TURN_END_CONTEXT);
      break;
    case TurnFinish::kCancelled:
      return GiveUp(Failure::kEngine, "it cancelled the sequence", now_ms);
  }
  if (output.finish == TurnFinish::kContext) return Finish(v1::EPISODE_END_CONTEXT, now_ms);
  if (output.finish == TurnFinish::kLength) return Finish(v1::EPISODE_END_MAX_TOKENS, now_ms);

  parsed_ = talk_->Parse(output.ids);
  checking_answer_ = false;
  if (parsed_.answer) {
    WriteAnswer(*parsed_.answer);
    if (!protocol_.ChecksAnswers() || LastTurn() || !task().has_examples()) {
      return Finish(v1::EPISODE_END_SUBMITTED, now_ms);
    }
    checking_answer_ = true;
    parsed_.calls = {{"run_tests", "{}"}};
  } else if (!parsed_.malformed.empty()) {
    turn.set_malformed(parsed_.malformed);
    if (LastTurn()) return Finish(v1::EPISODE_END_MALFORMED, now_ms);
    return ContinueWith(talk_->Observe(parsed_, {}, limits_.observation_tokens), now_ms);
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

v1::ToolRequest Episode::MakeRequest(const RequestedCall& call, size_t index) const {
  v1::ToolRequest request;
  request.set_request_id(std::to_string(group_->lease.group()) + "." + std::to_string(member_) +
                         "." + std::to_string(group_->attempt) + ".t" +
                         std::to_string(trajectory_.turns_size()) + ".c" + std::to_string(index) +
                         "@" + group_->worker);
  request.set_cancel_token(CancelToken());
  *request.mutable_episode() = trajectory_.id();
  request.set_tool(call.tool);
  request.set_arguments_json(call.arguments_json);
  *request.mutable_limits() = task().limits();
  if (call.tool == "run_tests" && task().has_examples())
    *request.mutable_grading() = task().examples();
  request.set_keep_box(!checking_answer_);
  request.set_root(task().root());
  return request;
}

std::string Episode::CancelToken() const {
  return TokenFor(group_->secret, "cancel " + TrajectoryKey::From(trajectory_.id()).ToString());
}

EpisodeActions Episode::StartCalls(int64_t now_ms) {
  calls_.clear();
  wave_begin_ = wave_end_ = 0;
  for (size_t i = 0; i < parsed_.calls.size(); ++i) {
    PendingCall call;
    call.request = MakeRequest(parsed_.calls[i], i);
    if (i >= limits_.calls_per_turn) {
      call.done = true;
      call.result.set_outcome(v1::OUTCOME_INVALID);
      call.result.set_cause("too many calls in one turn");
      call.result.set_text("refused: at most " + std::to_string(limits_.calls_per_turn) +
                           " calls in one turn");
    }
    calls_.push_back(std::move(call));
  }
  return NextWave(now_ms);
}

// A tool of which nothing is known may change files.
bool Episode::ChangesFiles(const PendingCall& call) const {
  const std::string& tool = call.request.tool();
  if (const ToolRow* row = FindTool(tool); row != nullptr) return row->changes;
  const auto& configured = limits_.reading_tools;
  return std::find(configured.begin(), configured.end(), tool) == configured.end();
}

// A call that changes files runs alone, after those before it and before those behind it; the
// others run side by side.
EpisodeActions Episode::NextWave(int64_t now_ms) {
  EpisodeActions actions;
  wave_begin_ = wave_end_;
  if (wave_begin_ == calls_.size()) return AfterCalls(now_ms);
  wave_end_ = wave_begin_ + 1;
  if (!ChangesFiles(calls_[wave_begin_])) {
    while (wave_end_ < calls_.size() && !ChangesFiles(calls_[wave_end_])) ++wave_end_;
  }
  for (size_t i = wave_begin_; i < wave_end_; ++i) {
    PendingCall& call = calls_[i];
    call.asked_ms = now_ms;
    if (call.done) continue;
    *call.request.mutable_tree() = tree_;
    if (call.request.tool() == kShellTool) call.request.set_box_holder(box_holder_);
    call.request.set_created_ms(now_ms);
    actions.calls.push_back({call.request, Duration(0)});
  }
  if (actions.calls.empty()) return NextWave(now_ms);
  return actions;
}

EpisodeActions Episode::OnResult(const v1::ToolResult& result, int64_t now_ms) {
  EpisodeActions actions;
  if (over_) return actions;
  auto call = std::find_if(calls_.begin(), calls_.end(), [&](const PendingCall& pending) {
    return !pending.done && pending.request.request_id() == result.request_id();
  });
  if (call == calls_.end()) return actions;
  if (result.outcome() == v1::OUTCOME_UNAVAILABLE || result.outcome() == v1::OUTCOME_UNSPECIFIED) {
    // A command may have run, and what was in its box is gone: nothing short of the whole episode
    // can be tried again.
    if (result.box_lost() || !call->request.box_holder().empty()) {
      return GiveUp(Failure::kBoxLost, result.cause(), now_ms);
    }
    if (call->retries < limits_.tool_retries) {
      const Duration delay = BackOff(limits_.retry_delay, call->retries++);
      ++retries_;
      const std::string base =
          call->request.request_id().substr(0, call->request.request_id().find('~'));
      call->request.set_request_id(base + "~" + std::to_string(call->retries));
      call->request.set_created_ms(now_ms);
      actions.calls.push_back({call->request, delay});
      return actions;
    }
    if (limits_.stale_on_unavailable()) {
      return GiveUp(Failure::kTool, call->request.tool() + ": " + result.cause(), now_ms);
    }
    call->skipped = true;
  }
  call->done = true;
  call->result = result;
  const bool ran = !call->skipped && result.outcome() != v1::OUTCOME_INVALID;
  if (call->request.tool() == kShellTool && ran) box_holder_ = result.worker();
  if (call->skipped) call->result.set_text("the tool is unavailable at the moment");
  trajectory_.mutable_turns(trajectory_.turns_size() - 1)->set_observed_ms(now_ms);
  for (size_t i = wave_begin_; i < wave_end_; ++i) {
    if (!calls_[i].done) return actions;
  }
  const v1::Tree before = tree_;
  for (size_t i = wave_begin_; i < wave_end_; ++i) {
    if (calls_[i].result.has_tree()) MergeChanges(before, calls_[i].result.tree(), tree_);
  }
  return NextWave(now_ms);
}

void Episode::RecordCalls() {
  v1::Turn& turn = *trajectory_.mutable_turns(trajectory_.turns_size() - 1);
  const std::string tree_hash = TreeHash(tree_);
  for (const PendingCall& call : calls_) {
    v1::ToolCall& record = *turn.add_calls();
    record.set_tool(call.request.tool());
    record.set_arguments_json(call.request.arguments_json());
    record.set_outcome(call.result.outcome());
    record.set_text(call.result.text());
    record.set_wait_ms(static_cast<double>(turn.observed_ms() - call.asked_ms));
    record.set_run_ms(call.result.wall_ms());
    record.set_retries(call.retries);
    record.set_skipped(call.skipped);
    record.set_tests_passed(call.result.tests_passed());
    record.set_tests_total(call.result.tests_total());
    record.set_compiled(call.result.compiled());
    record.set_tree_hash(tree_hash);
  }
}

EpisodeActions Episode::AfterCalls(int64_t now_ms) {
  RecordCalls();
  if (checking_answer_) {
    const v1::ToolResult& check = calls_[0].result;
    const bool passed = check.tests_total() > 0 && check.tests_passed() == check.tests_total();
    if (passed || calls_[0].skipped) return Finish(v1::EPISODE_END_SUBMITTED, now_ms);
  }
  if (LastTurn()) return Finish(v1::EPISODE_END_MAX_TURNS, now_ms);
  std::vector<v1::ToolResult> results;
  for (PendingCall& call : calls_) results.push_back(std::move(call.result));
  return ContinueWith(talk_->Observe(parsed_, results, limits_.observation_tokens), now_ms);
}

EpisodeActions Episode::ContinueWith(Result<NextPrompt> next, int64_t now_ms) {
  if (!next.ok()) return GiveUp(Failure::kPrompt, next.status().message(), now_ms);
  const size_t tokens = next->anew ? next->ids.size() : tokens_ + next->ids.size();
  // Room for it and at least one token of an answer.
  if (static_cast<int64_t>(tokens) + 1 > group_->max_context) {
    return Finish(v1::EPISODE_END_CONTEXT, now_ms);
  }
  tokens_ = tokens;
  calls_.clear();
  v1::Turn& before = *trajectory_.mutable_turns(trajectory_.turns_size() - 1);
  auto& ids = next->anew ? *trajectory_.add_turns()->mutable_prompt_ids()
                         : *before.mutable_observation_ids();
  ids.Add(next->ids.begin(), next->ids.end());
  if (!next->anew) trajectory_.add_turns();
  trajectory_.mutable_turns(trajectory_.turns_size() - 1)->set_started_ms(now_ms);
  EpisodeActions actions;
  actions.generate = true;
  actions.append = std::move(next->ids);
  actions.anew = next->anew;
  actions.turn = NextTurnParams();
  return actions;
}

EpisodeActions Episode::OnAgent(AgentOutcome outcome, int64_t now_ms) {
  if (over_) return {};
  trajectory_.clear_prompt_ids();  // the protocol's, which nobody sent
  *trajectory_.mutable_log() = std::move(outcome.log);
  for (size_t i = 0; i < outcome.branches.size(); ++i) {
    v1::Trajectory& branch = outcome.branches[i];
    if (i == 0) {
      *trajectory_.mutable_prompt_ids() = std::move(*branch.mutable_prompt_ids());
      trajectory_.mutable_sampling()->set_temperature(branch.sampling().temperature());
    } else {
      // A trajectory is trained at one temperature.
      if (branch.sampling().temperature() != trajectory_.sampling().temperature()) continue;
      *branch.mutable_turns(0)->mutable_prompt_ids() = std::move(*branch.mutable_prompt_ids());
    }
    for (v1::Turn& turn : *branch.mutable_turns()) *trajectory_.add_turns() = std::move(turn);
  }
  if (outcome.reward) *trajectory_.mutable_environment() = std::move(*outcome.reward);
  tree_ = std::move(outcome.tree);
  for (const v1::File& file : tree_.files()) {
    if (!file.path().empty() && file.path() == task().answer_file() && file.has_content()) {
      trajectory_.set_submission(file.content());
    }
  }
  return Finish(outcome.end, now_ms);
}

EpisodeActions Episode::Finish(v1::EpisodeEnd end, int64_t now_ms) {
  over_ = true;
  trajectory_.set_end(end);
  trajectory_.set_finished_ms(now_ms);
  *trajectory_.mutable_tree() = std::move(tree_);
  EpisodeActions actions;
  actions.finished = true;
  return actions;
}

EpisodeActions Episode::GiveUp(Failure failure, const std::string& detail, int64_t now_ms) {
  if (over_) return {};
  trajectory_.set_stale_cause(FailureText(failure, detail));
  trajectory_.set_failure(std::string(RowOf(failure).words));
  return Finish(v1::EPISODE_END_GIVEN_UP, now_ms);
}

EpisodeActions Episode::GiveUpAgent(AgentOutcome outcome, int64_t now_ms) {
  if (over_) return {};
  trajectory_.clear_prompt_ids();
  *trajectory_.mutable_log() = std::move(outcome.log);
  return GiveUp(outcome.failure, outcome.status.ToString(), now_ms);
}

}  // namespace tidemill
