// The question to an external scorer, and how its answer is read.
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/enum_name.h"
#include "core/text.h"
#include "reward/proof_port.h"
#include "reward/scorer_port.h"

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kShownMax = 200;
constexpr size_t kCommentMax = 4096;
constexpr size_t kPartsMax = 64;
constexpr size_t kTurnsMax = 4096;

Json ToolJson(const v1::ToolResult& result) {
  Json json;
  if (result.tests_total() > 0) {
    json["tests_passed"] = result.tests_passed();
    json["tests_total"] = result.tests_total();
    json["compiled"] = result.compiled();
  }
  json["cpu_ms"] = result.cpu_ms();
  json["wall_ms"] = result.wall_ms();
  json["diagnostics"] = Json::array();
  for (const v1::Diagnostic& d : result.diagnostics()) {
    json["diagnostics"].push_back({{"file", d.file()},
                                   {"line", d.line()},
                                   {"severity", d.severity()},
                                   {"message", d.message()}});
  }
  return json;
}

Json PartsJson(const CommandAnswer& answer) {
  Json json = Json::object();
  for (const auto& [name, part] : answer.parts)
    json[name] = {{"score", part.score}, {"comment", part.comment}};
  return json;
}

// The value as it was written, short enough for a message.
std::string Shown(const Json& value) {
  return Beginning(value.dump(-1, ' ', false, Json::error_handler_t::replace), kShownMax);
}

Status Wrong(const std::string& field, const std::string& expected, const Json& got) {
  return Invalid("\"" + field + "\" must be " + expected + ", got " + Shown(got));
}

Status ReadNumber(const Json& value, const std::string& field, double low, double high,
                  double* out) {
  const bool number = value.is_number() && std::isfinite(value.get<double>());
  if (!number || value.get<double>() < low || value.get<double>() > high) {
    const auto shown = [](double x) { return std::to_string(static_cast<int64_t>(x)); };
    return Wrong(field, "a number from " + shown(low) + " to " + shown(high), value);
  }
  *out = value.get<double>();
  return Ok();
}

Status ReadComment(const Json& object, const std::string& field, std::string* out) {
  if (!object.contains("comment")) return Ok();
  if (!object["comment"].is_string()) return Wrong(field, "a string", object["comment"]);
  *out = Beginning(object["comment"].get<std::string>(), kCommentMax);
  return Ok();
}

// {"style": 0.5} or {"style": {"score": 0.5, "comment": ".."}}
Status ReadParts(const Json& parts, CommandAnswer* answer) {
  if (!parts.is_object()) return Wrong("parts", "an object", parts);
  if (parts.size() > kPartsMax) {
    return Invalid("\"parts\" must have at most " + std::to_string(kPartsMax) + " members, got " +
                   std::to_string(parts.size()));
  }
  for (const auto& [name, value] : parts.items()) {
    CommandAnswer::Part& part = answer->parts[name];
    const std::string field = "parts." + name;
    if (!value.is_object()) {
      TM_RETURN_IF_ERROR(ReadNumber(value, field, 0, 1, &part.score));
      continue;
    }
    if (!value.contains("score")) return Invalid("\"" + field + ".score\" is missing");
    TM_RETURN_IF_ERROR(ReadNumber(value["score"], field + ".score", 0, 1, &part.score));
    TM_RETURN_IF_ERROR(ReadComment(value, field + ".comment", &part.comment));
  }
  return Ok();
}

Status ReadTurnRewards(const Json& rewards, CommandAnswer* answer) {
  if (!rewards.is_array() || rewards.size() > kTurnsMax)
    return Wrong("turn_rewards", "a list of numbers", rewards);
  for (const Json& reward : rewards) {
    TM_RETURN_IF_ERROR(
        ReadNumber(reward, "turn_rewards", -1, 1, &answer->turn_rewards.emplace_back()));
  }
  return Ok();
}

