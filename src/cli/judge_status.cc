#include "cli/judge_status.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "core/files.h"
#include "judge/judge_check.h"

namespace tidemill {
namespace {

using FiguresJson = nlohmann::ordered_json;

// The last line of metrics.jsonl that holds counters.
Result<FiguresJson> NewestCounters(const std::string& path) {
  constexpr size_t kMetricsMax = size_t{1} << 31;
  TM_ASSIGN_OR_RETURN(const std::string text, ReadFileBounded(path, kMetricsMax));
  for (size_t end = text.size(); end > 0;) {
    const size_t begin = text.rfind('\n', end - 1);
    const size_t from = begin == std::string::npos ? 0 : begin + 1;
    FiguresJson line = FiguresJson::parse(text.substr(from, end - from), nullptr, false);
    if (line.is_object() && line.contains("verdicts")) return line;
    if (begin == std::string::npos) break;
    end = begin;
  }
  return NotFound(path + " holds no figures yet");
}

double Figure(const FiguresJson& counters, const std::string& key) {
  const auto it = counters.find(key);
  return it != counters.end() && it->is_number() ? it->get<double>() : 0;
}

FiguresJson JudgesJson(const FiguresJson& counters) {
  const auto figure = [&](const char* key) { return Figure(counters, key); };
  const double asked = figure("judge_calls"), failed = figure("judge_failed");
  const double decided = figure("judgements");
  FiguresJson json = {
      {"in_progress", figure("judging")},
      {"waiting", figure("judge_waiting")},
      {"judged", figure("judged")},
      {"unavailable", figure("judge_unavailable")},
      {"asked", asked},
      {"cached", figure("judge_cached")},
      {"failed", failed},
      {"malformed", figure("judge_malformed")},
      {"votes", std::max(0.0, asked + figure("judge_cached") - failed - figure("judge_malformed"))},
      {"questions", decided},
      {"split", figure("judge_split")},
      {"second_opinions", figure("judge_second")},
      {"agreement", nullptr},
      {"answer_seconds", nullptr},
      {"tokens_in", figure("judge_tokens_in")},
      {"tokens_out", figure("judge_tokens_out")},
      {"cost", figure("judge_cost_millionths") / 1e6}};
  if (decided > 0) json["agreement"] = 1 - figure("judge_split") / decided;
  if (asked > 0) json["answer_seconds"] = figure("judge_micros") / 1e6 / asked;
  return json;
}

FiguresJson AuditJson(const FiguresJson& counters, const std::string& scorer) {
  const auto figure = [&](const char* key) {
    return Figure(counters, "audit_" + scorer + "_" + key);
  };
  const double right = figure("accept_pass"), accepted = right + figure("accept_fail");
  const CaseShare precision{static_cast<uint64_t>(right), static_cast<uint64_t>(accepted)};
  FiguresJson json = {{"accept_pass", right},
                      {"accept_fail", figure("accept_fail")},
                      {"reject_pass", figure("reject_pass")},
                      {"reject_fail", figure("reject_fail")},
                      {"precision", nullptr},
                      {"tolerated", nullptr},
                      {"to_alarm", figure("level") / 100},
                      {"alarms", figure("alarms")},
                      {"trusted", figure("distrusted") == 0}};
  // Older programs did not write it.
  if (figure("bound_millionths") > 0) json["tolerated"] = figure("bound_millionths") / 1e6;
  if (accepted > 0) {
    json["precision"] = {{"value", precision.value()},
                         {"n", precision.count},
                         {"ci95", {precision.low(), precision.high()}}};
  }
  return json;
}

// By the scorers that are audited.
FiguresJson AuditsJson(const FiguresJson& counters) {
  constexpr std::string_view kBegin = "audit_", kEnd = "_accept_pass";
  FiguresJson audits = FiguresJson::object();
  for (const auto& [key, value] : counters.items()) {
    if (key.size() <= kBegin.size() + kEnd.size() || !key.starts_with(kBegin) ||
        !key.ends_with(kEnd))
      continue;
    const std::string scorer = key.substr(kBegin.size(), key.size() - kBegin.size() - kEnd.size());
    audits[scorer] = AuditJson(counters, scorer);
  }
  return audits;
}

void PrintJudges(const FiguresJson& judges) {
  const auto number = [&](const char* key) { return judges[key].get<double>(); };
  std::printf("judges\n");
  std::printf("  queue      %.0f in progress, %.0f questions wait\n", number("in_progress"),
              number("waiting"));
  std::printf("  judged     %.0f; %.0f were unavailable\n", number("judged"),
              number("unavailable"));
  std::printf("  votes      %.0f (%.0f from the cache); %.0f failed, %.0f did not parse\n",
              number("votes"), number("cached"), number("failed"), number("malformed"));
  if (!judges["agreement"].is_null()) {
    std::printf(
        "  agreement  %.2f %%: votes split on %.0f of %.0f questions, %.0f second opinions\n",
        100 * number("agreement"), number("split"), number("questions"), number("second_opinions"));
  }
  if (!judges["answer_seconds"].is_null())
    std::printf("  latency    %.3f s an answer (mean)\n", number("answer_seconds"));
  std::printf("  cost       %.4f: %.0f tokens read, %.0f written\n", number("cost"),
              number("tokens_in"), number("tokens_out"));
}

void PrintAudit(const std::string& scorer, const FiguresJson& audit) {
  const auto number = [&](const char* key) { return audit[key].get<double>(); };
  std::printf("audit of %s: %s\n", scorer.c_str(),
              audit["trusted"].get<bool>() ? "trusted" : "not trusted, execution decides");
  std::printf("  accepted   %.0f pass, %.0f fail\n", number("accept_pass"), number("accept_fail"));
  std::printf("  rejected   %.0f pass, %.0f fail\n", number("reject_pass"), number("reject_fail"));
  const FiguresJson& precision = audit["precision"];
  if (!precision.is_null()) {
    std::printf("  precision  %.2f %% (%.2f to %.2f)", 100 * precision["value"].get<double>(),
                100 * precision["ci95"][0].get<double>(), 100 * precision["ci95"][1].get<double>());
    if (!audit["tolerated"].is_null())
      std::printf("; tolerated from %.2f %%", 100 * number("tolerated"));
    std::printf("\n");
  }
  std::printf("  test       at %.0f %% of its alarm threshold; %.0f alarms\n",
              100 * number("to_alarm"), number("alarms"));
}

}  // namespace

int ShowJudges(const std::string& runs, const std::string& run, bool json) {
  const auto counters = NewestCounters(runs + "/" + run + "/metrics.jsonl");
  if (!counters.ok()) return Fail(counters.status());
  FiguresJson shown = FiguresJson::object();
  if (counters->contains("judged")) shown["judges"] = JudgesJson(*counters);
  if (const FiguresJson audits = AuditsJson(*counters); !audits.empty()) shown["audits"] = audits;
  if (json) {
    PrintJson(shown);
    return 0;
  }
  if (shown.empty()) std::printf("no judge and no audit is configured in %s\n", run.c_str());
  if (shown.contains("judges")) PrintJudges(shown["judges"]);
  if (shown.contains("audits")) {
    for (const auto& [scorer, audit] : shown["audits"].items()) PrintAudit(scorer, audit);
  }
  return 0;
}

}  // namespace tidemill
