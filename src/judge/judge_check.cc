#include "judge/judge_check.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <thread>

#include "bus/memory/memory_bus.h"
#include "bus/standard_topics.h"
#include "core/loop_runner.h"
#include "core/mutex.h"
#include "core/topics.h"

namespace tidemill {
namespace {

constexpr double kZ = 1.959963984540054;  // of a 95 % interval
constexpr size_t kBins = 10;
constexpr size_t kOutstanding = 512;
// A person waits: an endpoint that never answered is given up soon, one that did so not before a
// restart would be over.
constexpr uint64_t kFailuresMax = 5;
constexpr Duration kFirstPatience = std::chrono::seconds(5);
constexpr Duration kPatience = std::chrono::seconds(60);

double Wilson(const CaseShare& share, double side) {
  if (share.count == 0) return side > 0 ? 1 : 0;
  const double n = static_cast<double>(share.count), p = share.value();
  const double middle = p + kZ * kZ / (2 * n);
  const double half = kZ * std::sqrt(p * (1 - p) / n + kZ * kZ / (4 * n * n));
  return std::clamp((middle + side * half) / (1 + kZ * kZ / n), 0.0, 1.0);
}

// The probability that a positive has a higher score than a negative; ties count half.
double AreaUnderCurve(std::vector<std::pair<double, bool>> scores) {
  std::sort(scores.begin(), scores.end());
  double ranks = 0, positives = 0;
  for (size_t i = 0; i < scores.size();) {
    size_t j = i;
    while (j < scores.size() && scores[j].first == scores[i].first) ++j;
    const double rank = (static_cast<double>(i + j) + 1) / 2;  // the mean of i+1 .. j
    for (; i < j; ++i) {
      if (!scores[i].second) continue;
      ranks += rank;
      ++positives;
    }
  }
  const double negatives = static_cast<double>(scores.size()) - positives;
  if (positives == 0 || negatives == 0) return 0;
  return (ranks - positives * (positives + 1) / 2) / (positives * negatives);
}

double AreaError(double auc, double positives, double negatives) {
  if (positives == 0 || negatives == 0) return 0;
  const double q1 = auc / (2 - auc), q2 = 2 * auc * auc / (1 + auc);
  return std::sqrt(std::max(0.0, (auc * (1 - auc) + (positives - 1) * (q1 - auc * auc) +
                                  (negatives - 1) * (q2 - auc * auc)) /
                                     (positives * negatives)));
}

std::string WordOf(v1::JudgeTask task, const v1::JudgeVote& vote) {
  const auto choices = ChoicesOf(task);
  for (const JudgeChoice& choice : choices) {
    if (vote.reason() == choice.word) return vote.reason();  // it answered with the word alone
  }
  const auto nearest = std::min_element(choices.begin(), choices.end(), [&](auto& a, auto& b) {
    return std::abs(a.value - vote.value()) < std::abs(b.value - vote.value());
  });
  return std::string(nearest->word);
}

// How sure, how often right.
struct Calibration {
  double confidence[kBins] = {};
  double right[kBins] = {};
  double count[kBins] = {};
  void Add(double sure, bool is_right) {
    const size_t bin = std::min(kBins - 1, static_cast<size_t>(sure * kBins));
    confidence[bin] += sure, right[bin] += is_right ? 1 : 0, ++count[bin];
  }
  double Error() const {
    double error = 0, all = 0;
    for (size_t i = 0; i < kBins; ++i) {
      error += std::abs(confidence[i] - right[i]);
      all += count[i];
    }
    return all == 0 ? 0 : error / all;
  }
};

// The state of the questions, set by the loop's thread and read by the check's.
class EndpointWatch {
 public:
  void Add(const JudgeDone& done, Time now) {
    const MutexLock lock(mutex_);
    seconds_.push_back(Seconds(done.took));
    if (done.status.ok()) {
      good_at_ = now;
      failures_ = 0;
      return;
    }
    ++failures_;
    last_ = done.status;
  }
  // kUnavailable: nothing but failures for too long.
  Status Check(Time began, Time now) const {
    const MutexLock lock(mutex_);
    const bool refused = !good_at_ && last_.code() == Code::kInvalid;
    const Duration patience = good_at_ ? kPatience : kFirstPatience;
    if (failures_ < kFailuresMax) return Ok();
    if (!refused && now < good_at_.value_or(began) + patience) return Ok();
    return Unavailable(std::to_string(failures_) +
                       " questions in a row failed: " + last_.message());
  }
  std::vector<double> TakeSeconds() {
    const MutexLock lock(mutex_);
    return std::move(seconds_);
  }

