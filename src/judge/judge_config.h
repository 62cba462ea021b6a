// The keys of a [[judge]] table: a model that judges.
#pragma once

#include <cstdint>
#include <string>

#include "config/section.h"

namespace tidemill {

struct JudgeConfig {
  TM_SECTION("");
  TM_KEY(std::string, name, "",
         {.doc = "Name of the judge, in verdicts and figures", .required = true});
  TM_KEY(
      std::string, endpoint, "",
      {.doc = "Base address of an OpenAI-compatible API, https://HOST/v1 for example; or a model "
              "directory, which is served inside the process",
       .required = true});
  TM_KEY(std::string, model, "", {.doc = "Name of the model at the endpoint"});
  TM_KEY(std::string, key_file, "", {.doc = "File with the endpoint's API key"});
  TM_KEY(std::string, key_env, "", {.doc = "Environment variable with the endpoint's API key"});
  TM_KEY(std::string, ca_file, "",
         {.doc = "PEM file with the certificates that the endpoint's must be signed by; empty: the "
                 "system's"});
  TM_KEY(uint32_t, concurrency, 8,
         {.doc = "Maximum number of questions at the endpoint at once", .min = 1, .max = 256});
  TM_KEY(milliseconds, timeout, milliseconds(60000),
         {.doc = "Time limit of one answer", .min = 10, .max = 3.6e6});
  TM_KEY(uint32_t, retries, 3, {.doc = "Retries of a vote that failed", .max = 20});
  TM_KEY(milliseconds, patience, milliseconds(120000),
         {.doc = "A question without its votes for this long is reported as unavailable",
          .min = 100,
          .max = 8.64e7});
  TM_KEY(uint32_t, per_minute, 0,
         {.doc = "Maximum number of questions sent per minute; 0: no limit", .max = 1e6});
  TM_KEY(uint32_t, cache, 4096, {.doc = "Number of cached votes; 0: no cache", .max = 1 << 22});
  TM_KEY(double, price_in, 0, {.doc = "Price of a million tokens read", .min = 0, .max = 1e6});
  TM_KEY(double, price_out, 0, {.doc = "Price of a million tokens written", .min = 0, .max = 1e6});
  TM_KEY(std::string, task, "outcome",
         {.doc = "What it is asked: next_state and process of every turn; outcome of the answer; "
                 "pairwise between two answers; equivalence with a reference",
          .choices = {"next_state", "process", "outcome", "pairwise", "equivalence"}});
  TM_KEY(std::string, rubric, "", {.doc = "What to look for, in words; put into the question"});
  TM_KEY(KeyNumbers, criteria, {},
         {.doc = "Weights of the criteria of an outcome; empty: one score", .min = 0, .max = 1000});
  TM_KEY(std::string, answer, "json",
         {.doc = "json: one JSON object with a reason; token: one word, whose probability is used "
                 "where the endpoint tells",
          .choices = {"json", "token"}});
  TM_NAMED_KEY(
      "template", std::string, form, "full",
      {.doc = "full: instructions and fenced texts; compact: one line per field, for small "
              "models trained on it; bare: the task's prompt and the answer as the policy wrote "
              "them, for a verifier that was trained from the policy",
       .choices = {"full", "compact", "bare"}});
  TM_KEY(uint32_t, votes, 1, {.doc = "Votes on a question; odd", .min = 1, .max = 15});
  TM_KEY(std::string, aggregate, "majority",
         {.doc = "How votes become one value", .choices = {"majority", "mean"}});
  TM_KEY(double, temperature, 0.7, {.doc = "Sampling temperature", .min = 0, .max = 2});
  TM_KEY(uint32_t, max_tokens, 512, {.doc = "Maximum length of an answer", .min = 1, .max = 65536});
  TM_KEY(uint32_t, text_kb, 16,
         {.doc = "Maximum size of each text in a question; longer ones lose their middle",
          .min = 1,
          .max = 1024});
  TM_KEY(uint32_t, version, 1,
         {.doc = "Raise it when model, rubric or template change: verdicts of older versions are "
                 "scored again",
          .min = 1,
          .max = 1e9});
  TM_KEY(
      std::string, second, "",
      {.doc = "Name of a judge that is asked only where the votes split; its votes decide then"});
  TM_KEY(bool, reward, true, {.doc = "It has a part in the scorer \"judge\""});
  TM_KEY(bool, live, false,
         {.doc = "It scores turns of live sessions (live.on) by what came next; only with task = "
                 "\"next_state\""});
  TM_KEY(double, weight, 1,
         {.doc = "Weight among the judges of the scorer, or of its turn rewards", .max = 1000});
  TM_KEY(double, clip, 1, {.doc = "Bound on a turn's reward", .min = 0, .max = 1000});
  TM_KEY(std::string, normalize, "none",
         {.doc = "Turn rewards: none; center: minus their mean in the episode; turns: divided by "
                 "the number of turns",
          .choices = {"none", "center", "turns"}});
  TM_KEY(uint32_t, pairs, 4,
         {.doc = "With task = \"pairwise\": how many other members of its group an answer is "
                 "compared with, at most",
          .min = 1,
          .max = 64});
};

}  // namespace tidemill
