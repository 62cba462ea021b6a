#include "reward/reward_loop.h"

#include <algorithm>
#include <utility>

#include "bus/read_message.h"
#include "core/metrics.h"
#include "core/text.h"
#include "core/topics.h"
#include "reward/judge_scorer.h"

namespace tidemill {
namespace {

constexpr size_t kRequestsAtOnce = 256;
constexpr uint32_t kRoundsMax = 6;  // a scorer that never has enough is broken

}  // namespace

RewardLoop::RewardLoop(Bus& bus, const Clock& clock, std::vector<WeightedScorer> scorers,
                       RewardOptions options, ScorerPort* port)
    : bus_(bus),
      clock_(clock),
      scorers_(std::move(scorers)),
      options_(std::move(options)),
      outbox_(bus, options_.lease_period),
      leases_(bus, options_.lease_period),
      audits_(scorers_, options_),
      verdicts_(scorers_, audits_, options_),
      asking_(bus, outbox_, clock, options_, port, counters_),
      gradings_(options_, asking_, counters_) {}

void RewardLoop::Attach(Waker& waker) {
  asking_.Attach(waker);
  bus_.Subscribe(kScoreTopic, waker);
}

Time RewardLoop::Step(Time now) {
  for (Asking::Answer& answer : asking_.TakeAnswers()) OnAnswer(std::move(answer), now);
  for (const NeedOf& due : later_.TakeDue(now)) Ask(due, now);
  for (Asking::Answer& lost : asking_.TakeLost(now)) OnAnswer(std::move(lost), now);
  for (uint64_t key : leases_.Extend(now)) scores_.erase(key);  // another worker's now
  if (!draining_) TakeRequests(now);
  SendOrdered(now);
  outbox_.Flush(now);
  counters_.in_progress = scores_.size();
  Time wake = std::min({now + milliseconds(100), leases_.next(), later_.next()});
  if (outbox_.waiting() > 0) wake = std::min(wake, now + milliseconds(5));
  return wake;
}

void RewardLoop::TakeRequests(Time now) {
  const size_t room =
      options_.max_outstanding - std::min<size_t>(options_.max_outstanding, scores_.size());
  for (Lease& lease : TakeFrom(bus_, kScoreTopic, std::min(room, kRequestsAtOnce))) {
    v1::ScoreRequest request;
    if (!ReadOrReject(bus_, lease, request, options_.limits)) continue;
    const uint64_t key = next_key_++;
    audits_.LearnVersions(request);
    OpenScore& score = scores_[key];
    score.request = std::move(request);
    score.began = now;
    leases_.Hold(key, std::move(lease), now);
    Advance(key, now);
  }
}

void RewardLoop::Advance(uint64_t key, Time now) {
  OpenScore& score = scores_.at(key);
  if (!score.open.empty()) return;
  std::map<std::string, Need> needs = verdicts_.Needs(score);
  if (needs.empty()) {
    audits_.Count(score);
    return Send(key, verdicts_.Make(score));
  }
  ++score.rounds;
  TM_CHECK(score.rounds <= kRoundsMax && needs.size() <= Asking::kNeedsMax,
           "a scorer asked too many questions");
  for (auto& [name, need] : needs) {
    if (need.look > 1) ++counters_.second_looks;
    score.open[name].need = std::move(need);
  }
  for (const auto& [name, need] : needs) Ask({key, name}, now);
}

void RewardLoop::Ask(const NeedOf& asked, Time now) {
  const auto it = scores_.find(asked.score);
  if (it == scores_.end()) return;
  const OpenNeed& need = it->second.open.at(asked.need);
  const bool held =
      need.need.kind == Need::Kind::kTool && gradings_.Hold(asked.score, it->second, need, now);
  if (!held) AskNow(asked, now);
}

void RewardLoop::AskNow(const NeedOf& asked, Time now) {
  const Status sent = asking_.Ask(scores_.at(asked.score), asked, now);
  if (sent.ok()) return;
  v1::Verdict verdict;
  verdict.set_cause(sent.message());
  Send(asked.score, std::move(verdict));
}

void RewardLoop::SendOrdered(Time now) {
  while (const auto next = gradings_.Next(scores_, now)) AskNow(*next, now);
  gradings_.AskEstimates(scores_, now);
}

void RewardLoop::OnAnswer(Asking::Answer answer, Time now) {
  const NeedOf& asked = answer.asked;
  const auto it = scores_.find(asked.score);
  OpenScore* score = it == scores_.end() ? nullptr : &it->second;
  auto* judged = std::get_if<v1::JudgeAnswer>(&answer.content);
  if (asked.need == HeldGradings::kEstimate)
    return gradings_.OnEstimate(asked.score, score, answer.status.ok() ? judged : nullptr);
  if (score == nullptr) return;
  const Need& need = score->open.at(asked.need).need;
  if (answer.status.ok() && judged != nullptr)
    answer.status = CheckJudgeAnswer(asking_.JudgeOf(need), score->request, *judged);
  if (!answer.status.ok()) return OnFailure(*score, asked, answer.status.message(), now);
  if (judged != nullptr) {
    score->evidence.judged[need.name] = std::move(*judged);
  } else if (auto* result = std::get_if<v1::ToolResult>(&answer.content)) {
    if (asked.need == "grade") {
      ++counters_.graded;
      counters_.graded_micros += static_cast<uint64_t>(std::max(0.0, result->cpu_ms()) * 1e3);
      gradings_.OnExecuted(*score, *result);
    }
    score->evidence.tools[asked.need] = std::move(*result);
  } else {
    score->evidence.answers[asked.need] = std::move(std::get<CommandAnswer>(answer.content));
  }
  score->open.erase(asked.need);
  Advance(asked.score, now);
}

// Something of ours failed: again, later, and in the end no reward rather than a wrong one.
void RewardLoop::OnFailure(OpenScore& score, const NeedOf& asked, const std::string& cause,
                           Time now) {
  OpenNeed& open = score.open.at(asked.need);
  if (open.tries >= options_.retries) {
    v1::Verdict verdict;
    verdict.set_cause(asked.need + " unavailable: " + cause);
    return Send(asked.score, std::move(verdict));
  }
  ++counters_.retries;
  later_.Put(now + BackOff(options_.retry_delay, open.tries++), asked);
}

void RewardLoop::Send(uint64_t key, v1::Verdict verdict) {
  auto node = scores_.extract(key);
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
  scores_.clear();
  asking_.Clear();
  gradings_.Clear();
}

}  // namespace tidemill
