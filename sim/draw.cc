#include "sim/draw.h"

namespace tidemill::sim {

std::vector<v1::Task> MakeTasks(const std::string& prefix, int count) {
  std::vector<v1::Task> tasks(count);
  for (int i = 0; i < count; ++i) {
    tasks[i].set_id(prefix + std::to_string(i));
    tasks[i].set_prompt("p");
    tasks[i].set_answer_file("solution.c");
    v1::TestCase& test = *tasks[i].mutable_grading()->add_cases();
    test.set_input("1"), test.set_expected("1");
  }
  return tasks;
}

Draw::Draw(Random& random, const SimOptions& options) {
  const Bug bug = options.bug;
  eta = random.Between(0, 2);
  hard_max = static_cast<uint64_t>(eta + random.Between(0, 1));
  mask = random.Chance(0.5);
  prefetch = random.Chance(0.5);
  const char* kinds[] = {"fifo", "uniform", "prioritized"};
  replay.selection = kinds[random.Below(3)];
  replay.max_uses = random.Chance(0.5) ? 1 : 1 + static_cast<uint32_t>(random.Below(4));
  replay.samples_per_insert = static_cast<uint32_t>(random.Below(replay.max_uses + 1));
  const auto groups = static_cast<uint32_t>(eta + 1) * kBatchGroups;
  replay.capacity = groups + static_cast<uint32_t>(random.Below(random.Chance(0.5) ? 3 : 100));
  replay.min_groups = 1 + static_cast<uint32_t>(random.Below(groups));
  // What is used several times may be as old as it takes to use it.
  hard_max += 2 * (replay.max_uses - 1);
  command = random.Chance(0.6);
  if (random.Chance(0.5)) {
    scorer.away_from = Time(milliseconds(random.Below(10'000)));
    scorer.away_until = scorer.away_from + milliseconds(500 + random.Below(8'000));
  }
  if (random.Chance(0.7)) scorer.rises_at = Time(milliseconds(random.Below(15'000)));
  scorer.failure_is_zero = bug == Bug::kDeadScorerIsZero;
  slow_store = random.Chance(0.2) ? 0.4 : 0.05;
  topic_capacity = random.Chance(0.3) ? 6 : 24;
  bus.repeat = random.Chance(0.5) ? 0.05 : 0;
  bus.lose_lease = random.Chance(0.3) ? 0.02 : 0;
  bus.swallow_extend = bug == Bug::kLeaseNotExtended;
  bus.in_episodes = bug;
  bus.swallow_dropped = bug == Bug::kDroppedKeepsCredit;
  crashes = random.Chance(0.2) ? 0 : 1 + random.Uniform() * 6;
  const int liars[] = {kRollout2, kTools2, kReward};
  forger = options.forger || random.Chance(0.3) ? liars[random.Below(3)] : -1;
  forge_share = random.Chance(0.3) ? 0.3 : 0.05;
  judge = random.Chance(0.4);
  order = options.seed % 2 == 0;
  held_back = bug == Bug::kHeldBackForever;
  if (random.Chance(0.5)) {
    judging.away_from = Time(milliseconds(random.Below(10'000)));
    judging.away_until = judging.away_from + milliseconds(500 + random.Below(12'000));
  }
  judging.malformed = random.Chance(0.3) ? 0.3 : 0.02;
  judging.failure_is_zero = bug == Bug::kFailedVoteIsZero;
  eager = random.Chance(0.6);
  deliver_now = random.Chance(0.4);
  await_at_end = random.Chance(0.4);
  compares = random.Chance(0.3) && !judging.failure_is_zero && !held_back;
}

RewardConfig Draw::Rewards() const {
  RewardConfig reward;
  if (command) reward.weights["command"] = 1.0;
  if (judge) {
    reward.weights["judge"] = 1.0;
    reward.judges = {SimJudgeKeys(compares)};
    reward.audit.share = 0.3;
    if (order && !compares) {
      reward.order_by = reward.judges[0].name;
      reward.order_ahead = held_back ? 0 : 2;
      reward.order_wait = held_back ? std::chrono::hours(10) : std::chrono::seconds(3);
    }
  }
  return reward;
}

}  // namespace tidemill::sim
