// The keys of [staleness] and [replay]: which trajectories are trained on, and how often.
#pragma once

#include <cstdint>
#include <string>

#include "config/section.h"

namespace tidemill {

struct StalenessConfig {
  TM_SECTION("staleness");
  TM_KEY(uint32_t, max_steps, 1,
         {.doc = "How many steps ahead of the learner episodes may be issued (η); 0: synchronous",
          .max = 1000});
  TM_KEY(uint32_t, hard_max_steps, 4,
         {.doc = "Maximum token age in steps; older tokens never enter a loss", .max = 100000});
  TM_KEY(double, max_minutes, 0, {.doc = "Maximum token age in minutes; 0: no limit", .min = 0});
  TM_KEY(std::string, too_old, "drop",
         {.doc = "What to do with tokens that are too old: drop the trajectory or mask the tokens",
          .choices = {"drop", "mask"}});

  // Single tokens are left out; false: the whole trajectory is.
  bool masks() const { return too_old == "mask"; }
};

struct ReplayConfig {
  TM_SECTION("replay");
  TM_KEY(std::string, selection, "fifo",
         {.doc = "Groups for a batch: fifo: the oldest; uniform: at random; prioritized: by reward "
                 "deviation",
          .choices = {"fifo", "uniform", "prioritized"}});
  TM_KEY(double, priority_exponent, 1,
         {.doc = "prioritized: a group's weight is its reward deviation to this power",
          .min = 0,
          .max = 10});
  TM_KEY(uint32_t, max_uses, 1,
         {.doc = "Maximum number of steps that may use a trajectory", .min = 1, .max = 1000});
  TM_KEY(uint32_t, samples_per_insert, 0,
         {.doc = "Maximum average number of uses per group; bounds both the learner and the gate; "
                 "0: max_uses",
          .max = 1000});
  TM_KEY(
      uint32_t, capacity, 4096,
      {.doc = "Maximum number of groups in the buffer; the most used are evicted first, then the "
              "oldest",
       .min = 1,
       .max = 1 << 20});
  TM_KEY(uint32_t, min_groups, 0,
         {.doc = "Minimum number of groups in the buffer before a step", .max = 1 << 20});
  TM_KEY(
      uint32_t, rescore_groups, 64,
      {.doc = "Groups to score again when a scorer's version rises; highest reward deviation first",
       .max = 1 << 20});
  TM_KEY(bool, drop_zero_variance, true,
         {.doc = "Drop groups whose rewards are all equal; they have no gradient"});
};

}  // namespace tidemill
