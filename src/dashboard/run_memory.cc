// The memory of a run: what was learned when, what cases were worth, how the bank grew and what it
// forgot.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/enum_name.h"
#include "core/text.h"
#include "dashboard/run_api.h"
#include "dashboard/run_json.h"
#include "memory/memory_history.h"
#include "store/case_reader.h"
#include "store/tool_stats.h"

namespace tidemill {
namespace {

using Json = ApiJson;

constexpr std::chrono::milliseconds kMemoryBudget{150};
constexpr uint64_t kCasesShown = 100;
constexpr uint64_t kCasesMax = 1000;
constexpr size_t kForgottenShown = 50;
constexpr size_t kScopesShown = 200;
constexpr size_t kLineBytes = 200;
constexpr size_t kCaseBytes = size_t{1} << 16;

Json RecordJson(uint64_t number, const v1::CaseRecord& record, size_t bytes) {
  return {{"number", number},
          {"scope", record.scope()},
          {"task", record.id().task()},
          {"group", record.id().group()},
          {"member", record.id().member()},
          {"at_ms", record.at_ms()},
          {"solved", record.solved()},
          {"prompt", ToUtf8(Beginning(record.prompt(), bytes))},
          {"answer", ToUtf8(Beginning(record.answer(), bytes))}};
}

Json CaseJson(uint64_t number, const Case& one, const CaseBank& bank, size_t bytes) {
  Json json = RecordJson(number, one.record, bytes);
  const CaseValues::Interval worth = bank.values().Worth(number);
  const CaseWorth* uses = bank.values().Find(number);
  json["copies"] = one.copies;
  json["newest_ms"] = one.newest_ms;
  json["outdated"] = one.newest <= one.void_until;
  json["shown"] = uses != nullptr ? uses->shown : 0;
  json["shown_solved"] = uses != nullptr ? uses->shown_solved : 0;
  json["worth"] = worth.mean;
  json["worth_half"] = worth.half;
  return json;
}

struct CaseOrder {
  enum class By { kNewest, kBest, kWorst, kShown } by = By::kNewest;