// {"planner": 0.5}
Status ReadByRole(const Json& rewards, CommandAnswer* answer) {
  if (!rewards.is_object() || rewards.size() > kPartsMax) {
    return Wrong("by_role", "an object of at most " + std::to_string(kPartsMax) + " roles",
                 rewards);
  }
  for (const auto& [role, value] : rewards.items()) {
    TM_RETURN_IF_ERROR(ReadNumber(value, "by_role." + role, -1, 1, &answer->by_role[role]));
  }
  return Ok();
}

}  // namespace

std::string MakeQuestion(const Need& need, const v1::ScoreRequest& request,
                         const ScoreEvidence& evidence) {
  Json json;
  json["scorer"] = need.name;
  json["look"] = need.look;
  json["focus"] = need.focus;
  json["task"] = request.id().task();
  json["group"] = request.id().group();
  json["member"] = request.id().member();
  json["prompt"] = request.prompt();
  json["submission"] = request.submission();
  json["end"] = EnumName(request.end());
  json["turns"] = request.turns();
  json["generated_tokens"] = request.generated_tokens();
  if (!request.turn_roles().empty()) {
    json["turn_roles"] =
        std::vector<std::string>(request.turn_roles().begin(), request.turn_roles().end());
  }
  json["files"] = Json::array();
  for (const v1::File& file : request.tree().files()) {
    Json& entry = json["files"].emplace_back();
    entry["path"] = file.path();
    if (file.has_content())
      entry["content"] = file.content();
    else
      entry["hash"] = file.hash();
  }
  // Of no concern to a judge, who must not know the right answer.
  if (need.name == kProofQuestion && request.grading().has_specification()) {
    const v1::Specification& specification = request.grading().specification();
    json["sources"] = Json(std::vector<std::string>(request.grading().sources().begin(),
                                                    request.grading().sources().end()));
    json["specification"] = {{"source", specification.source()},
                             {"function", specification.function()},
                             {"low", specification.low()},
                             {"high", specification.high()}};
  }
  if (!request.metadata_json().empty()) {
    json["metadata"] = Json::parse(request.metadata_json(), nullptr, false);
    if (json["metadata"].is_discarded()) json["metadata"] = nullptr;
  }
  json["tools"] = Json::object();
  for (const auto& [key, result] : evidence.tools) json["tools"][key] = ToolJson(result);
  if (need.look > 1) {
    if (const CommandAnswer* before = evidence.Answer(need.name))
      json["before"] = PartsJson(*before);
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<CommandAnswer> ParseAnswer(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) {
    return Invalid("the answer must be one JSON object, got \"" + Beginning(text, kShownMax) +
                   "\"");
  }
  if (json.contains("error")) return Unavailable("it reported: " + Shown(json["error"]));
  CommandAnswer answer;
  if (json.contains("score")) {
    answer.has_score = true;
    TM_RETURN_IF_ERROR(ReadNumber(json["score"], "score", -1, 1, &answer.score));
  }
  TM_RETURN_IF_ERROR(ReadComment(json, "comment", &answer.comment));
  if (json.contains("version")) {
    double version = 0;
    const Json& given = json["version"];
    if (!given.is_number_integer() || !ReadNumber(given, "version", 1, 1e9, &version).ok())
      return Wrong("version", "a whole number from 1 to 1000000000", given);
    answer.version = static_cast<uint32_t>(version);
  }
  if (json.contains("parts")) TM_RETURN_IF_ERROR(ReadParts(json["parts"], &answer));
  if (json.contains("turn_rewards"))
    TM_RETURN_IF_ERROR(ReadTurnRewards(json["turn_rewards"], &answer));
  if (json.contains("by_role")) TM_RETURN_IF_ERROR(ReadByRole(json["by_role"], &answer));
  if (!answer.has_score && answer.parts.empty())
    return Invalid("the answer has neither \"score\" nor \"parts\"");
  return answer;
}

}  // namespace tidemill
