// The judge loop: asks models for votes and turns them into judgements.
//
//   judge.requests --lease--> questions --> votes (cache, or JudgePort) --> count --> JudgeAnswer
//                                            `- failed: again later, jittered; endpoint paused
//
// A judge that is away, slow or talks nonsense gives no votes; a question without a majority of
// valid votes is answered with "unavailable" and the cause, never with a low score. Where votes
// split, a second judge may be asked; its votes decide then.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "bus/bus.h"
#include "bus/lease_keeper.h"
#include "bus/outbox.h"
#include "bus/questions.h"
#include "core/counters.h"
#include "core/loop.h"
#include "core/message_check.h"
#include "judge/endpoint_guard.h"
#include "judge/judge_config.h"
#include "judge/judge_port.h"
#include "judge/vote_cache.h"

namespace tidemill {

class Metrics;

struct JudgeOptions {
  std::vector<JudgeConfig> judges;
  uint32_t max_outstanding = 1024;  // requests being judged at once
  Duration retry_delay = milliseconds(500);
  Duration lease_period = std::chrono::seconds(10);
  Duration grace = std::chrono::seconds(10);  // beyond a call's time limit; then it is lost
  uint64_t seed = 1;                          // of jitter and votes
  Metrics* metrics = nullptr;                 // may be null; must outlive the loop
  MessageLimits limits;
  VoteCaches* votes = nullptr;                 // must outlive the loop; null: its own
  CodeTracer tracer;                           // of certificates; may be empty
  std::function<void(const JudgeDone&)> done;  // told of every answer of a model; may be empty
};

// Read from any thread.
struct JudgeCounters : CounterSet {
  Counter answers{
      *this, {.key = "judged", .metric = "tidemill_judged_total", .help = "Judge requests judged"}};
  Counter unavailable{*this,
                      {.key = "judge_unavailable",
                       .metric = "tidemill_judge_unavailable_total",
                       .help = "Judge requests reported as unavailable"}};
  Counter calls{*this,
                {.key = "judge_calls",
                 .metric = "tidemill_judge_calls_total",
                 .help = "Questions sent to judges' models"}};
  Counter cached{*this,
                 {.key = "judge_cached",
                  .metric = "tidemill_judge_cached_total",
                  .help = "Votes answered by the cache"}};
  Counter failed{*this,
                 {.key = "judge_failed",
                  .metric = "tidemill_judge_failed_total",
                  .help = "Questions without an answer: no connection, too slow, refused"}};
  Counter malformed{*this,
                    {.key = "judge_malformed",
                     .metric = "tidemill_judge_malformed_total",
                     .help = "Answers that did not parse: failed votes"}};
  Counter retries{*this,
                  {.key = "judge_retries",
                   .metric = "tidemill_retries_total",
                   .help = "Work retried after a system failure",
                   .labels = {{"what", "judge"}}}};
  Counter judgements{*this,
                     {.key = "judgements",
                      .metric = "tidemill_judgements_total",
                      .help = "Questions decided by votes"}};
  Counter split{*this,
                {.key = "judge_split",
                 .metric = "tidemill_judge_split_total",
                 .help = "Questions on which the votes split"}};
  Counter second{*this,
                 {.key = "judge_second",
                  .metric = "tidemill_judge_second_total",
                  .help = "Questions a second judge was asked"}};
  Counter breaks{*this,
                 {.key = "judge_breaks",
                  .metric = "tidemill_judge_breaks_total",
                  .help = "Times an endpoint was left alone because it failed"}};
  Counter tokens_in{*this,
                    {.key = "judge_tokens_in",
                     .metric = "tidemill_judge_tokens_in_total",
                     .help = "Tokens judges' models read"}};
  Counter tokens_out{*this,
                     {.key = "judge_tokens_out",
                      .metric = "tidemill_judge_tokens_out_total",
                      .help = "Tokens judges' models wrote"}};
  Counter cost{*this,
               {.key = "judge_cost_millionths",
                .metric = "tidemill_judge_cost_total",
                .help = "Cost of judges' models at the configured prices",
                .scale = 1e-6}};
  Counter busy{*this,
               {.key = "judge_micros",
                .metric = "tidemill_judge_seconds_total",
                .help = "Time that judges' models took, added up",
                .scale = 1e-6}};
  Counter in_progress{*this,
                      {.key = "judging",
                       .metric = "tidemill_judging",
                       .help = "Judge requests in progress",
                       .kind = Counter::Kind::kLevel}};
  Counter waiting{*this,
                  {.key = "judge_waiting",
                   .metric = "tidemill_judge_waiting",
                   .help = "Questions that wait for a judge's model",
                   .kind = Counter::Kind::kLevel}};
};

class JudgeLoop final : public Loop {
 public:
  // Bus, clock and port are borrowed. The judges must be valid (CheckJudges).
  JudgeLoop(Bus& bus, const Clock& clock, JudgeOptions options, JudgePort& port);

