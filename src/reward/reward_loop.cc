#include "reward/reward_loop.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bus/read_message.h"
#include "core/metrics.h"
#include "core/text.h"
#include "core/topics.h"
#include "reward/judge_scorer.h"
#include "reward/proof_port.h"
#include "tools/tool_table.h"

namespace tidemill {
namespace {

constexpr size_t kMessagesAtOnce = 256;
constexpr size_t kRunsMax = 24;     // tool runs and questions of one scoring under way
constexpr uint32_t kRoundsMax = 6;  // a scorer that never has enough is broken

double ShareOf(const v1::ToolCall& call) {
  return call.tests_total() == 0 ? 0
                                 : static_cast<double>(call.tests_passed()) / call.tests_total();
}

QuestionOptions CallsOf(const RewardOptions& options) {
  QuestionOptions calls;
  calls.inbox = InboxTopic(options.worker, "reward");
  calls.most = size_t{options.max_outstanding} * kRunsMax;
  calls.patience = options.call_patience;
  calls.secret = options.secret;
  calls.limits = options.limits;
  return calls;
}

QuestionOptions JudgesOf(const RewardOptions& options) {
  QuestionOptions judges = CallsOf(options);
  judges.inbox = InboxTopic(options.worker, "judged");
  // One question of each for its reward, and one for the order.
  judges.most = size_t{options.max_outstanding} * (options.judges.size() + 1);
  // A judge that is there answers within its own patience.
  for (const RunConfig::JudgeKeys& judge : options.judges)
    judges.patience = std::max<Duration>(judges.patience, judge.patience * 3 / 2);
  return judges;
}

}  // namespace

RewardLoop::RewardLoop(Bus& bus, const Clock& clock, std::vector<WeightedScorer> scorers,
                       RewardOptions options, ScorerPort* port)
    : bus_(bus),
      clock_(clock),
      scorers_(std::move(scorers)),
      options_(std::move(options)),
      outbox_(bus, options_.lease_period),
      leases_(bus, options_.lease_period),
      port_(port),
      calls_(bus, outbox_, CallsOf(options_)),
      judges_(bus, outbox_, JudgesOf(options_)),
      order_({.wait_max = options_.order_wait}) {
  for (const WeightedScorer& weighted : scorers_) {
    if (weighted.scorer->IsAudited())
      audits_.emplace_back(std::string(weighted.scorer->name()), options_.audit, options_.seed);
  }
}

void RewardLoop::Attach(Waker& waker) {
  calls_.Attach(waker);
  if (!options_.judges.empty()) judges_.Attach(waker);
  bus_.Subscribe(kScoreTopic, waker);
  if (port_ != nullptr) port_->events().Attach(waker);
}

Time RewardLoop::Step(Time now) {
  TakeResults(now);
  TakeAnswers(now);
  TakeJudged(now);
  SendDue(now);
  GiveUpLost(now);
  for (uint64_t key : leases_.Extend(now)) scorings_.erase(key);  // another worker's now
  if (!draining_) TakeRequests(now);
  SendOrdered(now);
  outbox_.Flush(now);
  counters_.in_progress = scorings_.size();
  Time wake = std::min({now + milliseconds(100), leases_.next(), later_.next()});
  if (outbox_.waiting() > 0) wake = std::min(wake, now + milliseconds(5));
  return wake;
}

void RewardLoop::TakeRequests(Time now) {
  const size_t room =
      options_.max_outstanding - std::min<size_t>(options_.max_outstanding, scorings_.size());
  for (Lease& lease : TakeFrom(bus_, kScoreTopic, std::min(room, kMessagesAtOnce))) {
    v1::ScoreRequest request;
    if (!ReadOrReject(bus_, lease, request, options_.limits)) continue;
    const uint64_t key = next_key_++;
    Scoring& scoring = scorings_[key];
    LearnVersions(request);
    scoring.request = std::move(request);
    scoring.began = now;
    leases_.Hold(key, std::move(lease), now);
    Advance(key, now);
  }
}

// Asks for what scorers still need; when they need nothing more, they judge.
void RewardLoop::Advance(uint64_t key, Time now) {
  Scoring& scoring = scorings_.at(key);
  if (!scoring.open.empty()) return;
  std::map<std::string, Need> needs;
  // Solved tasks are counted whatever the reward is made of; in an evaluation always by their
  // tests.
  const bool cases = HasHiddenTests(scoring.request);
  const bool told =
      scoring.request.purpose() != v1::PURPOSE_EVAL && SolvedBy(scoring) != TaskSolved::kNotKnown;
  if (cases && !told && scoring.evidence.Tool("grade") == nullptr)
    needs.emplace("grade", Need{.kind = Need::Kind::kTool, .name = "grade"});
  for (const WeightedScorer& weighted : scorers_) {
    if (!WeightOf(weighted, scoring)) continue;
    if (NeedsExecution(*weighted.scorer, scoring))
      needs.emplace("grade", Need{.kind = Need::Kind::kTool, .name = "grade"});
    if (Replaced(*weighted.scorer)) continue;
    for (Need& need : weighted.scorer->Needs(scoring.request, scoring.evidence))
      needs.emplace(need.kind == Need::Kind::kJudge ? "judge " + need.name : need.Key(), need);
  }
  if (needs.empty() || ++scoring.rounds > kRoundsMax || needs.size() > kRunsMax) {
    TM_CHECK(needs.empty(), "a scorer asked too many questions");
    CountAudits(scoring);
    Send(key, Judge(scoring));
    return;
  }
  for (auto& [run, need] : needs) {
    if (need.look > 1) ++counters_.second_looks;
    scoring.open[run].need = std::move(need);
  }
  for (const auto& [run, need] : needs) Ask({key, run}, now);
}

std::optional<double> RewardLoop::WeightOf(const WeightedScorer& weighted, const Scoring& scoring) {
  if (scoring.request.weights().empty()) {
    return weighted.by_default ? std::optional(weighted.weight) : std::nullopt;
  }
  for (const v1::ScorerWeight& own : scoring.request.weights()) {
    if (own.scorer() == weighted.scorer->name()) return own.weight();
  }
  return std::nullopt;
}

// What the scorers say without the hidden tests.
TaskSolved RewardLoop::SolvedBy(const Scoring& scoring) const {
  for (const WeightedScorer& weighted : scorers_) {
    if (!WeightOf(weighted, scoring) || Replaced(*weighted.scorer)) continue;
    const TaskSolved solved = weighted.scorer->Solved(scoring.request, scoring.evidence);
    if (solved != TaskSolved::kNotKnown) return solved;
  }
  return TaskSolved::kNotKnown;
}

void RewardLoop::Ask(const Asked& asked, Time now) {
  auto it = scorings_.find(asked.scoring);
  if (it == scorings_.end()) return;
  const Scoring& scoring = it->second;
  const Run& open = scoring.open.at(asked.run);
  if (open.need.kind == Need::Kind::kTool) {
    if (!HoldBack(asked, now)) AskTool(scoring, open, asked, now);
    return;
  }
  if (open.need.kind == Need::Kind::kJudge) {
    AskJudge(scoring, open, asked, now);
    return;
  }
  if (port_ == nullptr || !port_->Knows(open.need.name)) {
    v1::Verdict verdict;
    verdict.set_cause("no command \"" + open.need.name + "\" is configured");
    Send(asked.scoring, std::move(verdict));
    return;
  }
  const uint64_t tag = next_tag_++;
  port_asked_.emplace(tag, asked);
  port_->Submit(open.need.name, MakeQuestion(open.need, scoring.request, scoring.evidence), tag);
}

void RewardLoop::AskTool(const Scoring& scoring, const Run& run, Asked asked, Time now) {
  const std::string& tool = run.need.name;
  v1::ToolRequest request;
  request.set_request_id(scoring.request.request_id() + "." + run.need.Key() +
                         std::to_string(run.tries) + "@" + options_.worker);
  *request.mutable_episode() = scoring.request.id();
  request.set_tool(tool);
  request.set_arguments_json("{}");
  *request.mutable_tree() = scoring.request.tree();
  request.set_root(scoring.request.root());
  if (tool == "grade") {
    *request.mutable_grading() = scoring.request.grading();
    v1::Limits& limits = *request.mutable_grading()->mutable_limits();
    // Not set stays not set: then the default is the limit of both looks.
    limits.set_cpu_ms(limits.cpu_ms() * run.need.look);
    limits.set_wall_ms(limits.wall_ms() * run.need.look);
    *request.mutable_limits() = limits;
    request.set_arguments_json(run.need.look == 1 ? "{}" : "{\"look\":2}");
  } else {
    const auto& files = scoring.request.files();
    const std::vector<std::string> names(files.begin(), files.end());
    request.set_arguments_json(nlohmann::json{{"files", names}}.dump(
        -1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  request.set_created_ms(clock_.WallMs());
  calls_.Ask(ToolTopic(tool), std::move(request), std::move(asked), now);
}

const RunConfig::JudgeKeys& RewardLoop::JudgeOf(const Need& need) const {
  const auto judge =
      std::find_if(options_.judges.begin(), options_.judges.end(),
                   [&](const RunConfig::JudgeKeys& keys) { return keys.name == need.name; });
  TM_CHECK(judge != options_.judges.end(), "the scorer knows the judges of the config");
  return *judge;
}

void RewardLoop::AskJudge(const Scoring& scoring, const Run& run, const Asked& asked, Time now) {
  const RunConfig::JudgeKeys& judge = JudgeOf(run.need);
  Result<v1::JudgeRequest> request = MakeJudgeRequest(judge, scoring.request);
  if (!request.ok()) {
    v1::Verdict verdict;
    verdict.set_cause("judge " + judge.name + ": " + request.status().message());
    Send(asked.scoring, std::move(verdict));
    return;
  }
  request->set_request_id(scoring.request.request_id() + "." + judge.name + "." +
                          std::to_string(run.tries) + "@" + options_.worker);
  judges_.Ask(kJudgeTopic, std::move(*request), asked, now);
}

void RewardLoop::TakeJudged(Time now) {
  if (options_.judges.empty()) return;
  for (auto& [asked, status, answer, lease] :
       judges_.TakeAnswers<v1::JudgeAnswer>(kMessagesAtOnce)) {
    if (status.ok()) (void)bus_.Ack(lease);
    if (!status.ok() || !answer.available()) {
      OnFailure(asked, status.ok() ? answer.cause() : status.message(), now);
      continue;
    }
    const auto it = scorings_.find(asked.scoring);
    if (OnEstimate(asked, &answer) || it == scorings_.end()) continue;
    const Need& need = it->second.open.at(asked.run).need;
    status = CheckJudgeAnswer(JudgeOf(need), it->second.request, answer);
    if (!status.ok()) {
      OnFailure(asked, status.message(), now);
      continue;
    }
    it->second.evidence.judged[need.name] = std::move(answer);
    it->second.open.erase(asked.run);
    Advance(asked.scoring, now);
  }
}

void RewardLoop::TakeResults(Time now) {
  for (auto& [asked, status, result, lease] : calls_.TakeAnswers<v1::ToolResult>(kMessagesAtOnce)) {
    if (!status.ok()) {
      OnFailure(asked, status.message(), now);
      continue;
    }
    (void)bus_.Ack(lease);
    OnResult(asked, std::move(result), now);
  }
}

void RewardLoop::TakeAnswers(Time now) {
  if (port_ == nullptr) return;
  for (ScorerDone& done : port_->events().TakeAll()) {
    auto question = port_asked_.extract(done.tag);
    if (question.empty()) continue;
    const Asked& asked = question.mapped();
    if (!done.status.ok()) {
      OnFailure(asked, done.status.message(), now);
      continue;
    }
    auto it = scorings_.find(asked.scoring);
    if (it == scorings_.end()) continue;
    if (asked.run == kProofQuestion) CountProof(done);
    it->second.evidence.answers[asked.run] = std::move(done.answer);
    it->second.open.erase(asked.run);
    Advance(asked.scoring, now);
  }
}

void RewardLoop::OnResult(const Asked& asked, v1::ToolResult result, Time now) {
  auto it = scorings_.find(asked.scoring);
  if (it == scorings_.end()) return;
  const bool ours =
      result.outcome() == v1::OUTCOME_UNAVAILABLE || result.outcome() == v1::OUTCOME_UNSPECIFIED;
  if (ours) {
    OnFailure(asked, result.cause(), now);
    return;
  }
  if (asked.run == "grade") {
    ++counters_.graded;
    NoteExecuted(it->second, result);
    counters_.graded_micros += static_cast<uint64_t>(std::max(0.0, result.cpu_ms()) * 1e3);
  }
  it->second.evidence.tools[asked.run] = std::move(result);
  it->second.open.erase(asked.run);
  Advance(asked.scoring, now);
}

// Something of ours failed: again, later, and in the end no reward rather than a wrong one.
void RewardLoop::OnFailure(const Asked& asked, const std::string& cause, Time now) {
  auto it = scorings_.find(asked.scoring);
  if (OnEstimate(asked, nullptr) || it == scorings_.end()) return;
  Run& open = it->second.open.at(asked.run);
  if (open.tries >= options_.retries) {
    v1::Verdict verdict;
    verdict.set_cause(asked.run + " unavailable: " + cause);
    Send(asked.scoring, std::move(verdict));
    return;
  }
  ++counters_.retries;
  later_.Put(now + BackOff(options_.retry_delay, open.tries++), asked);
}

void RewardLoop::SendDue(Time now) {
  for (const Asked& due : later_.TakeDue(now)) Ask(due, now);
}

void RewardLoop::GiveUpLost(Time now) {
  for (const auto& [id, asked] : calls_.TakeLost(now)) OnFailure(asked, "no answer in time", now);
  for (const auto& [id, asked] : judges_.TakeLost(now)) OnFailure(asked, "no answer in time", now);
}

v1::Verdict RewardLoop::Judge(const Scoring& scoring) const {
  v1::Verdict verdict;
  const ScoreEvidence& evidence = scoring.evidence;
  verdict.set_scored(true);
  for (const WeightedScorer& weighted : scorers_) {
    const std::optional<double> weight = WeightOf(weighted, scoring);
    if (!weight) continue;
    Result<v1::RewardPart> part = Replaced(*weighted.scorer)
                                      ? ScoreExecuted(*weighted.scorer, scoring)
                                      : weighted.scorer->Score(scoring.request, evidence);
    if (!part.ok()) {
      verdict.Clear();
      verdict.set_cause(std::string(weighted.scorer->name()) + ": " + part.status().message());
      return verdict;
    }
    part->set_weight(*weight);
    AddAudit(*weighted.scorer, scoring, *part);
    verdict.set_correction(verdict.correction() + part->correction() * *weight);
    verdict.set_reward(verdict.reward() + part->value() * *weight);
    *verdict.add_parts() = std::move(*part);
  }
  const uint32_t further_turns = std::max(scoring.request.turns(), 1u) - 1;
  const double discount = std::pow(options_.turn_discount, further_turns);
  verdict.set_reward(verdict.reward() * discount);
  verdict.set_correction(verdict.correction() * discount);
  SetSolved(scoring, verdict);
  if (const v1::ToolResult* lint = evidence.Tool("lint"))
    *verdict.mutable_diagnostics() = lint->diagnostics();
  const Status turns = AddTurnRewards(scoring, verdict);
  if (turns.ok()) return verdict;
  v1::Verdict none;
  none.set_cause(turns.message());
  return none;
}

void RewardLoop::SetSolved(const Scoring& scoring, v1::Verdict& verdict) const {
  if (const v1::ToolResult* grade = scoring.evidence.Tool("grade")) {
    verdict.set_tests_passed(grade->tests_passed());
    verdict.set_tests_total(grade->tests_total());
    verdict.set_compiled(grade->compiled());
    verdict.set_solved(verdict.tests_total() > 0 &&
                       verdict.tests_passed() == verdict.tests_total());
  } else if (const TaskSolved solved = SolvedBy(scoring); solved != TaskSolved::kNotKnown) {
    verdict.set_compiled(true);
    verdict.set_solved(solved == TaskSolved::kYes);
  } else if (!scoring.request.weights().empty()) {
    // No tests to pass: everything that earns something has to be as good as it can be.
    bool whole = false;
    for (const v1::RewardPart& part : verdict.parts()) {
      if (part.weight() <= 0) continue;
      whole = part.value() >= 1;
      if (!whole) break;
    }
    verdict.set_solved(whole);
  }
}

// A turn's gain in visible tests, and what scorers say of single turns.
Status RewardLoop::AddTurnRewards(const Scoring& scoring, v1::Verdict& verdict) const {
  double before = 0;
  for (const v1::ToolCall& call : scoring.request.last_calls()) {
    const double share = call.tests_total() == 0 ? before : ShareOf(call);
    verdict.add_turn_rewards(options_.turn_weight * (share - before));
    before = share;
  }
  for (const WeightedScorer& weighted : scorers_) {
    const std::optional<double> weight = WeightOf(weighted, scoring);
    if (!weight || Replaced(*weighted.scorer)) continue;
    const std::vector<double> rewards = weighted.scorer->TurnRewards(scoring.evidence);
    if (rewards.empty()) continue;
    if (rewards.size() != static_cast<size_t>(verdict.turn_rewards_size())) {
      return Unavailable(std::string(weighted.scorer->name()) + ": \"turn_rewards\" has " +
                         std::to_string(rewards.size()) + " numbers for " +
                         std::to_string(verdict.turn_rewards_size()) + " turns");
    }
    for (int i = 0; i < verdict.turn_rewards_size(); ++i) {
      verdict.set_turn_rewards(i,
                               verdict.turn_rewards(i) + *weight * rewards[static_cast<size_t>(i)]);
    }
  }
  return Ok();
}

void RewardLoop::Send(uint64_t key, v1::Verdict verdict) {
  auto node = scorings_.extract(key);
  const v1::ScoreRequest& request = node.mapped().request;
  *verdict.mutable_id() = request.id();
  verdict.set_request_id(request.request_id());
  verdict.set_token(request.token());
  ++(verdict.scored() ? counters_.scored : counters_.unscorable);
  for (const v1::RewardPart& part : verdict.parts()) {
    if (part.scorer() == "literal" && part.value() > 0) ++counters_.repeated_literals;
  }
  if (options_.metrics != nullptr) {
    options_.metrics
        ->Histogram("tidemill_score_seconds", "Time from a score request to its verdict")
        .Observe(Seconds(clock_.Now() - node.mapped().began));
  }
  MakeReadable(verdict);
  outbox_.Reply(request.reply_to(), verdict.SerializeAsString(), leases_.Take(key));
}

void RewardLoop::Drain() {
  draining_ = true;
  leases_.ReleaseAll();
  scorings_.clear();
  calls_.Clear();
  judges_.Clear();
  port_asked_.clear();
  ForgetOrder();
}

}  // namespace tidemill
