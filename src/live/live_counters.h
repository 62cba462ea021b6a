// The counters of sessions.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/counters.h"

namespace tidemill {

struct LiveCounters : CounterSet {
  Counter open{*this,
               {.key = "live_sessions_open",
                .metric = "tidemill_live_sessions_open",
                .help = "Sessions that are not closed",
                .kind = Counter::Kind::kLevel}};
  Counter sessions{
      *this,
      {.key = "live_sessions", .metric = "tidemill_live_sessions_total", .help = "Sessions begun"}};
  Counter closed{*this,
                 {.key = "live_sessions_closed",
                  .metric = "tidemill_live_sessions_closed_total",
                  .help = "Sessions closed"}};
  Counter questions{*this,
                    {.key = "live_questions",
                     .metric = "tidemill_live_questions_total",
                     .help = "Requests that are no retry"}};
  Counter retries{*this,
                  {.key = "live_retries",
                   .metric = "tidemill_live_retries_total",
                   .help = "Requests recognised as retries"}};
  Counter turns{
      *this, {.key = "live_turns", .metric = "tidemill_live_turns_total", .help = "Turns stored"}};
  Counter branches{*this,
                   {.key = "live_branches",
                    .metric = "tidemill_live_branches_total",
                    .help = "Turns of closed sessions that extend no earlier turn"}};
  Counter rewritten{*this,
                    {.key = "live_rewritten_answers",
                     .metric = "tidemill_live_rewritten_answers_total",
                     .help = "Answers that came back altered"}};
  Counter sampled{*this,
                  {.key = "live_tokens",
                   .metric = "tidemill_live_tokens_total",
                   .help = "Sampled tokens of closed sessions"}};
  Counter trained{*this,
                  {.key = "live_tokens_trained",
                   .metric = "tidemill_live_trainable_tokens_total",
                   .help = "Of these, tokens that reach training"}};
  Counter signals{*this,
                  {.key = "live_signals",
                   .metric = "tidemill_live_signals_total",
                   .help = "Signals on sessions stored"}};
  Counter revised{*this,
                  {.key = "live_signals_revised",
                   .metric = "tidemill_live_signals_revised_total",
                   .help = "Signals that replaced an earlier one of the same source"}};
  Counter asked{*this,
                {.key = "live_judge_questions",
                 .metric = "tidemill_live_judge_questions_total",
                 .help = "Turns that judges were asked about because of what came next"}};
  Counter unanswered{
      *this,
      {.key = "live_judge_lost",
       .metric = "tidemill_live_judge_lost_total",
       .help = "Of these, turns without an answer: the judge was away for too long"}};
  Counter judging{*this,
                  {.key = "live_judging",
                   .metric = "tidemill_live_judging",
                   .help = "Turns of sessions that wait for a judge",
                   .kind = Counter::Kind::kLevel}};
  Counter unsignalled{*this,
                      {.key = "live_unsignalled",
                       .metric = "tidemill_live_trajectories_waiting",
                       .help = "Trajectories of closed sessions that wait for a signal",
                       .kind = Counter::Kind::kLevel}};
  Counter uncompared{*this,
                     {.key = "live_uncompared",
                      .metric = "tidemill_live_sessions_uncompared",
                      .help = "Sessions with a signal that wait for others to be compared with",
                      .kind = Counter::Kind::kLevel}};
  Counter awaiting{*this,
                   {.key = "live_awaiting_siblings",
                    .metric = "tidemill_live_sessions_awaiting_siblings",
                    .help = "Sessions with a signal that wait for attempts at their task",
                    .kind = Counter::Kind::kLevel}};
  Counter quarantined{*this,
                      {.key = "live_quarantined",
                       .metric = "tidemill_live_sessions_quarantined",
                       .help = "Sessions kept from training for their rewards",
                       .kind = Counter::Kind::kLevel}};
  Counter quarantined_tenants{*this,
                              {.key = "live_quarantined_tenants",
                               .metric = "tidemill_live_tenants_quarantined",
                               .help = "Tenants whose rewards changed at once",
                               .kind = Counter::Kind::kLevel}};
  Counter unsent{*this,
                 {.key = "live_unsent",
                  .metric = "tidemill_live_samples_unsent",
                  .help = "Scored trajectories that wait for room on the way to replay",
                  .kind = Counter::Kind::kLevel}};
  Counter with_cases{*this,
                     {.key = "live_sessions_with_cases",
                      .metric = "tidemill_live_sessions_with_cases_total",
                      .help = "Sessions that were shown cases of memory"}};
  // Sampled tokens of closed sessions by what became of them: "trained", or why they are not.
  void AddTokens(const std::map<std::string, uint64_t>& by_reason);

  Counter consent{*this, Untrained("consent")};
  Counter secret{*this, Untrained("secret")};
  Counter side{*this, Untrained("side")};
  Counter cut{*this, Untrained("cut")};
  Counter retried{*this, Untrained("retried")};
  Counter choice{*this, Untrained("choice")};
  Counter sampling{*this, Untrained("sampling")};
  Counter forced{*this, Untrained("forced")};

 private:
  static Counter::About Untrained(const char* reason) {
    return {.key = std::string("live_tokens_") + reason,
            .metric = "tidemill_live_untrained_tokens_total",
            .help = "Sampled tokens of closed sessions that are not trained, by reason",
            .labels = {{"reason", reason}}};
  }
};

}  // namespace tidemill
