#include "config/memory_keys.h"

namespace tidemill {

void BindMemory(RunConfig& c, Binder& b) {
  RunConfig::Memory& m = c.memory;
  b.Add("memory.on", &m.on,
        {.doc = "Keep episodes as cases and show them to later episodes; see memory.md"});
  b.Add("memory.only", &m.only,
        {.doc = "Learn by memory alone: the weights stay as they are. Needs memory.on"});
  b.Add("memory.retrieval", &m.retrieval,
        {.doc = "Which cases are shown: those with the most telling words in common, those whose "
                "prompts the policy reads most alike, of those with words in common the newest, "
                "any, or those that were worth most",
         .choices = {"lexical", "hidden", "newest", "random", "learned"}});
  b.Add("memory.key_layers", &m.key_layers,
        {.doc = "With memory.retrieval = \"hidden\": layers of the policy that a prompt is run "
                "through, those of the weights the run began with; 0: half",
         .max = 1024});
  b.Add("memory.cases", &m.cases, {.doc = "Cases in a prompt, at most", .min = 1, .max = 64});
  b.Add("memory.case_tokens", &m.case_tokens,
        {.doc = "Tokens of a prompt that cases may take; the least useful are left out",
         .min = 1,
         .max = 1e6});
  b.Add("memory.capacity", &m.capacity,
        {.doc = "Cases kept; above it the least useful is forgotten, of equal ones the oldest",
         .min = 1,
         .max = 1e6});
  b.Add("memory.failures", &m.failures, {.doc = "Keep failed answers as cases too"});
  b.Add("memory.explore", &m.explore,
        {.doc = "How the learned retrieval tries cases it knows little about",
         .choices = {"thompson", "epsilon"}});
  b.Add(
      "memory.epsilon", &m.epsilon,
      {.doc = "With memory.explore = \"epsilon\": share of episodes shown similar cases at random",
       .min = 0,
       .max = 1});
}

Status CheckMemory(const RunConfig& config, const Binder& binder) {
  if (config.memory.only && !config.memory.on) {
    return binder.Error("memory.only", "needs memory.on");
  }
  if (config.memory.on && config.agent.used()) {
    return binder.Error("memory.on", "cannot show cases to an agent that is a program");
  }
  if (config.memory.key_layers > 0 && config.memory.retrieval != "hidden") {
    return binder.Error("memory.key_layers", "needs memory.retrieval = \"hidden\"");
  }
  if (config.memory.only && config.live.on) {
    return binder.Error("memory.only", "cannot be together with live.on, which trains");
  }
  return Ok();
}

}  // namespace tidemill
