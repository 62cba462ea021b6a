// How long the ports of a planned run take, and what its episodes are made of. Every number has an
// origin that people are told.
//
//   a finished run (like_run.h), or a table of GPUs (gpu_times.h) -> ServiceTimes -> RunPlan
//   (planned_run.h)
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tidemill {

// Seconds are those of the port when nothing else wants its cores.
struct ScriptedCall {
  std::string tool{};
  double work_s = 0;  // in a slot
};

struct ScriptedTurn {
  uint32_t tokens = 1;    // that are drawn
  uint32_t observed = 0;  // that are put behind them
  std::vector<ScriptedCall> calls{};
};

// What an episode does. Its last turn submits, whatever its calls.
struct EpisodeScript {
  uint32_t prompt = 1;
  std::vector<ScriptedTurn> turns{};
  double grade_s = 0;  // 0: it is not graded in a box
  double reward = 0;   // 0..1
};

// The attempts at one task: a group draws its members from these.
using TaskScripts = std::vector<EpisodeScript>;

// A step draws one token for each row: step + row * rows + context * tokens they attend to. While
// prompts wait, it also reads `chunk` tokens of them at `prompt_s` each.
struct EngineTimes {
  double step_s = 0;
  double row_s = 0;
  double context_s = 0;
  double prompt_s = 0;
  double chunk = 512;
  uint32_t rows_max = 1024;
  double cache_tokens = 0;  // room for keys and values; 0: enough
  double swap_s = 0;        // generation stands still for new weights
  double threads = 1;       // it wants of its host
};

// A step: step + token * tokens / ranks, and with several ranks `sum_s`, once for each of them but
// one, over their number.
struct TrainerTimes {
  double step_s = 0;
  double token_s = 0;
  double sum_s = 0;
  double publish_s = 0;
  double arrive_s = 0;  // from the publication until an engine has the weights
  double threads = 1;
};

// One transaction for all that waits.
struct StoreTimes {
  double sync_s = 0.005;
  double op_s = 0;
};

struct Origin {
  std::string what;
  std::string value;
  std::string from;
};

struct ServiceTimes {
  std::vector<TaskScripts> tasks{};
  EngineTimes engine{};
  TrainerTimes trainer{};
  StoreTimes store{};
  std::vector<Origin> origins{};

  void Tell(std::string what, std::string value, std::string from) {
    origins.push_back({std::move(what), std::move(value), std::move(from)});
  }
};

}  // namespace tidemill
