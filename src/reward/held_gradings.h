// Gradings of training that wait for a free box in the order of reward/grading_order.h, and what a
// verifier is asked about them. Nothing ever waits for the verifier: a grading goes as soon as
// there is room and it is the best of those that wait, with or without an estimate.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "reward/asking.h"
#include "reward/grading_order.h"

namespace tidemill {

// Belongs to one loop; not thread-safe. What it is given must outlive it.
class HeldGradings {
 public:
  // In the place of a scorer's need: the question to the verifier.
  static constexpr char kEstimate[] = "order";

  HeldGradings(const RewardOptions& options, Asking& asking, RewardCounters& counters)
      : options_(options),
        asking_(asking),
        counters_(counters),
        order_({.wait_max = options.order_wait}) {}

  // False: it is not a grading that waits for its turn.
  bool Hold(uint64_t key, const OpenScore& score, const OpenNeed& need, Time now);
  // The grading to send now; nothing: there is none, or no room.
  std::optional<NeedOf> Next(const OpenScores& scores, Time now);
  void AskEstimates(const OpenScores& scores, Time now);
  // Null: the verifier gave no answer, or the episode is another worker's now.
  void OnEstimate(uint64_t key, const OpenScore* score, const v1::JudgeAnswer* answer);
  void OnExecuted(const OpenScore& score, const v1::ToolResult& grade);
  void Clear();

 private:
  const RewardOptions& options_;
  Asking& asking_;
  RewardCounters& counters_;
  GradingOrder order_;
  std::deque<uint64_t> unestimated_;  // episodes whose grading waits and that no verifier has seen
  size_t estimates_open_ = 0;         // questions to the verifier
};

}  // namespace tidemill
