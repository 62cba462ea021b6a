// The reward loop scores finished episodes.
//
//   reward.score --lease--> tools.grade, tools.lint --> inbox --> scorers --> Verdict --> reply_to,
//   then ack
//
// A failure of ours (a sandbox that could not start, a lost answer) is tried again and, in the end,
// a verdict without a score; it never becomes a reward of zero.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <unordered_map>
#include <vector>

#include "bus/bus.h"
#include "bus/lease_keeper.h"
#include "bus/outbox.h"
#include "core/loop.h"
#include "reward/scorer.h"

namespace tidemill {

class Metrics;

struct WeightedScorer {
  std::unique_ptr<Scorer> scorer;
  double weight = 1;
};

struct RewardOptions {
  std::string worker = "local";
  uint32_t max_outstanding = 1024;  // episodes being scored at once
  uint32_t retries = 3;
  Duration retry_delay = milliseconds(200);
  Duration call_patience = std::chrono::minutes(5);
  Duration lease_period = std::chrono::seconds(10);
  double turn_weight = 0;    // of turn rewards: the gain in the share of visible tests passed
  double turn_discount = 1;  // of the reward, for every turn after the first
  Metrics* metrics = nullptr;  // may be null; must outlive the loop
};

// Read from any thread.
struct RewardCounters {
  std::atomic<uint64_t> scored{0};
  std::atomic<uint64_t> unscorable{0};
  std::atomic<uint64_t> retries{0};
  std::atomic<uint64_t> in_progress{0};
};

class RewardLoop final : public Loop {
 public:
  RewardLoop(Bus& bus, const Clock& clock, std::vector<WeightedScorer> scorers,
             RewardOptions options);

  std::string_view name() const override { return "reward"; }
  void Attach(Waker& waker) override;
  Time Step(Time now) override;
  void Drain() override;
  bool Drained() const override { return outbox_.waiting() == 0; }

  const RewardCounters& counters() const { return counters_; }

 private:
  enum Run { kGrade, kLint, kRuns };
  struct Scoring {
    v1::ScoreRequest request;
    Time began{};
    std::optional<v1::ToolResult> results[kRuns];
    bool wanted[kRuns] = {};
    uint32_t tries[kRuns] = {};
  };
  struct OpenCall {
    uint64_t scoring;
    Run run;
    Time lost_at;
  };
  struct Later {
    Time at;
    uint64_t scoring;
    Run run;
    bool operator<(const Later& other) const { return at > other.at; }
  };

  void TakeRequests(Time now);
  void TakeResults(Time now);
  void SendDue(Time now);
  void GiveUpLost(Time now);
  void Ask(uint64_t key, Run run, Time now);
  void OnResult(uint64_t key, Run run, v1::ToolResult result, Time now);
  void FinishIfDone(uint64_t key);
  v1::Verdict Judge(const Scoring& scoring) const;
  void Send(uint64_t key, v1::Verdict verdict);

  Bus& bus_;
  const Clock& clock_;
  std::vector<WeightedScorer> scorers_;
  RewardOptions options_;
  std::string inbox_;
  Outbox outbox_;
  LeaseKeeper leases_;
  std::unordered_map<uint64_t, Scoring> scorings_;
  std::unordered_map<std::string, OpenCall> calls_;  // by request id
  std::priority_queue<Later> later_;
  uint64_t next_key_ = 1;
  Time next_lost_check_ = Time::min();
  bool needs_[kRuns] = {};
  bool draining_ = false;
  RewardCounters counters_;
};

}  // namespace tidemill
