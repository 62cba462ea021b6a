#include "cli/plan_fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "core/shipped_files.h"
#include "core/threads.h"
#include "planner/gpu_times.h"
#include "planner/layout_search.h"
#include "planner/like_run.h"
#include "run/plan_run.h"

namespace tidemill {
namespace {

using PlanJson = nlohmann::ordered_json;

struct FleetMemory {
  std::string part;
  MemoryPlan plan;
};

// What is planned, and on what.
struct Asked {
  RunConfig config;
  std::optional<LikeRun> like;
  std::optional<PlanFleet> fleet;
  std::optional<ModelConfig> model;  // where a GPU is to run it
  std::vector<FleetMemory> memory;
  PlanLayout layout;
  ServiceTimes times;
};

// Episodes and boxes of the run that it is like, engine and trainer of the fleet's GPUs.
Result<ServiceTimes> TimesOn(const FleetPlanArguments& arguments, const Asked& asked,
                             const PlanFleet& fleet) {
  ServiceTimes times;
  if (asked.like) times = asked.like->times;
  if (!asked.like || !arguments.episode.empty()) {
    TM_ASSIGN_OR_RETURN(const EpisodeGuess guess, ParseEpisodeGuess(arguments.episode));
    std::erase_if(times.origins, [](const Origin& one) { return one.what == "episodes"; });
    GuessEpisodes(guess, asked.config.run.seed, times);
  }
  if (fleet.gpus == 0) return times;
  std::erase_if(times.origins, [](const Origin& one) {
    return one.what.starts_with("engine") || one.what == "trainer" || one.what == "store";
  });
  TM_RETURN_IF_ERROR(SetGpuTimes(fleet, asked.config, *asked.model, times));
  return times;
}

Status ReadConfig(const FleetPlanArguments& arguments, Asked& asked) {
  std::string file = arguments.config_file;
  if (file.empty() && asked.like) file = asked.like->config_file;
  Binder binder;
  BindRunConfig(asked.config, binder);
  TM_RETURN_IF_ERROR(binder.Load(file, arguments.sets));
  if (!arguments.model.empty()) asked.config.model.path = ShapeFolder(arguments.model);
  if (asked.config.tasks.train.empty()) asked.config.tasks.train = "any";  // a plan needs none
  return CheckRunConfig(asked.config, binder);
}

// Of a process of each kind that has a GPU.
Result<std::vector<FleetMemory>> MemoryOf(const Asked& asked) {
  std::vector<FleetMemory> parts;
  if (!asked.model) return parts;
  TM_ASSIGN_OR_RETURN(PlanInput input, PlanInputFrom(asked.config, *asked.model, /*gpu=*/true));
  TM_ASSIGN_OR_RETURN(input.memory_bytes, GpuMemoryBytes(asked.fleet->gpu));
  if (asked.fleet->gpus == 1) {
    parts.push_back({"engine and learner", PlanMemory(input)});
    return parts;
  }
  PlanInput learner = input, engine = input;
  learner.generates = false, engine.trains = false;
  parts.push_back({"learner", PlanMemory(learner)});
  parts.push_back({"engine", PlanMemory(engine)});
  return parts;
}

Result<Asked> Understand(const FleetPlanArguments& arguments) {
  Asked asked;
  if (!arguments.like.empty()) {
    const uint32_t cores =
        arguments.cores > 0 ? arguments.cores : static_cast<uint32_t>(AvailableCores());
    TM_ASSIGN_OR_RETURN(asked.like, ReadLikeRun(arguments.like, cores));
  }
  TM_RETURN_IF_ERROR(ReadConfig(arguments, asked));
  if (arguments.fleet.empty()) {
    asked.layout = asked.like->layout;
    asked.times = asked.like->times;
    return asked;
  }
  TM_ASSIGN_OR_RETURN(asked.fleet, ReadPlanFleet(arguments.fleet, arguments.gpu));
  if (asked.fleet->gpus > 0) {
    TM_ASSIGN_OR_RETURN(asked.model, ReadModelConfig(asked.config.model.path));
  } else if (!asked.like) {
    return Invalid("a fleet without GPUs needs --like RUN, which says how long its CPU takes");
  }
  TM_ASSIGN_OR_RETURN(asked.memory, MemoryOf(asked));
  TM_ASSIGN_OR_RETURN(asked.times, TimesOn(arguments, asked, *asked.fleet));
  const uint32_t ranks = asked.fleet->ranks > 0 ? asked.fleet->ranks : asked.config.learner.ranks;
  asked.layout = LayoutOn(*asked.fleet, asked.config, ranks);
  if (asked.fleet->engines > 0) asked.layout.engines = asked.fleet->engines;
  return asked;
}

PlanJson ToJson(const PlanReport& report) {
  PlanJson ports;
  for (const PortShare& port : report.ports) ports[port.name] = port.busy;
  return {{"ended", report.ended},
          {"rates_hold", report.rates_hold},
          {"virtual_seconds", report.seconds},
          {"counted_seconds", report.counted_s},
          {"counted_steps", report.steps},
          {"episodes_per_s", report.episodes_per_s},
          {"trained_episodes_per_s", report.trained_episodes_per_s},
          {"generated_tokens_per_s", report.generated_tokens_per_s},
          {"trained_tokens_per_s", report.trained_tokens_per_s},
          {"step_seconds", report.step_s},
          {"lag_mean", report.lag_mean},
          {"lag_p99", report.lag_p99},
          {"too_old", report.too_old},
          {"masked", report.masked},
          {"zero_variance", report.zero_variance},
          {"rebuilt_turns", report.rebuilt},
          {"seconds_to_steps", report.seconds_to_steps},
          {"steps_extrapolated", report.steps_extrapolated},
          {"busy", ports},
          {"bound", report.bound},
          {"part", report.part},
          {"bus_messages_per_s", report.bus_messages_per_s},
          {"store_ops_per_s", report.store_ops_per_s}};
}

PlanJson ToJson(const MeasuredRun& measured) {
  return {{"seconds", measured.seconds},
          {"steps", measured.steps},
          {"episodes_per_s", measured.episodes_per_s},
          {"generated_tokens_per_s", measured.generated_tokens_per_s},
          {"lag_mean", measured.lag_mean},
          {"too_old", measured.too_old},
          {"busy",
           {{"engine", measured.engine_busy},
            {"trainer", measured.trainer_busy},
            {"boxes", measured.boxes_busy},
            {"store", measured.store_busy}}}};
}

std::string LayoutText(const PlanLayout& layout) {
  std::string where = layout.one_machine      ? "engine, trainer and boxes on one machine"
                      : layout.shared_gpu > 0 ? "engine and trainer on one GPU"
                                              : fmt::format("engines: {}, ranks of the learner: {}",
                                                            layout.engines, layout.ranks);
  return fmt::format("{}; {} slots for calls, {} for gradings, {:.0f} cores", where,
                     layout.tool_slots, layout.grade_slots, layout.cores);
}

void PrintReport(const PlanReport& report, uint64_t steps, double price) {
  std::printf("  episodes/s        %10.2f scored, %.2f trained\n", report.episodes_per_s,
              report.trained_episodes_per_s);
  std::printf("  tokens/s          %10.0f generated, %.0f trained\n", report.generated_tokens_per_s,
              report.trained_tokens_per_s);
  std::printf("  a step            %10.2f s\n", report.step_s);
  std::printf("  lag               %10.2f steps, 99th percentile %.0f\n", report.lag_mean,
              report.lag_p99);
  std::printf("  too old           %10.2f %% of episodes dropped, %.2f %% of tokens masked\n",
              100 * report.too_old, 100 * report.masked);
  std::printf("  zero variance     %10.2f %% of episodes dropped\n", 100 * report.zero_variance);
  std::printf("  cache given up    %10.2f %% of later turns computed their context again\n",
              100 * report.rebuilt);
  std::printf("  %-6lu steps      %10.0f s%s", steps, report.seconds_to_steps,
              report.steps_extrapolated ? " (extrapolated)" : "");
  if (price > 0) std::printf(", costs %.2f", price * report.seconds_to_steps / 3600);
  std::printf("\n  busy             ");
  for (const PortShare& port : report.ports) {
    std::printf(" %s %.0f %%", port.name.c_str(), 100 * port.busy);
  }
  if (report.part > 1) {
    std::printf("\n  planned by        one in %u of engines, slots, cores and groups", report.part);
  }
  std::printf("\n  bus, store        %10.0f messages/s, %.0f operations/s\n",
              report.bus_messages_per_s, report.store_ops_per_s);
  std::printf(
      "  bound by          %s\n  counted           the last %lu steps, %.1f s of %.1f s "
      "virtual; ended with: %s\n",
      report.bound.c_str(), report.steps, report.counted_s, report.seconds, report.ended.c_str());
}

void PrintMeasured(const LikeRun& like) {
  const MeasuredRun& m = like.measured;
  std::printf("measured in run %s: %lu steps in %.1f s\n", like.name.c_str(), m.steps, m.seconds);
  std::printf(
      "  episodes/s        %10.2f scored\n  tokens/s          %10.0f generated\n"
      "  lag               %10.2f steps\n  busy              engine %.0f %% trainer %.0f %% "
      "boxes %.0f %% store %.0f %%\n",
      m.episodes_per_s, m.generated_tokens_per_s, m.lag_mean, 100 * m.engine_busy,
      100 * m.trainer_busy, 100 * m.boxes_busy, 100 * m.store_busy);
}

int PrintBest(const FleetPlanArguments& arguments, const Asked& asked) {
  LayoutSearch search;
  search.lag_max = arguments.lag_max;
  search.times = [&](const PlanFleet& fleet) { return TimesOn(arguments, asked, fleet); };
  search.tried = [](const FoundLayout& found) {
    std::fprintf(stderr, "  %s: %.2f episodes/s, lag %.2f\n", found.choice.Text().c_str(),
                 found.report.trained_episodes_per_s, found.report.lag_mean);
  };
  const Result<BestLayout> best = FindLayout(asked.config, *asked.fleet, search);
  if (!best.ok()) return Fail(best.status());
  const double rate = best->best.report.trained_episodes_per_s;
  const auto gain = [&](const FoundLayout& more) {
    return 100 * (more.report.trained_episodes_per_s / rate - 1);
  };
  if (arguments.json) {
    PlanJson json = {{"settings", best->best.choice.Text()},
                     {"plans", best->plans},
                     {"plan", ToJson(best->best.report)},
                     {"ten_more_cores", ToJson(best->ten_more_cores.report)}};
    if (best->one_more_gpu) json["one_more_gpu"] = ToJson(best->one_more_gpu->report);
    PrintJson(json);
    return 0;
  }
  std::printf("best of %zu plans, mean lag at most %.1f steps: %s\n", best->plans,
              arguments.lag_max, best->best.choice.Text().c_str());
  PrintReport(best->best.report, asked.config.run.steps, arguments.price);
  if (best->one_more_gpu) {
    std::printf("one more GPU: %+.1f %% trained episodes/s (%s)\n", gain(*best->one_more_gpu),
                best->one_more_gpu->choice.Text().c_str());
  }
  std::printf("ten more cores: %+.1f %% (%s)\n", gain(best->ten_more_cores),
              best->ten_more_cores.choice.Text().c_str());
  return 0;
}

void PrintHead(const FleetPlanArguments& arguments, const Asked& asked) {
  if (asked.fleet) std::printf("%s\n", FleetText(*asked.fleet).c_str());
  if (!arguments.best) std::printf("%s\n", LayoutText(asked.layout).c_str());
  for (const FleetMemory& memory : asked.memory) {
    std::printf("  memory, %s: %s of %s%s\n", memory.part.c_str(),
                BytesText(memory.plan.total_bytes).c_str(),
                BytesText(memory.plan.memory_bytes).c_str(),
                memory.plan.fits() ? "" : ": does not fit, see tidemill plan without --fleet");
  }
  for (const Origin& origin : asked.times.origins) {
    std::printf("  %s: %s [%s]\n", origin.what.c_str(), origin.value.c_str(), origin.from.c_str());
  }
  for (const std::string& part : NotPlanned(asked.config)) {
    std::printf("  left out: %s\n", part.c_str());
  }
}

int PrintPlan(const FleetPlanArguments& arguments, const Asked& asked) {
  // Beside a run, all of it counts, as in the run.
  const bool whole = !asked.fleet;
  const PlanLimits limits{.seconds = arguments.seconds, .whole = whole};
  const Result<PlanReport> report = RunPlan(asked.config, asked.layout, asked.times, limits);
  if (!report.ok()) return Fail(report.status());
  std::optional<PlanReport> same;  // the plan of the run as it was
  if (whole && !arguments.sets.empty()) {
    const Result<PlanReport> plan =
        RunPlan(asked.like->config, asked.like->layout, asked.like->times, limits);
    if (!plan.ok()) return Fail(plan.status());
    same = *plan;
  }
  if (arguments.json) {
    PlanJson json = {{"plan", ToJson(*report)}, {"left_out", NotPlanned(asked.config)}};
    for (const Origin& origin : asked.times.origins) {
      json["times"].push_back(
          {{"what", origin.what}, {"value", origin.value}, {"from", origin.from}});
    }
    for (const FleetMemory& memory : asked.memory) {
      json["memory"].push_back({{"part", memory.part},
                                {"bytes", memory.plan.total_bytes},
                                {"memory", memory.plan.memory_bytes},
                                {"fits", memory.plan.fits()}});
    }
    if (asked.like) json["measured"] = ToJson(asked.like->measured);
    if (same) json["plan_of_the_run"] = ToJson(*same);
    if (arguments.price > 0) {
      json["cost"] = arguments.price * report->seconds_to_steps / 3600;
    }
    PrintJson(json);
    return 0;
  }
  PrintHead(arguments, asked);
  if (asked.like) PrintMeasured(*asked.like);
  if (same) {
    std::printf("planned, as it was\n");
    PrintReport(*same, asked.like->config.run.steps, 0);
  }
  std::printf("planned%s\n", same ? ", with what was set" : "");
  PrintReport(*report, asked.config.run.steps, arguments.price);
  return 0;
}

}  // namespace

int RunFleetPlan(const FleetPlanArguments& arguments) {
  if (arguments.best && arguments.fleet.empty()) {
    return Wrong(Invalid("--best needs --fleet: it says what there is"));
  }
  const Result<Asked> asked = Understand(arguments);
  if (!asked.ok()) return Fail(asked.status());
  if (!arguments.best) return PrintPlan(arguments, *asked);
  if (!arguments.json) PrintHead(arguments, *asked);
  return PrintBest(arguments, *asked);
}

}  // namespace tidemill
