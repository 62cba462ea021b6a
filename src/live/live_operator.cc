#include "live/live_operator.h"

#include <nlohmann/json.hpp>

#include "core/log.h"
#include "core/secret.h"

namespace tidemill {
namespace {

constexpr std::string_view kBearerPrefix = "Bearer ";

}  // namespace

std::string OperatorToken(const std::string& secret) {
  return TokenFor(secret, "live operator");
}

Result<LiveOperator> LiveOperator::Make(const std::string& run_path) {
  TM_ASSIGN_OR_RETURN(const std::string secret, KeepSecret(run_path + "/secret"));
  return LiveOperator(OperatorToken(secret));
}

Result<EraseWhat> ParseEraseWhat(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  EraseWhat what;
  if (json.is_object() && json.size() == 1) {
    if (const auto it = json.find("session"); it != json.end() && it->is_number_unsigned()) {
      what.session = it->get<uint64_t>();
      return what;
    }
    if (const auto it = json.find("tenant"); it != json.end() && it->is_string()) {
      what.tenant = it->get<std::string>();
      if (!what.tenant.empty()) return what;
    }
  }
  return Invalid("must be {\"session\": N} or {\"tenant\": \"NAME\"}");
}

LiveOperator::Deed DeleteDeed(LiveRun& run) {
  return [&run](const std::string& body) -> Result<std::string> {
    TM_ASSIGN_OR_RETURN(const EraseWhat what, ParseEraseWhat(body));
    TM_ASSIGN_OR_RETURN(const EraseReport report, run.Erase(what));
    LogInfo("sessions were deleted", {{"sessions", report.erased.sessions.size()},
                                      {"used_by_steps", report.erased.uses.size()},
                                      {"left_in_files", report.found.size()}});
    return EraseJson(report);
  };
}

LiveOperator::Deed QuarantineDeed(LiveRun& run) {
  return [&run](const std::string& body) -> Result<std::string> {
    const auto json = nlohmann::json::parse(body, nullptr, false);
    if (!json.is_object() || json.size() != 2 || !json.contains("tenant") ||
        !json["tenant"].is_string() || !json.contains("train") || !json["train"].is_boolean()) {
      return Invalid("must be {\"tenant\": \"NAME\", \"train\": true or false}");
    }
    const std::string tenant = json["tenant"];
    TM_RETURN_IF_ERROR(run.Decide(tenant, json["train"]));
    LogInfo("a quarantine was ended", {{"tenant", tenant}, {"train", json["train"].get<bool>()}});
    return run.QuarantineJson();
  };
}

LiveOperator::Deed RollbackDeed(ReleaseDesk& desk) {
  return [&desk](const std::string& body) -> Result<std::string> {
    TM_ASSIGN_OR_RETURN(const std::optional<uint64_t> to, ParseRollback(body));
    TM_RETURN_IF_ERROR(desk.Rollback(to));
    LogInfo("a rollback was asked for", {{"to", to.value_or(0)}});
    return desk.Json();
  };
}

HttpResponse LiveOperator::Answer(const HttpRequest& request) const {
  const std::string_view given = request.Header("authorization");
  if (given.substr(0, kBearerPrefix.size()) != kBearerPrefix ||
      !SameToken(given.substr(kBearerPrefix.size()), token_)) {
    return ErrorResponse(401, "only the operator, who can read the run's secret, may ask this");
  }
  if (request.method != "POST") return ErrorResponse(405, "ask with POST");
  const auto deed = deeds_.find(request.path);
  if (deed == deeds_.end()) return ErrorResponse(404, "this run does nothing at " + request.path);
  const Result<std::string> done = deed->second(request.body);
  if (!done.ok()) return ErrorResponse(done.status());
  HttpResponse response;
  response.body = *done;
  return response;
}

}  // namespace tidemill
