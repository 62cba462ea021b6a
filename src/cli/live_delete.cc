#include "cli/live_delete.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "core/files.h"
#include "core/secret.h"
#include "core/text.h"
#include "http/http_ask.h"
#include "live/erase.h"
#include "live/live_operator.h"
#include "run/run_path.h"
#include "store/run_db.h"
#include "store/run_directory.h"

namespace tidemill {
namespace {

using DeleteJson = nlohmann::ordered_json;

constexpr int kNotProven = 3;

DeleteJson WhatJson(const EraseWhat& what) {
  if (what.session) return {{"session", *what.session}};
  return {{"tenant", what.tenant}};
}

// Of a run that nobody writes.
Result<std::string> DeleteFromFiles(const RunDirectory& directory, const EraseWhat& what) {
  const RealClock clock;
  {
    // Brings an older schema up to date.
    TM_ASSIGN_OR_RETURN(const std::unique_ptr<RunDb> db, RunDb::Open(directory.db_path(), clock));
  }
  TM_ASSIGN_OR_RETURN(const EraseReport report, EraseFromRun(directory.path(), what));
  return EraseJson(report);
}

Result<std::string> Delete(const LiveDeleteArguments& arguments) {
  const auto [folder, name] = SplitRunPath(arguments.run, arguments.folder);
  const auto directory = RunDirectory::OpenToResume(folder, name);
  if (directory.ok()) return DeleteFromFiles(*directory, arguments.what);
  if (directory.status().code() != Code::kUnavailable) return directory.status();
  auto told = AskLiveRun(folder + "/" + name, "/live/delete", WhatJson(arguments.what).dump());
  if (!told.ok() && told.status().code() == Code::kUnavailable) {
    return told.status().WithContext(directory.status().message());
  }
  return told;
}

// Sessions whose prompts hold cases of what was deleted.
DeleteJson ShownTo(const DeleteJson& json) {
  return json.value("shown_to", DeleteJson::array());
}

void PrintReport(const DeleteJson& json) {
  fmt::print("deleted    {} sessions", json["sessions"].size());
  for (const auto& [name, count] : json["deleted"].items()) {
    fmt::print(", {} {}", count.get<uint64_t>(), name);
  }
  for (const auto& failed : json["failed"]) {
    fmt::print("\nNOT DELETED {}", ForTerminal(failed.get<std::string>()));
  }
  const DeleteJson& searched = json["searched"];
  fmt::print("\nsearched   {} files, {} bytes, for {} pieces of what was deleted: {}\n",
             searched["files"].get<uint64_t>(), searched["bytes"].get<uint64_t>(),
             searched["traces"].get<uint64_t>(),
             searched["found"].empty() ? "none is left" : "SOME ARE LEFT");
  for (const auto& file : searched["found"]) {
    fmt::print("  in {}\n", ForTerminal(file.get<std::string>()));
  }
  for (const auto& file : searched["unread"]) {
    fmt::print("  not searched: {}\n", ForTerminal(file.get<std::string>()));
  }
  if (const DeleteJson shown = ShownTo(json); !shown.empty()) {
    fmt::print("shown      cases of it stand in the prompts of other sessions; delete these, too:");
    for (const auto& session : shown) fmt::print(" {}", session.get<uint64_t>());
    fmt::print("\n");
  }
  if (json["used_by"].empty()) {
    fmt::print("training   no step had used it\n");
    return;
  }
  fmt::print("training   {} steps had used it; their weights stay as they are:\n",
             json["used_by"].size());
  for (const auto& use : json["used_by"]) {
    fmt::print("  step {}, version {}{}\n", use["step"].get<uint64_t>(),
               use["version"].get<uint64_t>(),
               use["abandoned"].get<bool>() ? " (left behind by a resume)" : "");
  }
  const DeleteJson& before = json["checkpoint_before"];
  if (before.is_null()) {
    fmt::print("before     no checkpoint from before these steps is left\n");
  } else {
    fmt::print("before     checkpoint of step {}, version {}: {}\n", before["step"].get<uint64_t>(),
               before["version"].get<uint64_t>(), ForTerminal(before["path"].get<std::string>()));
  }
}

}  // namespace

Result<std::string> AskLiveRun(const std::string& run_path, const std::string& path,
                               const std::string& body) {
  const auto url = ReadFileBounded(GatewayFile(run_path), 4096);
  if (!url.ok()) return Unavailable("it has no gateway to ask; stop it first");
  HttpQuestion question;
  question.url = url->substr(0, url->find('\n'));
  question.path = path;
  question.body = body;
  TM_ASSIGN_OR_RETURN(const std::string secret, KeepSecret(run_path + "/secret"));
  question.bearer = OperatorToken(secret);
  TM_ASSIGN_OR_RETURN(const HttpResponse response, AskHttp(question));
  if (response.status == 200) return response.body;
  const auto json = DeleteJson::parse(response.body, nullptr, false);
  const bool told = json.is_object() && json.contains("error") && json["error"].is_string();
  const std::string why = told ? json["error"].get<std::string>() : response.body;
  if (response.status == 404) return NotFound(why);
  return response.status == 400 ? Invalid(why) : Internal(why);
}

int LiveDelete(const LiveDeleteArguments& arguments) {
  if (arguments.what.session.has_value() == !arguments.what.tenant.empty()) {
    return Wrong(Invalid("give --session N or --tenant NAME"));
  }
  const Result<std::string> done = Delete(arguments);
  if (!done.ok()) return Fail(done.status());
  const auto json = DeleteJson::parse(*done, nullptr, false);
  if (!json.is_object() || !json.contains("searched")) {
    return Fail(Internal("the run's answer is none: " + Beginning(*done, 200)));
  }
  arguments.json ? PrintJson(json) : PrintReport(json);
  const DeleteJson& searched = json["searched"];
  const bool proven = searched["found"].empty() && searched["unread"].empty() &&
                      json["failed"].empty() && ShownTo(json).empty();
  return proven ? 0 : kNotProven;
}

}  // namespace tidemill
