#include "reward/reward_loop.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "core/metrics.h"
#include "core/topics.h"

namespace tidemill {
namespace {

constexpr size_t kMessagesAtOnce = 256;
constexpr const char* kTools[] = {"grade", "lint"};

double ShareOf(const v1::ToolCall& call) {
  return call.tests_total() == 0 ? 0
                                 : static_cast<double>(call.tests_passed()) / call.tests_total();
}

}  // namespace

RewardLoop::RewardLoop(Bus& bus, const Clock& clock, std::vector<WeightedScorer> scorers,
                       RewardOptions options)
    : bus_(bus),
      clock_(clock),
      scorers_(std::move(scorers)),
      options_(std::move(options)),
      inbox_(InboxTopic(options_.worker, "reward")),
      outbox_(bus, options_.lease_period),
      leases_(bus, options_.lease_period) {
  for (const WeightedScorer& weighted : scorers_) {
    needs_[kGrade] |= weighted.scorer->NeedsGrade();
    needs_[kLint] |= weighted.scorer->NeedsLint();
  }
}

void RewardLoop::Attach(Waker& waker) {
  TopicOptions inbox;
  inbox.capacity = size_t{options_.max_outstanding} * kRuns;
  const Status opened = bus_.Open(inbox_, inbox);
  if (!opened.ok()) throw std::runtime_error("opening " + inbox_ + ": " + opened.ToString());
  bus_.Subscribe(kScoreTopic, waker);
  bus_.Subscribe(inbox_, waker);
}

Time RewardLoop::Step(Time now) {
  TakeResults(now);
  SendDue(now);
  GiveUpLost(now);
  for (uint64_t key : leases_.Extend(now)) scorings_.erase(key);  // another worker's now
  if (!draining_) TakeRequests(now);
  outbox_.Flush(now);
  counters_.in_progress = scorings_.size();
  Time wake = std::min(now + milliseconds(100), leases_.next());
  if (outbox_.waiting() > 0) wake = std::min(wake, now + milliseconds(5));
  if (!later_.empty()) wake = std::min(wake, later_.top().at);
  return wake;
}

void RewardLoop::TakeRequests(Time now) {
  const size_t room =
      options_.max_outstanding - std::min<size_t>(options_.max_outstanding, scorings_.size());
  for (Lease& lease : TakeFrom(bus_, kScoreTopic, std::min(room, kMessagesAtOnce))) {
    v1::ScoreRequest request;
    if (!request.ParseFromString(lease.body) || request.reply_to().empty()) {
      (void)bus_.Reject(lease, "not a ScoreRequest with a reply_to");
      continue;
    }
    const uint64_t key = next_key_++;
    Scoring& scoring = scorings_[key];
    scoring.request = std::move(request);
    scoring.began = now;
    // An evaluation always counts solved tasks, whatever the reward is made of.
    scoring.wanted[kGrade] =
        scoring.request.has_grading() && scoring.request.grading().cases_size() > 0;
    scoring.wanted[kLint] = needs_[kLint] && scoring.request.files_size() > 0;
    leases_.Hold(key, std::move(lease), now);
    for (Run run : {kGrade, kLint}) {
      if (scoring.wanted[run]) Ask(key, run, now);
    }
    FinishIfDone(key);
  }
}

void RewardLoop::Ask(uint64_t key, Run run, Time now) {
  auto it = scorings_.find(key);
  if (it == scorings_.end()) return;
  Scoring& scoring = it->second;
  v1::ToolRequest request;
  request.set_request_id(scoring.request.request_id() + "." + kTools[run] +
                         std::to_string(scoring.tries[run]) + "@" + options_.worker);
  *request.mutable_episode() = scoring.request.id();
  request.set_tool(kTools[run]);
  request.set_arguments_json("{}");
  *request.mutable_tree() = scoring.request.tree();
  if (run == kGrade) {
    *request.mutable_grading() = scoring.request.grading();
    *request.mutable_limits() = scoring.request.grading().limits();
  } else {
    std::string files;
    for (const std::string& file : scoring.request.files()) {
      files += (files.empty() ? "\"" : ",\"") + file + "\"";
    }
    request.set_arguments_json("{\"files\":[" + files + "]}");
  }
  request.set_reply_to(inbox_);
  request.set_created_ms(clock_.WallMs());
  calls_[request.request_id()] = {key, run, now + options_.call_patience};
  outbox_.Request(ToolTopic(kTools[run]), inbox_, request.SerializeAsString());
}

void RewardLoop::TakeResults(Time now) {
  for (Lease& lease : TakeFrom(bus_, inbox_, kMessagesAtOnce)) {
    v1::ToolResult result;
    if (!result.ParseFromString(lease.body)) {
      (void)bus_.Reject(lease, "not a ToolResult");
      continue;
    }
    (void)bus_.Ack(lease);
    auto call = calls_.find(result.request_id());
    if (call == calls_.end()) continue;  // a second answer
    const OpenCall open = call->second;
    calls_.erase(call);
    OnResult(open.scoring, open.run, std::move(result), now);
  }
}

void RewardLoop::OnResult(uint64_t key, Run run, v1::ToolResult result, Time now) {
  auto it = scorings_.find(key);
  if (it == scorings_.end()) return;
  Scoring& scoring = it->second;
  const bool ours =
      result.outcome() == v1::OUTCOME_UNAVAILABLE || result.outcome() == v1::OUTCOME_UNSPECIFIED;
  if (ours && scoring.tries[run] < options_.retries) {
    ++scoring.tries[run];
    ++counters_.retries;
    later_.push({now + options_.retry_delay * (1 << (scoring.tries[run] - 1)), key, run});
    return;
  }
  if (ours) {
    v1::Verdict verdict;
    verdict.set_cause(std::string(kTools[run]) + " unavailable: " + result.cause());
    Send(key, std::move(verdict));
    return;
  }
  scoring.results[run] = std::move(result);
  FinishIfDone(key);
}

void RewardLoop::SendDue(Time now) {
  while (!later_.empty() && later_.top().at <= now) {
    const Later due = later_.top();
    later_.pop();
    Ask(due.scoring, due.run, now);
  }
}

void RewardLoop::GiveUpLost(Time now) {
  if (now < next_lost_check_) return;
  next_lost_check_ = now + std::max<Duration>(options_.call_patience / 20, milliseconds(50));
  std::vector<OpenCall> lost;
  for (auto it = calls_.begin(); it != calls_.end();) {
    if (it->second.lost_at > now) {
      ++it;
      continue;
    }
    lost.push_back(it->second);
    it = calls_.erase(it);
    (void)bus_.Forgive(inbox_, 1);
  }
  for (const OpenCall& call : lost) {
    v1::ToolResult result;
    result.set_outcome(v1::OUTCOME_UNAVAILABLE);
    result.set_cause("no answer in time");
    OnResult(call.scoring, call.run, std::move(result), now);
  }
}

void RewardLoop::FinishIfDone(uint64_t key) {
  const Scoring& scoring = scorings_.at(key);
  for (Run run : {kGrade, kLint}) {
    if (scoring.wanted[run] && !scoring.results[run]) return;
  }
  Send(key, Judge(scoring));
}

v1::Verdict RewardLoop::Judge(const Scoring& scoring) const {
  v1::Verdict verdict;
  ScoreEvidence evidence;
  if (scoring.results[kGrade]) evidence.grade = &*scoring.results[kGrade];
  if (scoring.results[kLint]) evidence.lint = &*scoring.results[kLint];
  verdict.set_scored(true);
  for (const WeightedScorer& weighted : scorers_) {
    Result<v1::RewardPart> part = weighted.scorer->Score(scoring.request, evidence);
    if (!part.ok()) {
      verdict.Clear();
      verdict.set_cause(std::string(weighted.scorer->name()) + ": " + part.status().message());
      return verdict;
    }
    part->set_weight(weighted.weight);
    verdict.set_reward(verdict.reward() + part->value() * weighted.weight);
    *verdict.add_parts() = std::move(*part);
  }
  const uint32_t further_turns = std::max(scoring.request.turns(), 1u) - 1;
  verdict.set_reward(verdict.reward() * std::pow(options_.turn_discount, further_turns));
  if (evidence.grade != nullptr) {
    verdict.set_tests_passed(evidence.grade->tests_passed());
    verdict.set_tests_total(evidence.grade->tests_total());
    verdict.set_compiled(evidence.grade->compiled());
    verdict.set_solved(verdict.tests_total() > 0 &&
                       verdict.tests_passed() == verdict.tests_total());
  }
  if (evidence.lint != nullptr) *verdict.mutable_diagnostics() = evidence.lint->diagnostics();
  double before = 0;
  for (const v1::ToolCall& call : scoring.request.last_calls()) {
    const double share = call.tests_total() == 0 ? before : ShareOf(call);
    verdict.add_turn_rewards(options_.turn_weight * (share - before));
    before = share;
  }
  return verdict;
}

void RewardLoop::Send(uint64_t key, v1::Verdict verdict) {
  auto node = scorings_.extract(key);
  const v1::ScoreRequest& request = node.mapped().request;
  *verdict.mutable_id() = request.id();
  verdict.set_request_id(request.request_id());
  (verdict.scored() ? counters_.scored : counters_.unscorable)++;
  if (options_.metrics != nullptr) {
    options_.metrics->Histogram("tidemill_score_seconds", "From the request to its verdict")
        .Observe(Seconds(clock_.Now() - node.mapped().began));
  }
  outbox_.Reply(request.reply_to(), verdict.SerializeAsString(), leases_.Take(key));
}

void RewardLoop::Drain() {
  draining_ = true;
  leases_.ReleaseAll();
  scorings_.clear();
  calls_.clear();
}

}  // namespace tidemill
