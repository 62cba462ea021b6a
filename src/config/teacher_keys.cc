#include "config/teacher_keys.h"

namespace tidemill {

void BindTeacher(RunConfig& c, Binder& b) {
  RunConfig::Teacher& t = c.teacher;
  b.Add("teacher.model", &t.model,
        {.doc = "Model directory of the teacher, with the policy's tokenizer; see "
                "judges.md#distillation"});
  b.Add("teacher.policy", &t.policy,
        {.doc = "The newest policy is its own teacher; needs teacher.hints"});
  b.Add("teacher.endpoint", &t.endpoint,
        {.doc = "Base address of an OpenAI-compatible API that scores given token ids "
                "(completions with echo and logprobs)"});
  b.Add("teacher.endpoint_model", &t.endpoint_model, {.doc = "Name of the model at the endpoint"});
  b.Add("teacher.key_file", &t.key_file, {.doc = "File with the endpoint's API key"});
  b.Add("teacher.key_env", &t.key_env, {.doc = "Environment variable with the endpoint's API key"});
  b.Add("teacher.ca_file", &t.ca_file,
        {.doc = "PEM file with the certificates that the endpoint's must be signed by; empty: the "
                "system's"});
  b.Add("teacher.timeout", &t.timeout,
        {.doc = "Time limit of one answer of the endpoint", .min = 10, .max = 3.6e6});
  b.Add("teacher.hints", &t.hints,
        {.doc = "What the teacher reads before it scores a turn: errors: the turn and the error "
                "that followed it; judge: the turn and the longest of a judge's reasons for "
                "calling it bad; judge_strongest: the reason that changes the scores most. Turns "
                "without a hint are not scored",
         .choices = {"none", "errors", "judge", "judge_strongest"}});
  b.Add("teacher.concurrency", &t.concurrency,
        {.doc = "Maximum number of sequences at the teacher at once", .min = 1, .max = 4096});
  b.Add("teacher.batch_tokens", &t.batch_tokens,
        {.doc = "Tokens that a teacher in this process reads at once", .min = 64, .max = 1 << 24});
  b.Add("teacher.retries", &t.retries,
        {.doc = "Retries of a sequence that the teacher failed on", .max = 20});
}

Status CheckTeacher(const RunConfig& config, const Binder& binder) {
  const RunConfig::Teacher& t = config.teacher;
  if (int{t.policy} + int{!t.model.empty()} + int{!t.endpoint.empty()} > 1) {
    return binder.Error(t.policy ? "teacher.policy" : "teacher.endpoint",
                        "is a second teacher; there is one");
  }
  if (t.policy && t.hints == "none") {
    return binder.Error("teacher.policy",
                        "needs teacher.hints: without a hint it knows what the policy knows");
  }
  if (t.hints != "none" && !t.used()) {
    return binder.Error("teacher.hints", "has no teacher: set teacher.policy or teacher.model");
  }
  if (t.hints == "judge" || t.hints == "judge_strongest") {
    for (const RunConfig::JudgeKeys& judge : config.reward.judges) {
      if (judge.task == "next_state" || judge.task == "process") return Ok();
    }
    return binder.Error("teacher.hints", "needs a [[judge]] of turns: next_state or process");
  }
  return Ok();
}

}  // namespace tidemill
