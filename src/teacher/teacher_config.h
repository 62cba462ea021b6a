// The keys of [teacher]: who scores tokens for distillation.
#pragma once

#include <cstdint>
#include <string>

#include "config/section.h"

namespace tidemill {

struct TeacherConfig {
  TM_SECTION("teacher");
  TM_KEY(std::string, model, "",
         {.doc = "Model directory of the teacher, with the policy's tokenizer; see "
                 "judges.md#distillation"});
  TM_KEY(bool, policy, false, {.doc = "The newest policy is its own teacher; needs teacher.hints"});
  TM_KEY(std::string, endpoint, "",
         {.doc = "Base address of an OpenAI-compatible API that scores given token ids "
                 "(completions with echo and logprobs)"});
  TM_KEY(std::string, endpoint_model, "", {.doc = "Name of the model at the endpoint"});
  TM_KEY(std::string, key_file, "", {.doc = "File with the endpoint's API key"});
  TM_KEY(std::string, key_env, "", {.doc = "Environment variable with the endpoint's API key"});
  TM_KEY(std::string, ca_file, "",
         {.doc = "PEM file with the certificates that the endpoint's must be signed by; empty: the "
                 "system's"});
  TM_KEY(milliseconds, timeout, milliseconds(60000),
         {.doc = "Time limit of one answer of the endpoint", .min = 10, .max = 3.6e6});
  TM_KEY(std::string, hints, "none",
         {.doc = "What the teacher reads before it scores a turn: errors: the turn and the error "
                 "that followed it; judge: the turn and the longest of a judge's reasons for "
                 "calling it bad; judge_strongest: the reason that changes the scores most. Turns "
                 "without a hint are not scored",
          .choices = {"none", "errors", "judge", "judge_strongest"}});
  TM_KEY(uint32_t, concurrency, 64,
         {.doc = "Maximum number of sequences at the teacher at once", .min = 1, .max = 4096});
  TM_KEY(uint32_t, batch_tokens, 4096,
         {.doc = "Tokens that a teacher in this process reads at once", .min = 64, .max = 1 << 24});
  TM_KEY(uint32_t, retries, 6,
         {.doc = "Retries of a sequence that the teacher failed on", .max = 20});

  bool used() const { return policy || !model.empty() || !endpoint.empty(); }
};

}  // namespace tidemill