  double Key(uint64_t number, const CaseBank& bank) const {
    const CaseWorth* uses = bank.values().Find(number);
    switch (by) {
      case By::kNewest:
        return static_cast<double>(bank.Find(number)->newest_ms);
      case By::kBest:
        return bank.values().Worth(number).mean;
      case By::kWorst:
        return -bank.values().Worth(number).mean;
      case By::kShown:
        break;
    }
    return uses != nullptr ? static_cast<double>(uses->shown) : 0;
  }
};

Result<CaseOrder> OrderParameter(const HttpRequest& request) {
  const std::string* sort = request.Find("sort");
  if (sort == nullptr || *sort == "newest") return CaseOrder{CaseOrder::By::kNewest};
  if (*sort == "best") return CaseOrder{CaseOrder::By::kBest};
  if (*sort == "worst") return CaseOrder{CaseOrder::By::kWorst};
  if (*sort == "shown") return CaseOrder{CaseOrder::By::kShown};
  return Invalid("parameter \"sort\" must be newest, best, worst or shown");
}

Json GrowthJson(const MemoryHistory& history) {
  Json growth = {{"at_ms", Json::array()},
                 {"learned", Json::array()},
                 {"cases", Json::array()},
                 {"forgotten", Json::array()}};
  for (const GrowthPoint& point : history.Growth()) {
    growth["at_ms"].push_back(point.at_ms);
    growth["learned"].push_back(point.learned);
    growth["cases"].push_back(point.cases);
    growth["forgotten"].push_back(point.forgotten);
  }
  return growth;
}

// With what they said, which is still in the database unless it was erased.
Result<Json> ForgottenJson(const MemoryHistory& history, Database& db) {
  Json list = Json::array();
  for (const ForgottenCase& gone : history.gone()) {
    if (list.size() == kForgottenShown) break;
    TM_ASSIGN_OR_RETURN(const CasePage page, ReadCasePage(db, gone.number - 1, 1));
    const bool there = !page.cases.empty() && page.cases[0].number == gone.number;
    Json one = there ? RecordJson(gone.number, page.cases[0].record, kLineBytes)
                     : Json{{"number", gone.number}};
    one["forgotten_ms"] = gone.at_ms;
    one["worth"] = gone.worth;
    list.push_back(std::move(one));
  }
  return list;
}

// Of the cases asked for, the first in that order.
Json CasesJson(const CaseBank& bank, const std::string* scope, CaseOrder order, uint64_t most,
               Json& scopes) {
  std::vector<std::pair<double, uint64_t>> found;
  std::map<std::string, uint64_t> counts;
  for (const auto& [number, one] : bank.cases()) {
    ++counts[one.record.scope()];
    if (scope != nullptr && one.record.scope() != *scope) continue;
    found.emplace_back(order.Key(number, bank), number);
  }
  std::sort(found.rbegin(), found.rend());
  Json cases = Json::array();
  for (const auto& [key, number] : found) {
    if (cases.size() == most) break;
    cases.push_back(CaseJson(number, *bank.Find(number), bank, kLineBytes));
  }
  for (const auto& [name, count] : counts) {
    if (scopes.size() == kScopesShown) break;
    scopes.push_back({{"scope", name}, {"cases", count}});
  }
  return cases;
}

}  // namespace

Result<HttpResponse> RunApi::Memory(const HttpRequest& request, RunView& run) {
  TM_ASSIGN_OR_RETURN(const CaseOrder order, OrderParameter(request));
  TM_ASSIGN_OR_RETURN(const std::optional<uint64_t> limit, UintParameter(request, "limit"));
  if (limit && (*limit < 1 || *limit > kCasesMax)) {
    return Invalid("parameter \"limit\" must be 1 to " + std::to_string(kCasesMax));
  }
  Json json;
  TM_RETURN_IF_ERROR(run.WithMemory([&](Database& db, MemoryHistory& history) -> Status {
    TM_RETURN_IF_ERROR(history.Advance(db, kMemoryBudget));
    Json scopes = Json::array();
    Json cases = CasesJson(history.bank(), request.Find("scope"), order,
                           limit.value_or(kCasesShown), scopes);
    json = {{"complete", history.Complete()},
            {"learned", history.learned()},
            {"merged", history.merged()},
            {"forgotten", history.forgotten()},
            {"cases", history.bank().cases().size()},
            {"growth", GrowthJson(history)},
            {"scopes", std::move(scopes)},
            {"list", std::move(cases)}};
    TM_ASSIGN_OR_RETURN(json["gone"], ForgottenJson(history, db));
    return Ok();
  }));
  return JsonResponse(json);
}

Result<HttpResponse> RunApi::MemoryCase(const HttpRequest& request, RunView& run) {
  const std::string text = PathParts(request.path).back();
  HttpRequest part;
  part.query["number"] = text;
  TM_ASSIGN_OR_RETURN(const std::optional<uint64_t> number, UintParameter(part, "number"));
  Json json;
  TM_RETURN_IF_ERROR(run.WithMemory([&](Database& db, MemoryHistory& history) -> Status {
    TM_RETURN_IF_ERROR(history.Advance(db, kMemoryBudget));
    if (number.value_or(0) == 0) return NotFound("there is no case 0");
    TM_ASSIGN_OR_RETURN(const CasePage page, ReadCasePage(db, *number - 1, 1));
    if (page.cases.empty() || page.cases[0].number != *number) {
      return NotFound("there is no case " + text + ": it was never there, or was erased");
    }
    const v1::CaseRecord& record = page.cases[0].record;
    const Case* one = history.bank().Find(*number);
    json = one != nullptr ? CaseJson(*number, *one, history.bank(), kCaseBytes)
                          : RecordJson(*number, record, kCaseBytes);
    json["in_bank"] = one != nullptr;  // not: forgotten, a copy of another, or not yet read
    json["tools"] = Json::array();
    for (const v1::ToolNote& tool : record.tools()) {
      json["tools"].push_back({{"turn", tool.turn()},
                               {"tool", tool.tool()},
                               {"arguments", ToUtf8(Beginning(tool.arguments_json(), kLineBytes))},
                               {"outcome", EnumName(tool.outcome())},
                               {"text", ToUtf8(Beginning(tool.text(), kLineBytes))}});
    }
    json["shown_cases"] = Json::array();
    for (const uint64_t shown : record.shown()) json["shown_cases"].push_back(shown);
    return Ok();
  }));
  return JsonResponse(json);
}

}  // namespace tidemill