  std::string_view name() const override { return "judge"; }
  void Attach(Waker& waker) override;
  Time Step(Time now) override;
  void Drain() override;
  bool Drained() const override { return outbox_.waiting() == 0; }

  const JudgeCounters& counters() const { return counters_; }

 private:
  // A question and its votes so far.
  struct Item {
    JudgeQuestion question;
    JudgePrompt prompt;
    size_t judge = 0;
    std::vector<v1::JudgeVote> votes;
    std::vector<v1::JudgeVote> first_votes;  // those that split, when a second judge is asked
    bool done = false;
    v1::Judgement judgement;
  };
  struct Asking {
    v1::JudgeRequest request;
    std::vector<Item> items;
    size_t open = 0;  // items without their judgement
  };
  // One vote that is wanted.
  struct Call {
    uint64_t asking;
    size_t item;
    uint32_t vote;
    size_t judge;
    uint32_t tries = 0;
  };
  struct Running {
    Call call;
    std::string key;  // of the cache
  };
  struct Endpoint {
    JudgeConfig keys;
    v1::JudgeTask task;
    EndpointGuard guard;
    VoteCache* cache;
    std::deque<Call> waiting;
    // By the cache's key: calls that wait for the answer to the same text, which is running.
    std::unordered_map<std::string, std::vector<Call>> same;
    uint32_t running = 0;
  };

  void TakeRequests(Time now);
  void TakeDone(Time now);
  void GiveUpLate(Time now);
  void StartCalls(Time now);
  std::optional<Call> TakeRunning(uint64_t tag);
  void Begin(uint64_t key, Time now);
  void AskVotes(uint64_t key, size_t item, size_t judge);
  void OnDone(const Call& call, JudgeDone done, Time now);
  void TryAgain(Call call, v1::JudgeVote failed, Time now);
  void AddVote(const Call& call, v1::JudgeVote vote);
  void CountItem(uint64_t key, size_t item);
  void FinishItem(uint64_t key, size_t item, v1::Judgement judgement);
  void Answer(uint64_t key);
  void Refuse(uint64_t key, const std::string& cause);
  void Send(uint64_t key, v1::JudgeAnswer answer);
  std::string CacheKey(const Item& item, const Call& call) const;
  Item* FindItem(const Call& call);
  Time NextWake(Time now) const;

  Bus& bus_;
  const Clock& clock_;
  JudgeOptions options_;
  JudgePort& port_;
  Outbox outbox_;
  LeaseKeeper leases_;
  VoteCaches own_votes_;
  std::vector<Endpoint> endpoints_;
  std::unordered_map<uint64_t, Asking> askings_;
  std::unordered_map<uint64_t, Running> running_;  // by the port's tag
  LaterQueue<Call> later_;
  LaterQueue<uint64_t> deadlines_;  // of askings
  LaterQueue<uint64_t> lost_;       // tags whose answer does not come any more
  uint64_t next_key_ = 1, next_tag_ = 1;
  bool draining_ = false;
  JudgeCounters counters_;
};

}  // namespace tidemill
