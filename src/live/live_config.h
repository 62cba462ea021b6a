// The keys of [live]: learning from the sessions that the gateway serves, and the release of
// versions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/section.h"

namespace tidemill {

struct LiveConfig {
  TM_SECTION("live");
  TM_KEY(bool, on, false,
         {.doc = "Learn from the sessions of the gateway's clients while it serves them; see "
                 "live.md. tasks.train may then be empty; gateway.port 0 means 8000"});
  TM_KEY(milliseconds, idle, milliseconds(30 * 60 * 1000),
         {.doc = "A session without requests for this long is closed", .min = 100, .max = 8.64e7});
  TM_KEY(uint32_t, batch, 16, {.doc = "Trajectories of sessions per step", .min = 1, .max = 65536});
  TM_KEY(double, task_share, 0.5,
         {.doc = "Share of a step's episodes that are of tasks, in whole groups, when there are "
                 "tasks; replaces rollout.groups_per_step",
          .min = 0,
          .max = 0.95});
  TM_KEY(uint32_t, window, 64,
         {.doc = "Number of sessions of a tenant and class that a baseline is taken over",
          .min = 2,
          .max = 100000});
  TM_KEY(uint32_t, compare_min, 4,
         {.doc = "A session waits until this many others of its tenant and class have a signal",
          .min = 1,
          .max = 100000});
  TM_KEY(uint32_t, siblings, 0,
         {.doc = "Compare a session that is bound to a task with a group of attempts at it instead "
                 "of with other sessions; rollout.group_size + 1, the session counted; 0: off",
          .max = 65536});
  TM_KEY(double, kl_coefficient, 0,
         {.doc = "Weight of the KL divergence to the weights the run started from; 0: as "
                 "learner.options says",
          .min = 0,
          .max = 100});
  TM_KEY(double, kl_max, 0,
         {.doc = "Bound on that KL divergence in nats per token: above it the weight doubles with "
                 "every step, below half of it the weight falls back; 0: no bound",
          .min = 0,
          .max = 1000});
  TM_KEY(
      double, tenant_share, 0.5,
      {.doc = "Maximum share of a step's sessions that are of one tenant of gateway.keys; a step "
              "waits for others",
       .min = 0.01,
       .max = 1});
  TM_KEY(double, outlier, 6,
         {.doc = "Quarantine a session whose reward is further than this many deviations from the "
                 "others of its tenant and class; 0: off",
          .min = 0});
  TM_KEY(double, sudden_change, 1,
         {.doc = "Quarantine a tenant whose last 24 rewards differ by more than this in the mean "
                 "from the 72 before; 0: off",
          .min = 0,
          .max = 2});
  TM_KEY(std::vector<std::string>, redact, {},
         {.doc = "Patterns (PCRE2) of texts that are never stored, besides the built-in ones for "
                 "keys, tokens and private keys; see live-privacy.md"});
  TM_KEY(bool, release, false,
         {.doc = "Serve clients a released version: new weights pass a held-out evaluation and a "
                 "canary first; see live-release.md"});
  TM_KEY(double, gate_margin, 0.05,
         {.doc = "How much a candidate's pass rate may be below that of the released version",
          .min = 0,
          .max = 1});
  TM_KEY(uint32_t, gate_failures, 3,
         {.doc = "After this many failed gates in a row the learner goes on from the released "
                 "weights",
          .min = 1,
          .max = 1e6});
  TM_KEY(double, canary_share, 0.1,
         {.doc = "Share of new sessions that try a candidate; 0: release without a canary",
          .min = 0,
          .max = 1});
  TM_KEY(milliseconds, canary_time, milliseconds(600000), {.doc = "Minimum length of a canary"});
  TM_KEY(uint32_t, canary_answers, 20,
         {.doc = "Minimum number of answers from a candidate before its release", .max = 1e9});
  TM_KEY(double, alarm_entropy, 0,
         {.doc = "Alarm if the entropy of a step is below this; 0: off", .min = 0});
  TM_KEY(double, alarm_kl, 0,
         {.doc = "Alarm if the KL divergence of a step is above this; 0: off", .min = 0});
  TM_KEY(double, alarm_malformed, 1,
         {.doc = "Alarm if more than this share of the newest answers, or of a candidate's, have a "
                 "malformed tool call; 1: off",
          .min = 0,
          .max = 1});
  TM_KEY(double, alarm_questions, 1,
         {.doc = "Alarm if more than this share of the newest answers, or of a candidate's, end "
                 "with a question; 1: off",
          .min = 0,
          .max = 1});
};

}  // namespace tidemill
