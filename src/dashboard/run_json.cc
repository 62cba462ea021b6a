#include "dashboard/run_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/enum_name.h"
#include "core/text.h"
#include "store/tool_stats.h"

namespace tidemill {
namespace {

using Json = ApiJson;

constexpr int kTurnTokensMax = 32'768;        // shown of one turn
constexpr size_t kTextMax = size_t{1} << 18;  // shown of one text

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

std::string Cut(std::string text) {
  return text.size() <= kTextMax ? std::move(text) : Beginning(text, kTextMax) + "\n[cut]";
}

// The text each token adds. Part of a character waits for the token that completes it.
Json TokenTexts(const google::protobuf::RepeatedField<uint32_t>& ids,
                const std::optional<Tokenizer>& tokenizer) {
  Json texts = Json::array();
  const int count = std::min(ids.size(), kTurnTokensMax);
  if (!tokenizer) {
    for (int i = 0; i < count; ++i) texts.push_back(std::to_string(ids[i]) + " ");
    return texts;
  }
  StreamDecoder decoder(*tokenizer);
  for (int i = 0; i < count; ++i) texts.push_back(decoder.Push(static_cast<TokenId>(ids[i])));
  const std::string rest = decoder.Finish();
  if (!rest.empty() && count > 0) texts.back() = texts.back().get<std::string>() + rest;
  return texts;
}

std::string PlainText(const google::protobuf::RepeatedField<uint32_t>& ids,
                      const std::optional<Tokenizer>& tokenizer) {
  std::string text;
  if (!tokenizer) {
    for (int i = 0; i < std::min(ids.size(), kTurnTokensMax); ++i)
      text += std::to_string(ids[i]) + " ";
    return ids.size() <= kTurnTokensMax ? text : text + "[cut]";
  }
  const std::vector<TokenId> copy(ids.begin(), ids.end());
  return Cut(tokenizer->Decode(copy));
}

Json CallJson(const v1::ToolCall& call) {
  return {{"tool", call.tool()},
          {"arguments", Cut(call.arguments_json())},
          {"outcome", EnumName(call.outcome())},
          {"text", Cut(call.text())},
          {"wait_ms", call.wait_ms()},
          {"run_ms", call.run_ms()},
          {"retries", call.retries()},
          {"skipped", call.skipped()},
          {"queue_ms", call.queue_ms()},
          {"handle", call.handle()},
          {"asked_ms", call.asked_ms()},
          {"answered_ms", call.answered_ms()},
          {"asked_token", call.asked_token()},
          {"cancelled", call.cancelled()},
          {"tests_passed", call.tests_passed()},
          {"tests_total", call.tests_total()},
          {"compiled", call.compiled()}};
}

}  // namespace

ApiJson TurnJson(const v1::Turn& turn, const std::optional<Tokenizer>& tokenizer) {
  Json json;
  json["role"] = turn.role();
  json["policy"] = turn.policy();
  // The turn begins a branch: it saw this, and nothing of the turns before it.
  json["prompt"] =
      turn.prompt_ids().empty() ? Json() : Json(PlainText(turn.prompt_ids(), tokenizer));
  json["tokens"] = TokenTexts(turn.ids(), tokenizer);
  json["tokens_total"] = turn.ids_size();
  Json& logprobs = json["logprobs"] = Json::array();
  for (int i = 0; i < std::min(turn.logprobs_size(), kTurnTokensMax); ++i) {
    const float value = turn.logprobs(i);
    logprobs.push_back(std::isfinite(value) ? Json(std::round(value * 1e4) / 1e4) : Json());
  }
  json["logprob"] = std::accumulate(turn.logprobs().begin(), turn.logprobs().end(), 0.0);
  Json& versions = json["versions"] = Json::array();
  for (const v1::VersionRun& run : turn.versions()) {
    versions.push_back({{"version", run.version()}, {"tokens", run.tokens()}});
  }
  json["end"] = EnumName(turn.end());
  json["malformed"] = turn.malformed();
  Json& calls = json["calls"] = Json::array();
  for (const v1::ToolCall& call : turn.calls()) calls.push_back(CallJson(call));
  json["delivered"] = Json::array();
  for (const std::string& handle : turn.delivered()) json["delivered"].push_back(handle);
  json["observation"] = PlainText(turn.observation_ids(), tokenizer);
  json["started_ms"] = turn.started_ms();
  json["finished_ms"] = turn.finished_ms();
  json["observed_ms"] = turn.observed_ms();
  return json;
}

namespace {

Json JudgementsJson(const v1::RewardPart& part) {
  Json judgements = Json::array();
  for (const v1::Judgement& judgement : part.judgements()) {
    Json votes = Json::array();
    for (const v1::JudgeVote& vote : judgement.votes()) {
      votes.push_back({{"judge", vote.judge()},
                       {"valid", vote.valid()},
                       {"value", vote.value()},
                       {"probability", vote.probability()},
                       {"reason", vote.valid() ? vote.reason() : vote.cause()}});
    }
    judgements.push_back({{"judge", judgement.judge()},
                          {"version", judgement.version()},
                          {"turn", judgement.turn()},
                          {"value", judgement.value()},
                          {"probability", judgement.probability()},
                          {"spread", judgement.spread()},
                          {"reason", judgement.reason()},
                          {"votes", votes},
                          {"prompt", judgement.prompt()}});
  }
  return judgements;
}

Json VerdictJson(const v1::Verdict& verdict) {
  Json parts = Json::array();
  for (const v1::RewardPart& part : verdict.parts()) {
    Json sub_scores = Json::array();
    for (const v1::SubScore& sub : part.sub_scores()) {
      sub_scores.push_back({{"name", sub.name()},
                            {"value", sub.value()},
                            {"comment", sub.comment()},
                            {"looks", sub.looks()}});
    }
    parts.push_back({{"scorer", part.scorer()},
                     {"scorer_version", part.scorer_version()},
                     {"value", part.value()},
                     {"weight", part.weight()},
                     {"comment", part.comment()},
                     {"sub_scores", sub_scores},
                     {"judgements", JudgementsJson(part)},
                     {"audited", part.audited()},
                     {"executed", part.audited() ? Json(part.executed()) : Json()}});
  }
  Json diagnostics = Json::array();
  for (const v1::Diagnostic& d : verdict.diagnostics()) {
    diagnostics.push_back({{"file", d.file()},
                           {"line", d.line()},
                           {"column", d.column()},
                           {"severity", d.severity()},
                           {"message", d.message()}});
  }
  Json by_role = Json::object();
  for (const v1::RoleReward& own : verdict.by_role()) by_role[own.role()] = own.reward();
  return {{"scored", verdict.scored()},
          {"cause", verdict.cause()},
          {"reward", verdict.reward()},
          {"parts", parts},
          {"turn_rewards",
           std::vector<double>(verdict.turn_rewards().begin(), verdict.turn_rewards().end())},
          {"by_role", by_role},
          {"solved", verdict.solved()},
          {"tests_passed", verdict.tests_passed()},
          {"tests_total", verdict.tests_total()},
          {"compiled", verdict.compiled()},
          {"diagnostics", diagnostics}};
}

Json FilesJson(const v1::Tree& tree) {
  Json files = Json::array();
  for (const v1::File& file : tree.files()) {
    files.push_back({{"path", file.path()},
                     {"content", file.has_content() ? Json(Cut(file.content())) : Json()},
                     {"hash", file.hash()}});
  }
  return files;
}

// null: the agent is no program.
Json LogJson(const v1::Trajectory& trajectory) {
  if (!trajectory.has_log()) return nullptr;
  const v1::AgentLog& log = trajectory.log();
  return {{"text", Cut(ToUtf8(log.text()))}, {"bytes", log.bytes()},
          {"truncated", log.truncated()},    {"ended", log.ended()},
          {"answers", log.answers()},        {"untrained", log.untrained()}};
}

}  // namespace

Json EpisodeRowJson(const EpisodeRow& row) {
  return {{"seq", row.seq},
          {"task", row.task},
          {"group", row.group},
          {"member", row.member},
          {"attempt", row.attempt},
          {"purpose", EnumName(row.purpose)},
          {"eval_name", row.eval_name},
          {"eval_step", OrNull(row.eval_step)},
          {"end", EnumName(row.end)},
          {"stale_cause", row.stale_cause},
          {"worker", row.worker},
          {"started_ms", row.started_ms},
          {"finished_ms", row.finished_ms},
          {"prompt_tokens", row.prompt_tokens},
          {"tokens", row.tokens},
          {"turns", row.turns},
          {"tool_calls", row.tool_calls},
          {"min_version", OrNull(row.min_version)},
          {"max_version", OrNull(row.max_version)},
          {"fate", row.fate},
          {"fate_reason", row.fate_reason},
          {"uses", row.uses},
          {"scored", OrNull(row.scored)},
          {"reward", OrNull(row.reward)},
          {"solved", OrNull(row.solved)},
          {"tests_passed", row.tests_passed},
          {"tests_total", row.tests_total},
          {"compiled", row.compiled}};
}

Json EpisodeDetailJson(const EpisodeDetail& detail, const std::optional<Tokenizer>& tokenizer) {
  const v1::Trajectory& t = detail.trajectory;
  Json json = EpisodeRowJson(detail.row);
  json["text"] = tokenizer ? "decoded" : "ids";
  json["prompt"] = PlainText(t.prompt_ids(), tokenizer);
  Json& turns = json["turn_list"] = Json::array();
  for (const v1::Turn& turn : t.turns()) turns.push_back(TurnJson(turn, tokenizer));
  json["time"] = t.has_time() ? Json{{"generating_ms", t.time().generating_ms()},
                                     {"tool_ms", t.time().tool_ms()},
                                     {"place_ms", t.time().place_ms()}}
                              : Json();
  json["submission"] = Cut(t.submission());
  json["files"] = FilesJson(t.tree());
  json["log"] = LogJson(t);
  json["diff"] = t.log().diff();
  json["temperature"] = t.sampling().temperature();
  json["verdict"] = detail.verdict ? VerdictJson(*detail.verdict) : Json();
  json["used_by"] = detail.used_by;
  json["shown_cases"] = Json::array();
  for (const uint64_t number : t.shown_cases()) json["shown_cases"].push_back(number);
  return json;
}

std::vector<std::pair<std::string, std::string>> TranscriptTexts(
    const v1::Trajectory& trajectory, const std::optional<Tokenizer>& tokenizer) {
  std::vector<std::pair<std::string, std::string>> texts = {
      {"prompt", PlainText(trajectory.prompt_ids(), tokenizer)}};
  for (int i = 0; i < trajectory.turns_size(); ++i) {
    const v1::Turn& turn = trajectory.turns(i);
    const std::string name = "turn " + std::to_string(i + 1);
    if (turn.prompt_ids_size() > 0) {
      texts.emplace_back("prompt of " + name, PlainText(turn.prompt_ids(), tokenizer));
    }
    texts.emplace_back(name, PlainText(turn.ids(), tokenizer));
    for (const v1::ToolCall& call : turn.calls()) {
      texts.emplace_back(name + ", " + call.tool(), call.arguments_json() + "\n" + call.text());
    }
  }
  texts.emplace_back("submission", trajectory.submission());
  texts.emplace_back("what the agent printed", trajectory.log().text());
  texts.emplace_back("what it changed", trajectory.log().diff());
  return texts;
}

Json GroupJson(const GroupRow& group) {
  Json episodes = Json::array();
  for (const EpisodeRow& row : group.episodes) episodes.push_back(EpisodeRowJson(row));
  const v1::GroupReport& report = group.report;
  return {{"group", report.group()},
          {"task", group.lease.task().id()},
          {"members", group.lease.members()},
          {"purpose", EnumName(group.lease.purpose())},
          {"eval_name", group.lease.eval_name()},
          {"issued_ms", group.lease.issued_ms()},
          {"accepted", report.accepted()},
          {"dropped", report.dropped()},
          {"reason", report.reason()},
          {"episodes", episodes}};
}

Json EvalJson(const EvalResult& eval) {
  return {{"name", eval.eval_name},
          {"step", eval.step},
          {"complete", eval.complete},
          {"tasks_planned", eval.tasks_planned},
          {"tasks", eval.tasks},
          {"tasks_solved", eval.tasks_solved},
          {"samples", eval.samples},
          {"unscored", eval.unscored},
          {"pass_rate", OrNull(eval.pass_rate)},
          {"ci95", OrNull(eval.pass_rate_ci95)},
          {"mean_reward", OrNull(eval.mean_reward)},
          {"version", OrNull(eval.max_version)},
          {"finished_ms", eval.finished_ms}};
}

Json CountsJson(const RunCounts& counts) {
  return {{"episodes", counts.episodes},
          {"train", counts.train},
          {"eval", counts.eval},
          {"unscored", counts.unscored},
          {"groups", counts.groups},
          {"groups_outstanding", counts.groups_outstanding},
          {"steps", counts.steps},
          {"steps_abandoned", counts.steps_abandoned},
          {"resumes", counts.resumes},
          {"last_version", counts.last_version},
          {"train_by_fate", counts.train_by_fate},
          {"stale_by_kind", counts.stale_by_kind},
          {"stale_by_cause", counts.stale_by_cause}};
}

Json TimelineJson(const Timeline& timeline) {
  Json episodes = Json::array();
  for (const EpisodeSpan& span : timeline.episodes) {
    Json turns = Json::array();
    for (const EpisodeSpan::Turn& turn : span.turns) {
      turns.push_back({turn.started_ms, turn.finished_ms, turn.observed_ms});
    }
    episodes.push_back({{"task", span.task},
                        {"group", span.group},
                        {"member", span.member},
                        {"purpose", EnumName(span.purpose)},
                        {"worker", span.worker},
                        {"started_ms", span.started_ms},
                        {"finished_ms", span.finished_ms},
                        {"scored_ms", span.scored_ms == 0 ? Json() : Json(span.scored_ms)},
                        {"solved", span.solved},
                        {"turns", turns}});
  }
  Json steps = Json::array();
  for (const StepSpan& step : timeline.steps) {
    Json metrics = Json::parse(step.metrics_json, nullptr, false);
    steps.push_back({{"step", step.step},
                     {"version", step.version},
                     {"at_ms", step.at_ms},
                     {"metrics", metrics.is_object() ? metrics : Json::object()}});
  }
  return {{"from_ms", timeline.from_ms},
          {"to_ms", timeline.to_ms},
          {"first_ms", timeline.first_ms},
          {"last_ms", timeline.last_ms},
          {"last_step_ms", timeline.last_step_ms},
          {"cut", timeline.cut},
          {"episodes", episodes},
          {"steps", steps}};
}

Share WilsonShare(uint64_t solved, uint64_t scored) {
  if (scored == 0) return {};
  const auto n = static_cast<double>(scored);
  const double p = static_cast<double>(solved) / n;
  constexpr double z = 1.96;
  const double middle = (p + z * z / (2 * n)) / (1 + z * z / n);
  const double half = z / (1 + z * z / n) * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n));
  return {p, std::max(0.0, middle - half), std::min(1.0, middle + half)};
}

HttpResponse JsonResponse(const Json& json) {
  HttpResponse response;
  // Programs and models write bytes that are no UTF-8; they are shown as U+FFFD.
  response.body = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return response;
}

}  // namespace tidemill
