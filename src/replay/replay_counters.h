// The counters of replay.
#pragma once

#include "core/counters.h"
#include "core/failure_counters.h"

namespace tidemill {

// Read from any thread.
struct ReplayCounters : CounterSet {
  Counter received{*this,
                   {.key = "episodes_received",
                    .metric = "tidemill_trajectories_received_total",
                    .help = "Trajectories received"}};
  Counter duplicates{*this,
                     {.key = "duplicates",
                      .metric = "tidemill_trajectories_duplicate_total",
                      .help = "Duplicate trajectories refused"}};
  Counter refused{*this,
                  {.key = "refused",
                   .metric = "tidemill_replay_refused_total",
                   .help = "Trajectories and verdicts refused: dead letters"}};
  Counter stored{*this,
                 {.key = "episodes_stored",
                  .metric = "tidemill_trajectories_stored_total",
                  .help = "Trajectories stored"}};
  Counter scored{*this,
                 {.key = "scored",
                  .metric = "tidemill_episodes_scored_total",
                  .help = "Episodes with a verdict"}};
  Counter unscored{*this,
                   {.key = "unscored",
                    .metric = "tidemill_episodes_unscored_total",
                    .help = "Episodes whose scorers failed after their retries"}};
  Counter solved{
      *this,
      {.key = "solved", .metric = "tidemill_episodes_solved_total", .help = "Episodes solved"}};
  Counter stale{*this,
                {.key = "stale",
                 .metric = "tidemill_stale_total",
                 .help = "Episodes that failed because of the system; kept, never trained on"}};
  FailureCounters stale_by_kind{
      *this,
      {.key = "stale_",
       .metric = "tidemill_stale_by_kind_total",
       .help = "Episodes that failed because of the system, by what failed"}};
  Counter too_old{*this,
                  {.key = "too_old",
                   .metric = "tidemill_too_old_total",
                   .help = "Episodes over the staleness bound when a batch was made"}};
  Counter masked_tokens{*this,
                        {.key = "masked_tokens",
                         .metric = "tidemill_masked_tokens_total",
                         .help = "Tokens masked because they were too old"}};
  Counter zero_variance{*this,
                        {.key = "zero_variance",
                         .metric = "tidemill_episodes_zero_variance_total",
                         .help = "Episodes in groups whose rewards are all equal"}};
  Counter untrainable{*this,
                      {.key = "untrainable",
                       .metric = "tidemill_episodes_untrainable_total",
                       .help = "Episodes in groups without a token to train"}};
  Counter evicted{*this,
                  {.key = "evicted",
                   .metric = "tidemill_episodes_evicted_total",
                   .help = "Episodes of groups evicted from a full buffer"}};
  Counter used{
      *this,
      {.key = "used", .metric = "tidemill_episodes_used_total", .help = "Episodes used in a step"}};
  Counter rescored{*this,
                   {.key = "rescored",
                    .metric = "tidemill_rescored_total",
                    .help = "Verdicts replaced after a scorer's version rose"}};
  Counter rescore_failed{*this,
                         {.key = "rescore_failed",
                          .metric = "tidemill_rescore_failed_total",
                          .help = "Rescorings that failed; the old verdict stands"}};
  Counter ready_episodes{*this,
                         {.key = "ready_episodes",
                          .metric = "tidemill_replay_ready_episodes",
                          .help = "Episodes ready for a batch",
                          .kind = Counter::Kind::kLevel}};
  Counter waiting_verdicts{*this,
                           {.key = "waiting_verdicts",
                            .metric = "tidemill_replay_waiting_verdicts",
                            .help = "Episodes without a verdict yet",
                            .kind = Counter::Kind::kLevel}};
  Counter waiting_teacher{*this,
                          {.key = "waiting_teacher",
                           .metric = "tidemill_replay_waiting_teacher",
                           .help = "Episodes without the scores of the teacher yet",
                           .kind = Counter::Kind::kLevel}};
  Counter live_received{*this,
                        {.key = "live_received",
                         .metric = "tidemill_live_trajectories_total",
                         .help = "Trajectories of sessions with a signal, received for training"}};
  Counter live_used{*this,
                    {.key = "live_used",
                     .metric = "tidemill_live_trajectories_used_total",
                     .help = "Trajectories of sessions used in a step"}};
  Counter live_too_old{*this,
                       {.key = "live_too_old",
                        .metric = "tidemill_live_trajectories_too_old_total",
                        .help = "Trajectories of sessions dropped over the staleness bound"}};
  Counter live_ready{*this,
                     {.key = "live_ready",
                      .metric = "tidemill_live_trajectories_ready",
                      .help = "Trajectories of sessions that wait for a step",
                      .kind = Counter::Kind::kLevel}};
  Counter live_held_back{*this,
                         {.key = "live_held_back",
                          .metric = "tidemill_live_trajectories_held_back",
                          .help = "Of these, those over their tenant's share while a step waits",
                          .kind = Counter::Kind::kLevel}};
};

}  // namespace tidemill
