// The keys of [reward] and [audit]: how answers are scored, and how scorers are checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/section.h"
#include "judge/judge_config.h"

namespace tidemill {

// How scorers that do not execute are checked.
struct AuditConfig {
  TM_SECTION("audit");
  TM_KEY(double, share, 0,
         {.doc = "Share of the episodes scored without execution (scorers judge and proof) that "
                 "are also executed, where the task has tests",
          .min = 0,
          .max = 1});
  TM_KEY(double, false_accepts, 0.01,
         {.doc = "Share of wrong answers among those accepted that is tolerated",
          .min = 1e-6,
          .max = 0.5});
  TM_KEY(double, alarm_at, 0.1,
         {.doc = "Share of wrong answers among those accepted that must be found soon",
          .min = 1e-5,
          .max = 0.99});
  TM_KEY(double, false_alarms, 0.01,
         {.doc = "Probability of an alarm in 5,000 audited accepts with no more than the tolerated "
                 "share",
          .min = 1e-6,
          .max = 0.5});
  TM_KEY(
      bool, unbiased, false,
      {.doc = "Audited episodes get judge + (execution - judge) / share, which is unbiased; only "
              "with advantages that do not divide by a deviation"});
  TM_KEY(std::vector<std::string>, trust, {},
         {.doc = "Scorers that are trusted again after an alarm of this run"});
};

struct RewardConfig {
  TM_SECTION("reward");
  TM_KEY(KeyNumbers, weights, (KeyNumbers{{"tests", 1.0}}),
         {.doc = "Weights of the scorers: tests, compiled, lint, length, format, literal, review, "
                 "proof, judge, command, environment",
          .min = -1000,
          .max = 1000});
  TM_KEY(
      bool, all_or_nothing, false,
      {.doc = "The tests scorer gives 1 if all tests pass, else 0; false: the share that passed"});
  TM_KEY(double, lint_penalty, 0.1,
         {.doc = "Penalty of the lint scorer for each finding", .min = 0, .max = 1});
  TM_KEY(double, turn_weight, 0,
         {.doc = "Weight of a turn's gain in visible tests passed", .min = 0, .max = 100});
  TM_KEY(double, turn_discount, 1,
         {.doc = "Factor on the reward for every turn after the first", .min = 0, .max = 1});
  TM_KEY(double, time_weight, 0,
         {.doc = "Taken from the reward for every second in which the agent waited for a tool and "
                 "wrote nothing",
          .min = 0,
          .max = 1000});
  TM_KEY(uint32_t, retries, 3, {.doc = "Retries of a scorer after a system failure", .max = 20});
  TM_KEY(std::vector<std::string>, command, {},
         {.doc = "Program and arguments of the scorer \"command\": JSON in, JSON out"});
  TM_KEY(uint32_t, command_version, 1,
         {.doc = "Version of the command scorer, until an answer reports another",
          .min = 1,
          .max = 1e9});
  TM_KEY(milliseconds, command_timeout, milliseconds(30000),
         {.doc = "Time limit of the command scorer or the judge", .min = 10, .max = 3.6e6});
  TM_KEY(uint32_t, command_output_kb, 256,
         {.doc = "Maximum output of the command scorer per answer", .min = 1, .max = 65536});
  TM_KEY(uint32_t, command_slots, 2,
         {.doc = "Number of scorer commands that run at once", .min = 1, .max = 1024});
  TM_KEY(bool, command_stays, false,
         {.doc = "The command scorer, the judge or the prover (proof_command) is started once and "
                 "answers one JSON object per line, matched by \"id\"; command_slots questions are "
                 "open at once"});
  TM_KEY(KeyNumbers, review_weights,
         (KeyNumbers{
             {"correctness", 0.4}, {"style", 0.2}, {"performance", 0.2}, {"security", 0.2}}),
         {.doc = "Weights of the review's sub-scores", .min = 0, .max = 1000});
  TM_KEY(double, review_threshold, 0.5,
         {.doc = "Sub-scores below this get a second, closer review", .min = 0, .max = 1});
  TM_KEY(double, review_cpu_ms, 0,
         {.doc = "CPU time of the tests that earns full marks for performance; 0: that of the "
                 "fastest correct answer so far",
          .min = 0});
  TM_KEY(std::vector<std::string>, review_judge, {},
         {.doc = "Program that gives the review's sub-scores; empty: built-in tools"});
  TM_KEY(std::vector<std::string>, proof_command, {},
         {.doc = "Program that answers for the scorer proof, cbmc for example; empty: the prover"});
  TM_KEY(
      std::string, order_by, "",
      {.doc = "Name of a [[judge]] of outcomes whose estimates say which gradings of training go "
              "to a box first; empty: those that came first"});
  TM_KEY(
      uint32_t, order_ahead, 16,
      {.doc = "Gradings of a reward worker at the tools from which on others wait for their turn",
       .min = 1,
       .max = 1024});
  TM_KEY(milliseconds, order_wait, milliseconds(10000),
         {.doc = "A grading that has waited this long is sent whatever its turn",
          .min = 1,
          .max = 3.6e6});

  std::vector<JudgeConfig> judges = {};  // [[judge]]
  AuditConfig audit = {};                // [audit]
};

}  // namespace tidemill
