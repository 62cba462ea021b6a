#include "planner/like_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "config/config.h"
#include "core/threads.h"
#include "store/run_directory.h"
#include "store/run_reader.h"

namespace tidemill {
namespace {

using RunJson = nlohmann::json;

constexpr size_t kEpisodesRead = 3000;
constexpr int kScalings = 4;

struct TurnSpan {
  double from = 0, to = 0;  // seconds
  double tokens = 0;
};

// Name of a tool that a planned episode may call: its box takes what was measured, whatever it is.
std::string PlannedTool(const std::string& tool) {
  static const std::set<std::string> kFiles = {"read_file", "write_file", "apply_patch"};
  return kFiles.contains(tool) ? tool : "compile";
}

EpisodeScript ScriptOf(const EpisodeDetail& episode, std::vector<TurnSpan>& spans) {
  EpisodeScript script;
  const v1::Trajectory& trajectory = episode.trajectory;
  script.prompt = std::max(1, trajectory.prompt_ids_size());
  for (const v1::Turn& turn : trajectory.turns()) {
    if (turn.ids_size() == 0) continue;
    ScriptedTurn scripted;
    scripted.tokens = static_cast<uint32_t>(turn.ids_size());
    scripted.observed = static_cast<uint32_t>(turn.observation_ids_size());
    for (const v1::ToolCall& call : turn.calls()) {
      if (call.handle().empty()) {
        scripted.calls.push_back({PlannedTool(call.tool()), call.run_ms() / 1e3});
      }
    }
    script.turns.push_back(std::move(scripted));
    spans.push_back({static_cast<double>(turn.started_ms()) / 1e3,
                     static_cast<double>(turn.finished_ms()) / 1e3,
                     static_cast<double>(turn.ids_size())});
  }
  // An answer that was tried first: the next turn, of a token, submits.
  if (!script.turns.empty() && !script.turns.back().calls.empty()) {
    script.turns.push_back({.tokens = 1});
  }
  script.reward = episode.row.reward.value_or(0);
  return script;
}

// Rewards as shares of what was seen, so that they are equal where they were.
void ScaleRewards(std::vector<TaskScripts>& tasks) {
  double least = 0, most = 0;
  for (const TaskScripts& scripts : tasks) {
    for (const EpisodeScript& script : scripts) {
      least = std::min(least, script.reward), most = std::max(most, script.reward);
    }
  }
  if (most <= least) return;
  for (TaskScripts& scripts : tasks) {
    for (EpisodeScript& script : scripts) script.reward = (script.reward - least) / (most - least);
  }
}

// Seconds of a step by how many rows it has, a line through turns: seconds a token against the
// turns that were drawn at the same time.
void FitEngine(std::vector<TurnSpan> spans, EngineTimes& engine) {
  std::vector<std::pair<double, int>> edges;
  for (const TurnSpan& span : spans)
    edges.emplace_back(span.from, 1), edges.emplace_back(span.to, -1);
  std::sort(edges.begin(), edges.end());
  std::vector<double> at, area;  // turns under way, added up over time
  double sum = 0, rows = 0;
  for (const auto& [time, change] : edges) {
    if (!at.empty()) sum += rows * (time - at.back());
    at.push_back(time), area.push_back(sum);
    rows += change;
  }
  const auto until = [&](double time) {
    return area[static_cast<size_t>(std::lower_bound(at.begin(), at.end(), time) - at.begin())];
  };
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const TurnSpan& span : spans) {
    const double seconds = span.to - span.from;
    if (seconds <= 0) continue;
    const double together = (until(span.to) - until(span.from)) / seconds;
    const double step = seconds / span.tokens;
    n += 1, x += together, y += step, xx += together * together, xy += together * step;
  }
  if (n == 0) return;
  const double spread = n * xx - x * x;
  double slope = spread > 1e-9 ? (n * xy - x * y) / spread : 0;
  double begin = (y - slope * x) / n;
  if (slope < 0) slope = 0, begin = y / n;
  if (begin < 0) begin = 0, slope = xy / xx;
  engine.step_s = begin, engine.row_s = slope;
}

// The newest episodes of training, contiguous, so that turns that overlap are all there.
Status ReadEpisodes(const std::string& db_path, LikeRun& run) {
  TM_ASSIGN_OR_RETURN(const std::unique_ptr<RunReader> reader, RunReader::Open(db_path));
  EpisodeFilter filter;
  filter.purpose = v1::PURPOSE_TRAIN;
  std::map<std::string, TaskScripts> by_task;
  std::vector<TurnSpan> spans;
  size_t read = 0;
  for (uint64_t offset = 0; read < kEpisodesRead; offset += kPageRowsMax) {
    TM_ASSIGN_OR_RETURN(
        const EpisodePage page,
        reader->Episodes(filter, EpisodeSort::kNewest, {.offset = offset, .limit = kPageRowsMax}));
    for (const EpisodeRow& row : page.rows) {
      if (read == kEpisodesRead) break;
      TM_ASSIGN_OR_RETURN(const EpisodeDetail episode, reader->Episode(row.group, row.member));
      EpisodeScript script = ScriptOf(episode, spans);
      if (script.turns.empty() || row.end == v1::EPISODE_END_GIVEN_UP) continue;
      by_task[row.task].push_back(std::move(script));
      ++read;
    }
    if (page.rows.size() < kPageRowsMax) break;
  }
  if (read == 0) return NotFound("run " + run.name + " has no episode of training");
  for (auto& [task, scripts] : by_task) run.times.tasks.push_back(std::move(scripts));
  ScaleRewards(run.times.tasks);
  FitEngine(std::move(spans), run.times.engine);
  run.times.Tell("episodes", fmt::format("{} of {} tasks", read, by_task.size()),
                 "run " + run.name + ", its newest: turns, tokens, calls and rewards, by task");
  return Ok();
}

struct RunMetrics {
  double calls_s = 0;  // slot-seconds of a call or grading
  double step_s = 0, publish_s = 0;
};

// What had been done when the last step ended.
Result<RunMetrics> ReadRunMetrics(const std::string& path, LikeRun& run) {
  std::ifstream lines(path);
  RunJson before, tick;
  double first_ms = 0, last_step_ms = 0, lag = 0, seconds = 0, steps = 0;
  for (std::string line; std::getline(lines, line);) {
    RunJson json = RunJson::parse(line, nullptr, false);
    if (!json.is_object()) continue;
    if (json.value("kind", "") == "step") {
      last_step_ms = json.value("time_ms", 0.0);
      lag += json.value("lag_mean", 0.0), seconds += json.value("seconds", 0.0);
      ++steps;
      tick = RunJson();
    } else if (json.value("kind", "") == "tick") {
      if (first_ms == 0) first_ms = json.value("time_ms", 0.0) - 1e3 * json.value("seconds", 0.0);
      if (tick.is_null()) tick = json;
      before = std::move(json);
    }
  }
  if (tick.is_null()) tick = before;
  if (steps == 0 || tick.is_null()) return NotFound(path + " shows no step");
  const double whole = std::max(1e-3, tick.value("seconds", 0.0));
  const double scored = tick.value("scored", 0.0);
  run.measured = {.seconds = (last_step_ms - first_ms) / 1e3,
                  .episodes_per_s = scored / whole,
                  .generated_tokens_per_s = tick.value("generated_tokens", 0.0) / whole,
                  .lag_mean = lag / steps,
                  .too_old = tick.value("too_old", 0.0) / std::max(1.0, scored),
                  .steps = static_cast<uint64_t>(steps),
                  .engine_busy = tick.value("busy_port_engine", 0.0),
                  .trainer_busy = tick.value("busy_port_trainer", 0.0),
                  .boxes_busy = tick.value("busy_port_boxes", 0.0),
                  .store_busy = tick.value("busy_port_store", 0.0),
                  .calls = tick.value("tool_requests", 0.0) + tick.value("gradings", 0.0)};
  RunMetrics metrics;
  const double slots = run.layout.tool_slots + run.layout.grade_slots;
  metrics.calls_s = run.measured.boxes_busy * whole * slots / std::max(1.0, run.measured.calls);
  metrics.step_s = seconds / steps;
  metrics.publish_s = std::max(0.0, run.measured.trainer_busy * whole / steps - metrics.step_s);
  return metrics;
}

// Calls as they were measured in boxes, scaled to what they took of slots: what a box costs beside
// its command is in there, and what a cache saved.
void SetCalls(double seconds, ServiceTimes& times) {
  double sum = 0, count = 0;
  for (const TaskScripts& scripts : times.tasks) {
    for (const EpisodeScript& script : scripts) {
      for (const ScriptedTurn& turn : script.turns) {
        for (const ScriptedCall& call : turn.calls) sum += call.work_s, ++count;
      }
    }
  }
  const double factor = sum > 0 ? seconds * count / sum : 1;
  for (TaskScripts& scripts : times.tasks) {
    for (EpisodeScript& script : scripts) {
      script.grade_s = seconds;
      for (ScriptedTurn& turn : script.turns) {
        for (ScriptedCall& call : turn.calls) call.work_s *= factor;
      }
    }
  }
}

// Tokens that a step runs over: a group's prompt counts once.
double StepTokens(const LikeRun& run) {
  double tokens = 0, episodes = 0;
  for (const TaskScripts& scripts : run.times.tasks) {
    for (const EpisodeScript& script : scripts) {
      tokens += static_cast<double>(script.prompt) / run.config.rollout.group_size;
      for (const ScriptedTurn& turn : script.turns) tokens += turn.tokens + turn.observed;
      ++episodes;
    }
  }
  return tokens / episodes * run.config.batch_episodes();
}

void ScaleCalls(double factor, ServiceTimes& times) {
  for (TaskScripts& scripts : times.tasks) {
    for (EpisodeScript& script : scripts) {
      script.grade_s *= factor;
      for (ScriptedTurn& turn : script.turns) {
        for (ScriptedCall& call : turn.calls) call.work_s *= factor;
      }
    }
  }
}

// Until the plan of the run has its ports busy as long as they were, for the same work.
Status Scale(LikeRun& run) {
  const MeasuredRun& measured = run.measured;
  PlanLimits limits{.whole = true, .episodes_max = 6000};
  for (int i = 0; i < kScalings; ++i) {
    TM_ASSIGN_OR_RETURN(const PlanReport plan, RunPlan(run.config, run.layout, run.times, limits));
    const auto factor = [&](const char* name, double busy) {
      for (const PortShare& port : plan.ports) {
        if (port.name != name || port.busy <= 0 || busy <= 0) continue;
        // Of the same number of episodes.
        return std::clamp(busy / measured.episodes_per_s / (port.busy / plan.episodes_per_s), 0.05,
                          20.0);
      }
      return 1.0;
    };
    const double engine = factor("engine", measured.engine_busy);
    run.times.engine.step_s *= engine, run.times.engine.row_s *= engine;
    run.times.engine.prompt_s *= engine;
    const double trainer = factor("trainer", measured.trainer_busy);
    run.times.trainer.token_s *= trainer, run.times.trainer.publish_s *= trainer;
    ScaleCalls(factor("boxes", measured.boxes_busy), run.times);
    run.times.store.sync_s *= factor("store", measured.store_busy);
  }
  return Ok();
}

void TellTimes(LikeRun& run) {
  const std::string from = "run " + run.name;
  const std::string scaled =
      run.layout.one_machine ? ", scaled to what it takes when its core is not shared" : "";
  const EngineTimes& engine = run.times.engine;
  run.times.Tell(
      "engine, a step",
      fmt::format("{:.3f} ms and {:.4f} ms a row", 1e3 * engine.step_s, 1e3 * engine.row_s),
      from + ": turns against how many were drawn at once" + scaled);
  run.times.Tell("engine, a prompt's token", fmt::format("{:.4f} ms", 1e3 * engine.prompt_s),
                 "assumed: half of a row's");
  run.times.Tell("trainer",
                 fmt::format("{:.3f} ms a token, {:.1f} ms a version",
                             1e3 * run.times.trainer.token_s, 1e3 * run.times.trainer.publish_s),
                 from + ": its steps" + scaled);
  double grade = run.times.tasks.front().front().grade_s;
  run.times.Tell("boxes", fmt::format("{:.1f} ms a grading", 1e3 * grade),
                 from + ": busy slots over calls and gradings" + scaled);
  run.times.Tell("store", fmt::format("{:.1f} ms a transaction", 1e3 * run.times.store.sync_s),
                 from + ": how busy its store was");
}

}  // namespace

