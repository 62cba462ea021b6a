// An agent that is a program: what runs in its box, from the config, a preset and a task.
//
//   [agent] + presets/agents/NAME.toml -> AgentProgram -> ProgramFor(task) -> words filled in
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agents/agent_config.h"
#include "core/clock.h"
#include "core/status.h"
#include "proto/tidemill.pb.h"
#include "tools/box/box_host.h"
#include "tools/box/limits.h"

namespace tidemill {

struct AgentProgram {
  std::vector<std::string> command;
  std::vector<std::string> environment;      // "NAME=value"
  std::map<std::string, std::string> files;  // of its home, content by path
  std::string skills;  // folder of its home in which it looks for skills; empty: it does not
  std::vector<BoxMount> mounts;
  BoxLimits limits;           // of an episode; waiting for the model does not count as wall time
  uint64_t max_tokens = 0;    // drawn in an episode; 0: no bound
  Duration idle{0};           // without a request for so long it is over; 0: never
  std::string last_file;      // of the workspace: it is over when this is there; empty: none
  bool own_sampling = false;  // temperature and so on as the program asks, not as the run does
  std::string model;          // the name it knows the policy by
};

// kInvalid names the key or the preset's file and field.
Result<AgentProgram> AgentProgramFrom(const AgentConfig& keys);

// With what the task says differently.
AgentProgram ProgramFor(const AgentProgram& program, const v1::Task& task);

// Where things are in a box.
inline constexpr std::string_view kAgentWorkspace = "/workspace", kAgentHome = "/box/home",
                                  kAgentTaskFile = "/box/task.json";

// The values of {prompt}, {url}, .. in words and files. Any other {name} stays as it is.
using AgentWords = std::map<std::string, std::string>;
std::string FillWords(std::string_view text, const AgentWords& words);

// The file of a preset: a path where it has a '/' or ends in .toml, else NAME.toml in
// $TIDEMILL_PRESETS or among those that come with the program. kNotFound names the known ones.
Result<std::string> FindPreset(const std::string& name);
// Adds what the file says to `program`.
Status ReadPreset(const std::string& path, AgentProgram& program);

}  // namespace tidemill
