#include "config/agent_keys.h"

namespace tidemill {

void BindAgent(RunConfig& c, Binder& b) {
  RunConfig::Agent& a = c.agent;
  b.Add("agent.command", &a.command,
        {.doc = "Command line of an agent that is a program; every episode runs it in a box. "
                "{prompt}, {workspace}, {url}, {key}, {model}, {task}, {home}, {mount} and {path} "
                "are filled in. Empty: the model's protocol is the agent"});
  b.Add("agent.preset", &a.preset,
        {.doc = "A known agent's command line and settings: a name or a TOML file"});
  b.Add("agent.environment", &a.environment,
        {.doc = "Variables of the program, NAME=value, besides those of the API"});
  b.Add("agent.mounts", &a.mounts,
        {.doc = "Files and folders of this machine that it may read and execute, FROM or FROM:TO"});
  b.Add("agent.model", &a.model, {.doc = "Name by which the program asks for the policy"});
  b.Add("agent.sampling", &a.sampling,
        {.doc = "run: temperature, limits and seed are the run's, whatever the program asks for; "
                "agent: the program's",
         .choices = {"run", "agent"}});
  b.Add("agent.slots", &a.slots,
        {.doc = "Maximum number of programs that run at once", .min = 1, .max = 65536});
  b.Add("agent.max_tokens", &a.max_tokens,
        {.doc = "Maximum number of tokens drawn in an episode; 0: no limit"});
  b.Add("agent.idle", &a.idle,
        {.doc = "An episode ends after this time without a request; 0: never"});
  b.Add("agent.give_up", &a.give_up,
        {.doc = "The run stops, with the cause, when none of its first so many episodes got an "
                "answer of the model, or none of training has a token to train; 0: never"});
  b.Add("agent.last_file", &a.last_file,
        {.doc = "An episode ends when this file of the workspace is there; empty: when the program "
                "ends"});
  constexpr double kDayMs = 86'400'000;
  b.Add("agent.wall_ms", &a.wall_ms,
        {.doc = "Time limit of an episode without its waiting for the model; 0: the preset's, or "
                "600000",
         .max = kDayMs});
  b.Add("agent.cpu_ms", &a.cpu_ms,
        {.doc = "CPU time limit of an episode; 0: the preset's, or 300000", .max = kDayMs});
  b.Add("agent.memory_mb", &a.memory_mb,
        {.doc = "Memory limit of an episode, its files included; 0: the preset's, or 1024",
         .max = 1 << 20});
  b.Add("agent.processes", &a.processes,
        {.doc = "Maximum number of processes and threads; 0: the preset's, or 256", .max = 32768});
  b.Add("agent.output_kb", &a.output_kb,
        {.doc = "Maximum size of what it prints; 0: 4096", .max = 1 << 20});
  b.Add("agent.disk_mb", &a.disk_mb,
        {.doc = "Maximum size of what it writes; 0: the preset's, or 256", .max = 1 << 20});
}

}  // namespace tidemill
