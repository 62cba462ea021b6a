#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/fate.h"
#include "core/files.h"
#include "core/text.h"
#include "dashboard/run_api.h"
#include "dashboard/run_json.h"
#include "dashboard/run_work.h"
#include "store/run_directory.h"

namespace tidemill {
namespace {

using Json = ApiJson;

constexpr std::chrono::milliseconds kToolsBudget{80};
constexpr uint32_t kTaskIntervals = 24;

// A value of an enum by its name in the API.
template <typename Enum>
Result<Enum> EnumParameter(const std::string& name, const std::string& text,
                           const std::string& prefix,
                           bool (*parse)(google::protobuf::ConstStringParam, Enum*)) {
  std::string full = prefix;
  for (const char c : text) full += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  Enum value;
  if (!parse(full, &value)) {
    return Invalid("parameter \"" + name + "\": there is no \"" + Beginning(text, 80) + "\"");
  }
  return value;
}

Result<EpisodeSort> SortParameter(const HttpRequest& request) {
  const std::string* text = request.Find("sort");
  if (text == nullptr || *text == "newest") return EpisodeSort::kNewest;
  if (*text == "oldest") return EpisodeSort::kOldest;
  if (*text == "worst") return EpisodeSort::kWorst;
  if (*text == "best") return EpisodeSort::kBest;
  if (*text == "tokens") return EpisodeSort::kMostTokens;
  if (*text == "turns") return EpisodeSort::kMostTurns;
  if (*text == "slowest") return EpisodeSort::kSlowest;
  return Invalid(
      "parameter \"sort\" must be newest, oldest, worst, best, tokens, turns or slowest");
}

Result<RunReader::Page> PageParameters(const HttpRequest& request, uint64_t limit) {
  TM_ASSIGN_OR_RETURN(const std::optional<uint64_t> offset, UintParameter(request, "offset"));
  TM_ASSIGN_OR_RETURN(const std::optional<uint64_t> given, UintParameter(request, "limit"));
  if (given && (*given < 1 || *given > kPageRowsMax)) {
    return Invalid("parameter \"limit\" must be 1 to " + std::to_string(kPageRowsMax));
  }
  return RunReader::Page{offset.value_or(0), given.value_or(limit)};
}

Result<uint64_t> NumberPart(const std::string& text, const char* what) {
  HttpRequest request;
  request.query["n"] = text;
  TM_ASSIGN_OR_RETURN(const std::optional<uint64_t> value, UintParameter(request, "n"));
  if (!value) return Invalid(std::string(what) + " must be a whole number");
  return *value;
}

double RateOver(const TaskTrend& trend, size_t begin, size_t end, uint64_t& scored) {
  uint64_t solved = 0;
  scored = 0;
  for (size_t i = begin; i < end; ++i) {
    scored += trend.scored_by_interval[i];
    solved += trend.solved_by_interval[i];
  }
  return scored == 0 ? 0 : static_cast<double>(solved) / static_cast<double>(scored);
}

// How a task is doing: the last third of the run beside what came before.
std::string TaskState(const TaskTrend& trend, double& early, double& late) {
  const size_t n = trend.scored_by_interval.size();
  uint64_t early_scored = 0, late_scored = 0;
  early = RateOver(trend, 0, n - n / 3, early_scored);
  late = RateOver(trend, n - n / 3, n, late_scored);
  if (late_scored == 0) late = early;
  if (trend.solved == 0) return "unsolved";
  const bool both = early_scored >= 4 && late_scored >= 4;
  if (both && early - late >= 0.2) return "regressed";
  if (late >= 0.8) return "solved";
  if (both && late - early >= 0.2) return "improving";
  return "mixed";
}

Json TaskJson(const TaskTrend& trend, const std::string& state, double early, double late) {
  Json rates = Json::array();
  for (size_t i = 0; i < trend.scored_by_interval.size(); ++i) {
    const uint32_t scored = trend.scored_by_interval[i];
    rates.push_back(scored == 0 ? Json()
                                : Json(static_cast<double>(trend.solved_by_interval[i]) / scored));
  }
  const auto scored = static_cast<double>(trend.scored);
  return {{"task", trend.task},
          {"state", state},
          {"scored", trend.scored},
          {"solved", trend.solved},
          {"pass_rate", static_cast<double>(trend.solved) / scored},
          {"early", early},
          {"late", late},
          {"mean_reward", trend.reward_sum / scored},
          {"last_ms", trend.last_ms},
          {"rates", rates}};
}

using TaskRowOrder = bool (*)(const Json&, const Json&);

Result<TaskRowOrder> TaskOrderParameter(const HttpRequest& request) {
  const std::string* sort = request.Find("sort");
  if (sort == nullptr || *sort == "task") return TaskRowOrder(nullptr);
  if (*sort == "worst") {
    return TaskRowOrder([](const Json& a, const Json& b) {
      return a["pass_rate"].get<double>() < b["pass_rate"].get<double>();
    });
  }
  if (*sort == "best") {
    return TaskRowOrder([](const Json& a, const Json& b) {
      return a["pass_rate"].get<double>() > b["pass_rate"].get<double>();
    });
  }
  if (*sort == "change") {
    return TaskRowOrder([](const Json& a, const Json& b) {
      return a["late"].get<double>() - a["early"].get<double>() <
             b["late"].get<double>() - b["early"].get<double>();
    });
  }
  return Invalid("parameter \"sort\" must be task, worst, best or change");
}

// The JSON object in a file of the run; an empty one where there is none.
Json FileObject(const std::string& path) {
  constexpr size_t kFileBytesMax = size_t{16} << 20;
  const auto text = ReadFileBounded(path, kFileBytesMax);
  const Json json = text.ok() ? Json::parse(*text, nullptr, false) : Json::object();
  return json.is_object() ? json : Json::object();
}

}  // namespace

Result<EpisodeFilter> FilterParameters(const HttpRequest& request) {
  EpisodeFilter filter;
  if (const std::string* text = request.Find("task")) filter.task = *text;
  if (const std::string* text = request.Find("eval")) filter.eval_name = *text;
  if (const std::string* text = request.Find("fate")) {
    filter.fate = FateNamed(*text);
    if (!filter.fate) return Invalid("fate must be one of " + FateNames() + "; got " + *text);
  }
  TM_ASSIGN_OR_RETURN(const v1::Purpose purpose, PurposeParameter(request));
  if (purpose != v1::PURPOSE_UNSPECIFIED) filter.purpose = purpose;
  if (const std::string* text = request.Find("end")) {
    TM_ASSIGN_OR_RETURN(filter.end, EnumParameter<v1::EpisodeEnd>("end", *text, "EPISODE_END_",
                                                                  v1::EpisodeEnd_Parse));
  }
  TM_ASSIGN_OR_RETURN(filter.group, UintParameter(request, "group"));
  TM_ASSIGN_OR_RETURN(filter.version, UintParameter(request, "version"));
  TM_ASSIGN_OR_RETURN(filter.lag_min, UintParameter(request, "lag_min"));
  TM_ASSIGN_OR_RETURN(filter.after_seq, UintParameter(request, "after_seq"));
  TM_ASSIGN_OR_RETURN(filter.before_seq, UintParameter(request, "before_seq"));
  TM_ASSIGN_OR_RETURN(filter.scored, BoolParameter(request, "scored"));
  TM_ASSIGN_OR_RETURN(filter.solved, BoolParameter(request, "solved"));
  TM_ASSIGN_OR_RETURN(filter.reward_min, NumberParameter(request, "reward_min"));
  TM_ASSIGN_OR_RETURN(filter.reward_max, NumberParameter(request, "reward_max"));
  return filter;
}

Result<HttpResponse> RunApi::Episodes(const HttpRequest& request, RunView& run) {
  TM_ASSIGN_OR_RETURN(const EpisodeFilter filter, FilterParameters(request));
  TM_ASSIGN_OR_RETURN(const EpisodeSort sort, SortParameter(request));
  TM_ASSIGN_OR_RETURN(const RunReader::Page page, PageParameters(request, 50));
  TM_ASSIGN_OR_RETURN(RunReader * reader, run.reader());
  TM_ASSIGN_OR_RETURN(const EpisodePage found, reader->Episodes(filter, sort, page));
  Json rows = Json::array();
  for (const EpisodeRow& row : found.rows) rows.push_back(EpisodeRowJson(row));
  return JsonResponse({{"total", found.total}, {"offset", page.offset}, {"episodes", rows}});
}

Result<HttpResponse> RunApi::Episode(const HttpRequest& request, RunView& run) {
  const std::vector<std::string> parts = PathParts(request.path);
  TM_ASSIGN_OR_RETURN(const uint64_t group, NumberPart(parts[3], "the group"));
  TM_ASSIGN_OR_RETURN(const uint64_t member, NumberPart(parts[4], "the member"));
  if (member > UINT32_MAX) return Invalid("the member is too large a number");
  TM_ASSIGN_OR_RETURN(RunReader * reader, run.reader());
  TM_ASSIGN_OR_RETURN(const EpisodeDetail detail,
                      reader->Episode(group, static_cast<uint32_t>(member)));
  return JsonResponse(EpisodeDetailJson(detail, run.tokenizer()));
}

Result<HttpResponse> RunApi::Group(const HttpRequest& request, RunView& run) {
  TM_ASSIGN_OR_RETURN(const uint64_t group, NumberPart(PathParts(request.path)[3], "the group"));
  TM_ASSIGN_OR_RETURN(RunReader * reader, run.reader());
  TM_ASSIGN_OR_RETURN(const GroupRow row, reader->Group(group));
  return JsonResponse(GroupJson(row));
}

Result<HttpResponse> RunApi::Tasks(const HttpRequest& request, RunView& run) {
  TM_ASSIGN_OR_RETURN(const v1::Purpose given, PurposeParameter(request));
  TM_ASSIGN_OR_RETURN(const RunReader::Page page, PageParameters(request, 100));
  TM_ASSIGN_OR_RETURN(const TaskRowOrder order, TaskOrderParameter(request));
  const v1::Purpose purpose = given == v1::PURPOSE_UNSPECIFIED ? v1::PURPOSE_TRAIN : given;
  TM_ASSIGN_OR_RETURN(const TaskTrends trends, run.Trends(purpose, kTaskIntervals));
  const std::string* state_wanted = request.Find("state");
  const std::string* search = request.Find("search");
  std::map<std::string, uint64_t> by_state;
  std::vector<Json> tasks;
  for (const TaskTrend& trend : trends.tasks) {
    double early = 0, late = 0;
    const std::string state = TaskState(trend, early, late);
    ++by_state[state];
    if (state_wanted != nullptr && state != *state_wanted) continue;
    if (search != nullptr && trend.task.find(*search) == std::string::npos) continue;
    tasks.push_back(TaskJson(trend, state, early, late));
  }
  if (order != nullptr) std::stable_sort(tasks.begin(), tasks.end(), order);
  Json shown = Json::array();
  for (size_t i = page.offset; i < tasks.size() && i < page.offset + page.limit; ++i) {
    shown.push_back(std::move(tasks[i]));
  }
  return JsonResponse({{"total", tasks.size()},
                       {"offset", page.offset},
                       {"by_state", by_state},
                       {"first_ms", trends.first_ms},
                       {"last_ms", trends.last_ms},
                       {"tasks", shown}});
}

Result<HttpResponse> RunApi::Tools(const HttpRequest&, RunView& run) {
  Json json;
  TM_RETURN_IF_ERROR(run.WithDatabase([&](Database& db, ToolStats& tools) -> Status {
    TM_RETURN_IF_ERROR(tools.Advance(db, kToolsBudget));
    json = tools.ToJson();
    return Ok();
  }));
  TM_ASSIGN_OR_RETURN(RunReader * reader, run.reader());
  TM_ASSIGN_OR_RETURN(const RunCounts counts, reader->Counts());
  json["episodes"] = counts.episodes;
  return JsonResponse(json);
}

// As the run wrote them; {} where it releases or guards nothing.
Result<HttpResponse> RunApi::Release(const HttpRequest&, RunView& run) {
  return JsonResponse(FileObject(ReleaseFile(run.directory().path())));
}

Result<HttpResponse> RunApi::Guards(const HttpRequest&, RunView& run) {
  return JsonResponse(FileObject(GuardsFile(run.directory().path())));
}

namespace {

// What failed, how often, and how many episodes are stale for it. Kinds that never did are left
// out; what no row of the table names (of an older program) is there with its own words.
Json KindsJson(const RunCounts& counts, const Json& tick) {
  Json kinds = Json::array();
  std::map<std::string, uint64_t> others = counts.stale_by_kind;
  for (const FailureRow& row : kFailures) {
    const auto stale = others.extract(std::string(row.words));
    const uint64_t episodes = stale.empty() ? 0 : stale.mapped();
    const auto found = tick.find("failed_" + std::string(row.key));
    const Json failures = found == tick.end() ? Json(0) : *found;
    if (episodes == 0 && failures == 0) continue;
    kinds.push_back(
        {{"kind", row.key}, {"words", row.words}, {"failures", failures}, {"stale", episodes}});
  }
  for (const auto& [words, episodes] : others) {
    kinds.push_back({{"kind", "other"}, {"words", words}, {"failures", 0}, {"stale", episodes}});
  }
  return kinds;
}

}  // namespace

Result<HttpResponse> RunApi::Faults(const HttpRequest&, RunView& run) {
  TM_ASSIGN_OR_RETURN(RunReader * reader, run.reader());
  TM_ASSIGN_OR_RETURN(const RunCounts counts, reader->Counts());
  Json json = {{"counts", CountsJson(counts)}};
  TM_RETURN_IF_ERROR(run.WithDatabase([&](Database& db, ToolStats& tools) -> Status {
    TM_RETURN_IF_ERROR(tools.Advance(db, kToolsBudget));
    json["calls"] = {{"retries", tools.retries()},
                     {"skipped", tools.skipped()},
                     {"malformed", tools.malformed()},
                     {"complete", tools.complete()}};
    TM_ASSIGN_OR_RETURN(const std::vector<FateCount> fates, ReadFates(db, 100));
    Json& list = json["fates"] = Json::array();
    for (const FateCount& fate : fates) {
      list.push_back({{"fate", fate.fate}, {"reason", fate.reason}, {"episodes", fate.episodes}});
    }
    return Ok();
  }));
  TM_RETURN_IF_ERROR(run.WithMetrics([&](const MetricsFile& metrics) {
    Json warnings = Json::array(), disagreements = Json::array();
    for (const std::string& line : metrics.remarks()) {
      Json remark = Json::parse(line);
      const std::string kind = remark.value("kind", "");
      if (kind == "warning") warnings.push_back(std::move(remark));
      if (kind == "disagreement") disagreements.push_back(std::move(remark));
    }
    json["warnings"] = std::move(warnings);
    json["disagreements"] = std::move(disagreements);
    json["warnings_total"] = metrics.warnings();
    json["bad_lines"] = metrics.bad_lines();
    json["tick"] = metrics.Series("tick").Newest();
  }));
  json["kinds"] = KindsJson(counts, json["tick"]);
  return JsonResponse(json);
}

Result<HttpResponse> RunApi::TimelineOf(const HttpRequest& request, RunView& run) {
  TimelineWindow window;
  TM_ASSIGN_OR_RETURN(const std::optional<uint64_t> from, UintParameter(request, "from"));
  TM_ASSIGN_OR_RETURN(const std::optional<uint64_t> to, UintParameter(request, "to"));
  TM_ASSIGN_OR_RETURN(const std::optional<uint64_t> limit, UintParameter(request, "limit"));
  window.from_ms = static_cast<int64_t>(from.value_or(0));
  window.to_ms = static_cast<int64_t>(to.value_or(0));
  window.episodes_max = limit.value_or(window.episodes_max);
  if (window.episodes_max < 1 || window.episodes_max > kPageRowsMax) {
    return Invalid("parameter \"limit\" must be 1 to " + std::to_string(kPageRowsMax));
  }
  Json json;
  TM_RETURN_IF_ERROR(run.WithDatabase([&](Database& db, ToolStats&) -> Status {
    TM_ASSIGN_OR_RETURN(const Timeline timeline, ReadTimeline(db, window));
    json = TimelineJson(timeline);
    return Ok();
  }));
  TM_ASSIGN_OR_RETURN(json["work"],
                      ReadWork(run.directory().metrics_path(), json["from_ms"], json["to_ms"]));
  return JsonResponse(json);
}

Result<HttpResponse> RunApi::Fleet(const HttpRequest& request, RunView& run) {
  const FleetLook look = fleets_.Look(run.directory().name());
  TM_ASSIGN_OR_RETURN(Json json, FleetJson(look, request));
  // The learner of a fleet counts its workers in the run's metrics, which stay when they are gone.
  bool counted = false;
  TM_RETURN_IF_ERROR(run.WithMetrics([&](const MetricsFile& metrics) {
    counted = metrics.Series("tick").Newest().contains("workers_lost");
  }));
  json["many"] = counted || look.status != nullptr;
  return JsonResponse(json);
}

}  // namespace tidemill