 private:
  mutable Mutex mutex_;
  std::vector<double> seconds_ TM_GUARDED_BY(mutex_);
  std::optional<Time> good_at_ TM_GUARDED_BY(mutex_);
  uint64_t failures_ TM_GUARDED_BY(mutex_) = 0;  // since then
  Status last_ TM_GUARDED_BY(mutex_);
};

Status AskAll(const std::string& judge, const std::vector<JudgeCase>& asked, Bus& bus,
              const Clock& clock, const EndpointWatch& watch,
              const std::function<void(size_t)>& progress, std::vector<v1::JudgeAnswer>& answers) {
  size_t sent = 0, done = 0;
  const Time began = clock.Now();
  while (done < asked.size()) {
    while (sent < asked.size() && sent - done < kOutstanding) {
      v1::JudgeRequest request = asked[sent].request;
      request.set_request_id(std::to_string(sent++));
      request.set_judge(judge);
      request.set_reply_to("check");
      TM_RETURN_IF_ERROR(bus.PublishRequest(kJudgeTopic, "check", request.SerializeAsString()));
    }
    TM_ASSIGN_OR_RETURN(const std::vector<Lease> leases, bus.Receive("check", kOutstanding));
    for (const Lease& lease : leases) {
      v1::JudgeAnswer answer;
      TM_CHECK(answer.ParseFromString(lease.body), "the loop's own message");
      answers[std::stoul(answer.request_id())] = std::move(answer);
      TM_RETURN_IF_ERROR(bus.Ack(lease));
      ++done;
    }
    TM_RETURN_IF_ERROR(watch.Check(began, clock.Now())
                           .WithContext(std::to_string(done) + " of " +
                                        std::to_string(asked.size()) + " cases done"));
    if (progress && !leases.empty()) progress(done);
    if (leases.empty()) std::this_thread::sleep_for(milliseconds(2));
  }
  return Ok();
}

}  // namespace

double CaseShare::low() const {
  return Wilson(*this, -1);
}
double CaseShare::high() const {
  return Wilson(*this, 1);
}

Chosen ChosenBy(v1::JudgeTask task, const v1::Judgement& judgement) {
  std::map<std::string, double> weights;
  double valid = 0;
  for (const v1::JudgeVote& vote : judgement.votes()) {
    if (!vote.valid()) continue;
    // A vote without a probability is taken at its word.
    weights[WordOf(task, vote)] += vote.probability() > 0 ? vote.probability() : 1;
    ++valid;
  }
  Chosen chosen;
  for (const auto& [word, weight] : weights) {
    if (weight > chosen.confidence) chosen = {word, weight};
  }
  if (valid > 0) chosen.confidence /= valid;
  return chosen;
}

JudgeCheck CompareAnswers(const std::vector<JudgeCase>& cases,
                          const std::vector<v1::JudgeAnswer>& answers) {
  JudgeCheck check;
  Calibration calibration;
  std::vector<std::pair<double, bool>> scores, keywords;
  double pairs = 0, same = 0, positives = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    const JudgeCase& one = cases[i];
    if (!answers[i].available() || answers[i].judgements_size() == 0) {
      ++check.unavailable;
      continue;
    }
    const v1::Judgement& judgement = answers[i].judgements(0);
    const Chosen chosen = ChosenBy(one.task, judgement);
    const bool right = chosen.word == one.label;
    for (CaseShare* share : {&check.all, &check.by_label[one.label], &check.by_kind[one.kind]}) {
      ++share->count;
      share->right += right ? 1 : 0;
    }
    calibration.Add(chosen.confidence, right);
    const bool positive = one.label == ChoicesOf(one.task)[0].word;
    positives += positive ? 1 : 0;
    scores.emplace_back(judgement.value(), positive);
    keywords.emplace_back(KeywordScore(one.request), positive);
    for (int a = 0; a < judgement.votes_size(); ++a) {
      for (int b = a + 1; b < judgement.votes_size(); ++b) {
        if (!judgement.votes(a).valid() || !judgement.votes(b).valid()) continue;
        ++pairs;
        same += WordOf(one.task, judgement.votes(a)) == WordOf(one.task, judgement.votes(b));
      }
    }
  }
  check.auc = AreaUnderCurve(scores);
  check.auc_error = AreaError(check.auc, positives, static_cast<double>(scores.size()) - positives);
  check.keyword_auc = AreaUnderCurve(std::move(keywords));
  check.calibration_error = calibration.Error();
  check.agreement = pairs == 0 ? 1 : same / pairs;
  return check;
}

Result<JudgeCheck> RunJudgeCheck(const JudgeConfig& judge, const std::vector<JudgeConfig>& judges,
                                 JudgePort& port, const std::vector<JudgeCase>& cases,
                                 const std::function<void(size_t)>& progress) {
  TM_ASSIGN_OR_RETURN(const v1::JudgeTask task, ParseJudgeTask(judge.task));
  std::vector<JudgeCase> asked;
  for (const JudgeCase& one : cases) {
    if (one.task == task) asked.push_back(one);
  }
  if (asked.empty())
    return Invalid("no case has the task " + judge.task + " of the judge \"" + judge.name + "\"");
  RealClock clock;
  MemoryBus bus(clock);
  TM_RETURN_IF_ERROR(OpenStandardTopics(bus, {}));
  TM_RETURN_IF_ERROR(bus.Open("check", {.capacity = kOutstanding * 2}));
  JudgeOptions options;
  options.judges = judges;
  options.max_outstanding = kOutstanding;
  EndpointWatch watch;
  options.done = [&](const JudgeDone& done) { watch.Add(done, clock.Now()); };
  JudgeLoop loop(bus, clock, options, port);
  LoopRunner runner;
  runner.Add(loop);
  TM_RETURN_IF_ERROR(runner.Start());
  std::vector<v1::JudgeAnswer> answers(asked.size());
  const Status status = AskAll(judge.name, asked, bus, clock, watch, progress, answers);
  TM_RETURN_IF_ERROR(runner.Stop());
  if (!status.ok()) return status.WithContext("judge \"" + judge.name + "\" at " + judge.endpoint);
  JudgeCheck check = CompareAnswers(asked, answers);
  std::vector<double> seconds = watch.TakeSeconds();
  std::sort(seconds.begin(), seconds.end());
  if (!seconds.empty()) {
    check.seconds_median = seconds[seconds.size() / 2];
    check.seconds_99 = seconds[seconds.size() * 99 / 100];
  }
  const JudgeCounters& counters = loop.counters();
  check.tokens_in = counters.tokens_in, check.tokens_out = counters.tokens_out;
  check.cost = static_cast<double>(counters.cost) * 1e-6;
  return check;
}

}  // namespace tidemill
