// The counters of the reward loop.
#pragma once

#include <string>

#include "core/counters.h"

namespace tidemill {

// Read from any thread.
struct RewardCounters : CounterSet {
  Counter scored{*this,
                 {.key = "verdicts", .metric = "tidemill_scored_total", .help = "Verdicts given"}};
  Counter unscorable{*this,
                     {.key = "unscorable",
                      .metric = "tidemill_skipped_total",
                      .help = "Work abandoned after its retries",
                      .labels = {{"what", "score"}}}};
  Counter retries{*this,
                  {.key = "reward_retries",
                   .metric = "tidemill_retries_total",
                   .help = "Work retried after a system failure",
                   .labels = {{"what", "score"}}}};
  Counter second_looks{*this,
                       {.key = "second_looks",
                        .metric = "tidemill_second_looks_total",
                        .help = "Second reviews of low sub-scores"}};
  Counter repeated_literals{*this,
                            {.key = "repeated_literals",
                             .metric = "tidemill_repeated_literals_total",
                             .help = "Answers that hold the shown test's value"}};
  Counter proved{*this, Proofs("proved")};
  Counter refuted{*this, Proofs("refuted")};
  Counter undecided{*this, Proofs("unknown")};
  Counter proof_micros{*this,
                       {.key = "proof_micros",
                        .metric = "tidemill_proof_cpu_seconds_total",
                        .help = "CPU time of the built-in prover",
                        .scale = 1e-6}};
  Counter graded{*this,
                 {.key = "graded",
                  .metric = "tidemill_graded_total",
                  .help = "Answers run on their hidden tests for a reward"}};
  Counter graded_micros{*this,
                        {.key = "graded_micros",
                         .metric = "tidemill_graded_cpu_seconds_total",
                         .help = "CPU time of those answers in their boxes",
                         .scale = 1e-6}};
  Counter estimated{*this,
                    {.key = "gradings_estimated",
                     .metric = "tidemill_gradings_estimated_total",
                     .help = "Waiting gradings that a verifier said something about in time"}};
  Counter overdue{*this,
                  {.key = "gradings_overdue",
                   .metric = "tidemill_gradings_overdue_total",
                   .help = "Gradings sent because they had waited for reward.order_wait"}};
  Counter waiting{*this,
                  {.key = "gradings_waiting",
                   .metric = "tidemill_gradings_waiting",
                   .help = "Gradings held back, so that better ones go first",
                   .kind = Counter::Kind::kLevel}};
  Counter in_progress{*this,
                      {.key = "scoring_running",
                       .metric = "tidemill_scoring_running",
                       .help = "Episodes being scored",
                       .kind = Counter::Kind::kLevel}};

 private:
  static Counter::About Proofs(const std::string& verdict) {
    return {.key = "proofs_" + verdict,
            .metric = "tidemill_proofs_total",
            .help = "Answers the scorer proof looked at",
            .labels = {{"verdict", verdict}}};
  }
};

}  // namespace tidemill
