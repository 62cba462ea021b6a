// The keys of [agent]: an agent that is a program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/section.h"

namespace tidemill {

// A limit of 0: the preset's, or the default.
struct AgentConfig {
  TM_SECTION("agent");
  TM_KEY(std::vector<std::string>, command, {},
         {.doc = "Command line of an agent that is a program; every episode runs it in a box. "
                 "{prompt}, {workspace}, {url}, {key}, {model}, {task}, {home}, {mount} and {path} "
                 "are filled in. Empty: the model's protocol is the agent"});
  TM_KEY(std::string, preset, "",
         {.doc = "A known agent's command line and settings: a name or a TOML file"});
  TM_KEY(std::vector<std::string>, environment, {},
         {.doc = "Variables of the program, NAME=value, besides those of the API"});
  TM_KEY(
      std::vector<std::string>, mounts, {},
      {.doc = "Files and folders of this machine that it may read and execute, FROM or FROM:TO"});
  TM_KEY(std::string, model, "policy", {.doc = "Name by which the program asks for the policy"});
  TM_KEY(std::string, sampling, "run",
         {.doc = "run: temperature, limits and seed are the run's, whatever the program asks for; "
                 "agent: the program's",
          .choices = {"run", "agent"}});
  TM_KEY(uint32_t, slots, 64,
         {.doc = "Maximum number of programs that run at once", .min = 1, .max = 65536});
  TM_KEY(uint32_t, max_tokens, 0,
         {.doc = "Maximum number of tokens drawn in an episode; 0: no limit"});
  TM_KEY(milliseconds, idle, milliseconds(0),
         {.doc = "An episode ends after this time without a request; 0: never"});
  TM_KEY(uint32_t, give_up, 16,
         {.doc = "The run stops, with the cause, when none of its first so many episodes got an "
                 "answer of the model, or none of training has a token to train; 0: never"});
  TM_KEY(
      std::string, last_file, "",
      {.doc = "An episode ends when this file of the workspace is there; empty: when the program "
              "ends"});
  TM_KEY(uint32_t, wall_ms, 0,
         {.doc = "Time limit of an episode without its waiting for the model; 0: the preset's, or "
                 "600000",
          .max = 86'400'000});
  TM_KEY(uint32_t, cpu_ms, 0,
         {.doc = "CPU time limit of an episode; 0: the preset's, or 300000", .max = 86'400'000});
  TM_KEY(uint32_t, memory_mb, 0,
         {.doc = "Memory limit of an episode, its files included; 0: the preset's, or 1024",
          .max = 1 << 20});
  TM_KEY(uint32_t, processes, 0,
         {.doc = "Maximum number of processes and threads; 0: the preset's, or 256", .max = 32768});
  TM_KEY(uint32_t, output_kb, 0,
         {.doc = "Maximum size of what it prints; 0: 4096", .max = 1 << 20});
  TM_KEY(uint32_t, disk_mb, 0,
         {.doc = "Maximum size of what it writes; 0: the preset's, or 256", .max = 1 << 20});

  bool used() const { return !preset.empty() || !command.empty(); }
};

}  // namespace tidemill
