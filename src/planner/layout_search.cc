#include "planner/layout_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace tidemill {
namespace {

constexpr uint64_t kEpisodes = 30'000;  // of a plan
constexpr double kBetter = 1.005;       // less is noise
constexpr int kRounds = 6;

class Search {
 public:
  Search(const RunConfig& config, const PlanFleet& fleet, const LayoutSearch& search)
      : config_(config), fleet_(fleet), search_(search) {}

  Status Begin() {
    TM_ASSIGN_OR_RETURN(times_, search_.times(fleet_));
    return Ok();
  }

  // The best that steps from `from` reach, one key at a time.
  Result<FoundLayout> From(LayoutChoice from) {
    std::optional<FoundLayout> best = Try(from);
    for (int round = 0; round < kRounds; ++round) {
      const LayoutChoice before = best ? best->choice : from;
      for (const LayoutChoice& next : Near(before)) {
        std::optional<FoundLayout> found = Try(next);
        if (found && (!best || Rate(*found) > Rate(*best) * kBetter)) best = std::move(found);
      }
      if (best && best->choice.Text() == before.Text()) break;
      if (!best) from.max_steps /= 2;  // too old: less ahead
    }
    if (!best) {
      return Unavailable(fmt::format("no layout keeps the mean lag below {:.1f} steps{}",
                                     search_.lag_max, last_.empty() ? "" : ": " + last_));
    }
    return *best;
  }
  size_t plans() const { return tried_.size(); }

 private:
  static double Rate(const FoundLayout& found) { return found.report.trained_episodes_per_s; }

  std::vector<LayoutChoice> Near(const LayoutChoice& at) const {
    constexpr uint32_t kInFlightMax = 65536, kStepsMax = 64;
    std::vector<LayoutChoice> near;
    const auto add = [&](LayoutChoice next) { near.push_back(next); };
    LayoutChoice next = at;
    if (fleet_.gpus > 1) {
      for (const uint32_t ranks :
           {at.ranks + 1, at.ranks - std::min(at.ranks, 1u), 2 * at.ranks, at.ranks / 2}) {
        if (ranks < 1 || ranks >= fleet_.gpus || ranks == at.ranks) continue;
        next = at, next.ranks = ranks, add(next);
      }
    }
    const uint32_t least = config_.rollout.group_size;
    for (const uint32_t flight : {2 * at.max_in_flight, at.max_in_flight / 2}) {
      if (flight < least || flight > kInFlightMax) continue;
      next = at, next.max_in_flight = flight, add(next);
      // Both gates open together.
      if (flight < at.max_in_flight || at.max_steps >= kStepsMax) continue;
      next.max_steps = std::max(1u, 2 * at.max_steps), add(next);
    }
    if (at.max_steps < kStepsMax) next = at, ++next.max_steps, add(next);
    if (at.max_steps > 1) next = at, --next.max_steps, add(next);
    return near;
  }

  std::optional<FoundLayout> Try(const LayoutChoice& choice) {
    const auto known = tried_.find(choice.Text());
    if (known != tried_.end()) return known->second;
    std::optional<FoundLayout>& found = tried_[choice.Text()];
    const RunConfig config = With(config_, choice);
    const auto report = RunPlan(config, LayoutOn(fleet_, config, choice.ranks), times_,
                                {.episodes_max = kEpisodes});
    if (!report.ok()) {
      last_ = report.status().message();
      return found;
    }
    if (search_.tried) search_.tried({choice, *report});
    if (report->lag_mean <= search_.lag_max) found = FoundLayout{choice, *report};
    return found;
  }

  const RunConfig& config_;
  const PlanFleet fleet_;
  const LayoutSearch& search_;
  ServiceTimes times_;
  std::map<std::string, std::optional<FoundLayout>> tried_;
  std::string last_;  // why a plan failed
};

}  // namespace

std::string LayoutChoice::Text() const {
  return fmt::format("learner.ranks = {}, rollout.max_in_flight = {}, staleness.max_steps = {}",
                     ranks, max_in_flight, max_steps);
}

RunConfig With(const RunConfig& config, const LayoutChoice& choice) {
  RunConfig with = config;
  with.learner.ranks = choice.ranks;
  with.rollout.max_in_flight = choice.max_in_flight;
  with.staleness.max_steps = choice.max_steps;
  with.staleness.hard_max_steps = std::max(with.staleness.hard_max_steps, 4 * choice.max_steps + 4);
  return with;
}

Result<BestLayout> FindLayout(const RunConfig& config, const PlanFleet& fleet,
                              const LayoutSearch& search) {
  const LayoutChoice begin{.ranks = std::max(1u, fleet.gpus / 4),
                           .max_in_flight = config.rollout.max_in_flight,
                           .max_steps = std::max(1u, config.staleness.max_steps)};
  BestLayout found;
  Search here(config, fleet, search);
  TM_RETURN_IF_ERROR(here.Begin());
  TM_ASSIGN_OR_RETURN(found.best, here.From(begin));
  found.plans = here.plans();
  PlanFleet more = fleet;
  more.cores += 10;
  Search cores(config, more, search);
  TM_RETURN_IF_ERROR(cores.Begin());
  TM_ASSIGN_OR_RETURN(found.ten_more_cores, cores.From(found.best.choice));
  found.plans += cores.plans();
  if (fleet.gpus > 0) {
    more = fleet;
    ++more.gpus;
    Search gpu(config, more, search);
    TM_RETURN_IF_ERROR(gpu.Begin());
    TM_ASSIGN_OR_RETURN(found.one_more_gpu, gpu.From(found.best.choice));
    found.plans += gpu.plans();
  }
  return found;
}

}  // namespace tidemill