Result<LikeRun> ReadLikeRun(const std::string& folder, uint32_t cores) {
  const std::filesystem::path path = std::filesystem::path(folder).lexically_normal();
  const bool slash = !path.has_filename();
  const std::filesystem::path whole = slash ? path.parent_path() : path;
  LikeRun run;
  run.name = whole.filename().string();
  const std::string root = whole.has_parent_path() ? whole.parent_path().string() : ".";
  TM_ASSIGN_OR_RETURN(const RunDirectory directory, RunDirectory::OpenToRead(root, run.name));
  Binder binder;
  BindRunConfig(run.config, binder);
  run.config_file = directory.config_path();
  TM_RETURN_IF_ERROR(binder.Load(run.config_file, {}));
  const ThreadPlan threads = PlanThreads({.engine = static_cast<int>(run.config.threads.engine),
                                          .trainer = static_cast<int>(run.config.threads.trainer),
                                          .boxes = static_cast<int>(run.config.tools.slots)},
                                         static_cast<int>(cores));
  const auto boxes = static_cast<uint32_t>(threads.boxes);
  run.layout = {.one_machine = true,
                .cores = static_cast<double>(cores),
                .tool_slots = boxes,
                .grade_slots = boxes};
  TM_RETURN_IF_ERROR(ReadEpisodes(directory.db_path(), run));
  TM_ASSIGN_OR_RETURN(const RunMetrics metrics, ReadRunMetrics(directory.metrics_path(), run));
  if (run.times.engine.step_s + run.times.engine.row_s <= 0) {
    // Turns shorter than a millisecond say nothing.
    run.times.engine.row_s =
        run.measured.engine_busy / std::max(1.0, run.measured.generated_tokens_per_s);
  }
  SetCalls(metrics.calls_s, run.times);
  run.times.trainer.token_s = metrics.step_s / StepTokens(run);
  run.times.trainer.publish_s = metrics.publish_s;
  run.times.trainer.threads = threads.trainer;
  run.times.engine.threads = threads.engine;
  run.times.engine.prompt_s =
      (run.times.engine.row_s > 0 ? run.times.engine.row_s : run.times.engine.step_s / 64) / 2;
  TM_RETURN_IF_ERROR(Scale(run));
  TellTimes(run);
  return run;
}

}  // namespace tidemill
