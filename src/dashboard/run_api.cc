#include "dashboard/run_api.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "core/version.h"
#include "dashboard/run_json.h"
#include "store/run_notes.h"

namespace tidemill {
namespace {

using Json = ApiJson;

constexpr size_t kListedMax = 500;
constexpr size_t kCountedMax = 20;  // runs without a summary whose databases are asked

Json SummaryOf(const RunDirectory& directory) {
  const Result<std::string> text = directory.ReadSummary();
  if (!text.ok()) return Json();
  Json json = Json::parse(*text, nullptr, false);
  return json.is_object() ? json : Json();
}

std::vector<std::string> BetweenCommas(const std::string& text) {
  std::vector<std::string> words;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

// A damaged file says what is wrong with it where the note would be.
void AddNotes(const RunDirectory& directory, Json& json) {
  const Result<RunNotes> notes = ReadRunNotes(directory.path());
  json["tags"] = notes.ok() ? notes->tags : std::vector<std::string>();
  json["note"] = notes.ok() ? notes->note : notes.status().message();
}

Result<uint64_t> Bounded(const HttpRequest& request, const std::string& name, uint64_t otherwise,
                         uint64_t most) {
  TM_ASSIGN_OR_RETURN(const std::optional<uint64_t> value, UintParameter(request, name));
  if (value && (*value < 1 || *value > most)) {
    return Invalid("parameter \"" + name + "\" must be 1 to " + std::to_string(most));
  }
  return value.value_or(otherwise);
}

}  // namespace

std::string RunState(const RunInfo& info, const RunDirectory& directory) {
  if (info.writing) return "running";
  if (!info.has_summary) return "unfinished";
  const Json summary = SummaryOf(directory);
  if (!summary.is_object() || !summary.contains("status") || !summary["status"].is_string())
    return "done";
  return summary["status"].get<std::string>();
}

std::vector<std::string> PathParts(const std::string& path) {
  std::vector<std::string> parts;
  size_t begin = 1;
  while (begin <= path.size()) {
    const size_t end = std::min(path.find('/', begin), path.size());
    parts.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  if (!parts.empty()) parts.erase(parts.begin());  // "api"
  return parts;
}

Result<v1::Purpose> PurposeParameter(const HttpRequest& request) {
  const std::string* text = request.Find("purpose");
  if (text == nullptr) return v1::PURPOSE_UNSPECIFIED;
  if (*text == "train") return v1::PURPOSE_TRAIN;
  if (*text == "eval") return v1::PURPOSE_EVAL;
  return Invalid("parameter \"purpose\" must be train or eval, got \"" + Beginning(*text, 80) +
                 "\"");
}

RunApi::RunApi(RunApiOptions options)
    : options_(std::move(options)), views_(options_.folder), fleets_(options_.bus_url) {}

HttpResponse RunApi::Get(const std::string& target) {
  HttpRequest request;
  request.method = "GET";
  if (const Status status = ParseTarget(target, request); !status.ok())
    return ErrorResponse(status);
  return Answer(request);
}

HttpResponse RunApi::Answer(const HttpRequest& request) {
  try {
    Result<HttpResponse> response = Route(request);
    return response.ok() ? std::move(*response) : ErrorResponse(response.status());
  } catch (const nlohmann::json::exception& error) {
    return ErrorResponse(500, std::string("a file of the run is invalid: ") + error.what());
  }
}

Result<HttpResponse> RunApi::Route(const HttpRequest& request) {
  const std::vector<std::string> parts = PathParts(request.path);
  if (!parts.empty() && parts[0] == "admin") return Admin(request);
  const bool notes = parts.size() == 3 && parts[0] == "runs" && parts[2] == "notes";
  if (request.method == "POST" && !notes) return ErrorResponse(405, "this path is read-only");
  if (parts.empty() || (parts.size() == 1 && parts[0] == "about")) return About();
  if (parts[0] == "gateway" && parts.size() == 1 && options_.gateway) {
    HttpResponse response;
    response.body = options_.gateway();
    return response;
  }
  if (parts[0] == "runs") return parts.size() == 1 ? Runs() : RouteRun(request, parts);
  return NotFound("there is no " + request.path);
}

Result<HttpResponse> RunApi::RouteRun(const HttpRequest& request,
                                      const std::vector<std::string>& parts) {
  struct Rule {
    const char* name;
    size_t parts;
    Method method;
  };
  static const Rule kRules[] = {
      {"", 2, &RunApi::Run},
      {"series", 3, &RunApi::Series},
      {"pass_rate", 3, &RunApi::PassRate},
      {"config", 3, &RunApi::Config},
      {"notes", 3, &RunApi::Notes},
      {"search", 3, &RunApi::Search},
      {"episodes", 3, &RunApi::Episodes},
      {"episodes", 5, &RunApi::Episode},
      {"groups", 4, &RunApi::Group},
      {"tasks", 3, &RunApi::Tasks},
      {"tools", 3, &RunApi::Tools},
      {"faults", 3, &RunApi::Faults},
      {"release", 3, &RunApi::Release},
      {"guards", 3, &RunApi::Guards},
      {"timeline", 3, &RunApi::TimelineOf},
      {"fleet", 3, &RunApi::Fleet},
      {"sessions", 3, &RunApi::Sessions},
      {"sessions", 4, &RunApi::SessionDetail},
      {"memory", 3, &RunApi::Memory},
      {"memory", 4, &RunApi::MemoryCase},
  };
  for (const Rule& rule : kRules) {
    if (rule.parts != parts.size() || (rule.parts > 2 && parts[2] != rule.name)) continue;
    TM_ASSIGN_OR_RETURN(const std::shared_ptr<RunView> run, views_.Get(parts[1]));
    return (this->*rule.method)(request, *run);
  }
  return NotFound("there is no " + request.path);
}

HttpResponse RunApi::Admin(const HttpRequest& request) {
  if (!request.admin) return ErrorResponse(403, "a bearer token is required");
  if (request.path != "/api/admin/finish") return ErrorResponse(404, "there is no " + request.path);
  if (request.method != "POST") return ErrorResponse(405, "this path takes POST only");
  if (!options_.finish) return ErrorResponse(409, "this process is not training a run");
  options_.finish();
  return JsonResponse({{"finishing", true}});
}

HttpResponse RunApi::About() {
  Json actions = Json::array();
  if (options_.finish) actions.push_back("finish");
  return JsonResponse({{"program", "tidemill " + FullVersion()},
                       {"default_run", options_.default_run},
                       {"gateway", static_cast<bool>(options_.gateway)},
                       {"actions", actions}});
}

Result<HttpResponse> RunApi::Runs() {
  TM_ASSIGN_OR_RETURN(std::vector<RunInfo> runs, RunDirectory::List(options_.folder));
  std::stable_sort(runs.begin(), runs.end(), [](const RunInfo& a, const RunInfo& b) {
    return a.modified_ms > b.modified_ms;
  });
  const size_t total = runs.size();
  if (runs.size() > kListedMax) runs.resize(kListedMax);
  Json list = Json::array();
  size_t counted = 0;
  for (const RunInfo& info : runs) {
    const Result<RunDirectory> directory = RunDirectory::OpenToRead(options_.folder, info.name);
    if (!directory.ok()) continue;  // gone since
    Json entry = {{"name", info.name},
                  {"state", RunState(info, *directory)},
                  {"modified_ms", info.modified_ms},
                  {"summary", SummaryOf(*directory)}};
    AddNotes(*directory, entry);
    if (entry["summary"].is_null() && counted++ < kCountedMax) {
      const auto view = views_.Get(info.name);
      const auto reader = view.ok() ? (*view)->reader() : Result<RunReader*>(view.status());
      if (reader.ok()) {
        if (const Result<RunCounts> counts = (*reader)->Counts(); counts.ok()) {
          entry["counts"] = CountsJson(*counts);
        }
      }
    }
    list.push_back(std::move(entry));
  }
  return JsonResponse({{"total", total}, {"runs", list}});
}

Result<HttpResponse> RunApi::Run(const HttpRequest&, RunView& run) {
  const RunDirectory& directory = run.directory();
  TM_ASSIGN_OR_RETURN(RunReader * reader, run.reader());
  TM_ASSIGN_OR_RETURN(const RunCounts counts, reader->Counts());
  TM_ASSIGN_OR_RETURN(const std::vector<EvalResult> evals, reader->Evals());
  TM_ASSIGN_OR_RETURN(const std::vector<CheckpointRecord> checkpoints, reader->Checkpoints());
  TM_ASSIGN_OR_RETURN(const std::vector<RunInfo> runs, RunDirectory::List(options_.folder));
  Json json;
  json["name"] = directory.name();
  const auto info = std::find_if(runs.begin(), runs.end(),
                                 [&](const RunInfo& i) { return i.name == directory.name(); });
  json["state"] = info == runs.end() ? "unfinished" : RunState(*info, directory);
  json["counts"] = CountsJson(counts);
  Json& eval_list = json["evals"] = Json::array();
  for (const EvalResult& eval : evals) eval_list.push_back(EvalJson(eval));
  Json& checkpoint_list = json["checkpoints"] = Json::array();
  for (const CheckpointRecord& record : checkpoints) {
    checkpoint_list.push_back({{"step", record.step},
                               {"version", record.version},
                               {"path", record.path},
                               {"at_ms", record.at_ms}});
  }
  json["summary"] = SummaryOf(directory);
  AddNotes(directory, json);
  TM_RETURN_IF_ERROR(run.WithMetrics([&](const MetricsFile& metrics) {
    json["tick"] = metrics.Series("tick").Newest();
    json["step"] = metrics.Series("step").Newest();
    json["warnings"] = metrics.warnings();
    json["offset"] = metrics.offset();
  }));
  return JsonResponse(json);
}

Result<HttpResponse> RunApi::Series(const HttpRequest& request, RunView& run) {
  TM_ASSIGN_OR_RETURN(const uint64_t points, Bounded(request, "points", 600, 4000));
  const std::string* prefix = request.Find("prefix");
  const std::vector<std::string> prefixes =
      prefix == nullptr ? std::vector<std::string>() : BetweenCommas(*prefix);
  Json json;
  TM_RETURN_IF_ERROR(run.WithMetrics([&](const MetricsFile& metrics) {
    json["tick"] = metrics.Series("tick").ToJson(points, prefixes);
    json["step"] = metrics.Series("step").ToJson(points, prefixes);
    Json& remarks = json["remarks"] = Json::array();
    for (const std::string& line : metrics.remarks()) remarks.push_back(Json::parse(line));
    json["offset"] = metrics.offset();
    json["bad_lines"] = metrics.bad_lines();
  }));
  return JsonResponse(json);
}

Result<HttpResponse> RunApi::PassRate(const HttpRequest& request, RunView& run) {
  TM_ASSIGN_OR_RETURN(const uint64_t points, Bounded(request, "points", 60, 1000));
  TM_ASSIGN_OR_RETURN(const v1::Purpose given, PurposeParameter(request));
  const v1::Purpose purpose = given == v1::PURPOSE_UNSPECIFIED ? v1::PURPOSE_TRAIN : given;
  const std::string* task = request.Find("task");
  TM_ASSIGN_OR_RETURN(RunReader * reader, run.reader());
  TM_ASSIGN_OR_RETURN(const std::vector<PassRatePoint> intervals,
                      reader->PassRateOverTime(task == nullptr ? "" : *task, purpose,
                                               static_cast<uint32_t>(points)));
  Json list = Json::array();
  for (const PassRatePoint& point : intervals) {
    const Share share = WilsonShare(point.solved, point.episodes);
    const bool any = point.episodes > 0;
    list.push_back({{"from_ms", point.from_ms},
                    {"episodes", point.episodes},
                    {"solved", point.solved},
                    {"pass_rate", any ? Json(share.rate) : Json()},
                    {"low", any ? Json(share.low) : Json()},
                    {"high", any ? Json(share.high) : Json()},
                    {"reward", any ? Json(point.mean_reward) : Json()}});
  }
  return JsonResponse({{"points", list}});
}

Result<HttpResponse> RunApi::Config(const HttpRequest&, RunView& run) {
  TM_ASSIGN_OR_RETURN(const std::string text, run.directory().ReadConfig());
  auto parsed = [](const std::map<std::string, std::string>& flat) {
    Json values = Json::object();
    for (const auto& [key, value] : flat) values[key] = Json::parse(value, nullptr, false);
    return values;
  };
  Json json = {{"text", text}};
  const auto flat = FlattenToml(text, run.directory().config_path());
  json["values"] = flat.ok() ? parsed(*flat) : Json::object();
  json["error"] = flat.ok() ? Json() : Json(flat.status().message());
  const auto defaults = FlattenToml(options_.default_config_toml, "defaults");
  json["defaults"] = defaults.ok() ? parsed(*defaults) : Json::object();
  return JsonResponse(json);
}

// The server lets nobody post who may not: a page elsewhere, or one without a token where there are
// tokens.
Result<HttpResponse> RunApi::Notes(const HttpRequest& request, RunView& run) {
  const RunDirectory& directory = run.directory();
  if (request.method == "POST") {
    const Json json = Json::parse(request.body, nullptr, false);
    const auto is_text = [](const Json& value) { return value.is_string(); };
    if (!json.is_object() || !json.contains("tags") || !json["tags"].is_array() ||
        !std::all_of(json["tags"].begin(), json["tags"].end(), is_text) || !json.contains("note") ||
        !json["note"].is_string()) {
      return Invalid("the body must be {\"tags\": [\"..\"], \"note\": \"..\"}");
    }
    TM_RETURN_IF_ERROR(WriteRunNotes(
        directory.path(),
        {json["tags"].get<std::vector<std::string>>(), json["note"].get<std::string>()}));
  }
  Json json = Json::object();
  AddNotes(directory, json);
  return JsonResponse(json);
}

}  // namespace tidemill
