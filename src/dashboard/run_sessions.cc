// The gateway's sessions of a run: the list, and one as a tree of turns with its tokens, signals
// and what became of it in training.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/fate.h"
#include "core/text.h"
#include "dashboard/run_api.h"
#include "dashboard/run_json.h"
#include "live/live_report.h"
#include "store/session_reader.h"

namespace tidemill {
namespace {

using Json = ApiJson;

constexpr uint64_t kSessionsShown = 100;
constexpr uint64_t kSessionsMax = 1000;
constexpr size_t kMessageBytes = 4000;

Json SessionJson(const SessionRow& row) {
  const v1::Session& session = row.session;
  return {{"session", session.number()},
          {"tenant", session.tenant()},
          {"name", session.name()},
          {"agent", session.agent()},
          {"class", session.task_class()},
          {"trainable", session.trainable()},
          {"started_ms", session.started_ms()},
          {"closed_ms", session.closed_ms()},
          {"close_reason", session.close_reason()},
          {"turns", row.turns},
          {"questions", row.questions},
          {"tokens", row.tokens},
          {"finished_ms", row.finished_ms},
          {"signals", row.signals},
          {"reward", row.reward ? Json(*row.reward) : Json()},
          {"used", row.used}};
}

Json SignalJson(const v1::Signal& signal) {
  Json json = {{"turn", signal.turn()},  {"source", signal.source()},
               {"by", signal.by()},      {"score", signal.score()},
               {"text", signal.text()},  {"revision", signal.revision()},
               {"at_ms", signal.at_ms()}};
  if (signal.span_to() > 0) json["span"] = {signal.span_from(), signal.span_to()};
  return json;
}

// Messages for people: role and the beginning of the text.
Json MessagesJson(const std::string& text) {
  Json list = Json::array();
  const Json messages = Json::parse(text, nullptr, false);
  if (!messages.is_array()) return list;
  for (const Json& message : messages) {
    const auto content = message.find("content");
    const std::string shown = content == message.end() ? std::string()
                              : content->is_string()   ? content->get<std::string>()
                                                       : content->dump();
    list.push_back(
        {{"role", message.value("role", "")}, {"text", ToUtf8(Beginning(shown, kMessageBytes))}});
  }
  return list;
}

// Why a turn is trained or not, for people.
std::string StateOf(const std::string& reason, const SessionUse* use, bool open, bool signals) {
  if (!reason.empty()) return reason;
  if (use != nullptr && use->step > 0) return "trained";
  if (use != nullptr && !FateIsLive(use->fate)) return use->fate;
  if (open) return "open";
  return signals ? "waits for a step" : "no signal";
}

Json TurnOf(const v1::SessionTurn& turn, const std::optional<Tokenizer>& tokenizer) {
  Json json = TurnJson(turn.answer(), tokenizer);
  json["turn"] = turn.turn();
  json["question"] = turn.question();
  json["choice"] = turn.choice();
  json["choices"] = turn.choices();
  json["parent"] = turn.context_turn();
  json["prompt_tokens"] = turn.prefix_tokens() + static_cast<uint32_t>(turn.prompt_ids_size());
  json["temperature"] = turn.sampling().temperature();
  json["cut"] = turn.cut();
  json["side"] = turn.side();
  json["messages"] = MessagesJson(turn.messages_json());
  json["answer"] = MessagesJson("[" + turn.answer_json() + "]");
  json["finished_ms"] = turn.answer().finished_ms();
  return json;
}

}  // namespace

Result<HttpResponse> RunApi::Sessions(const HttpRequest& request, RunView& run) {
  TM_ASSIGN_OR_RETURN(const std::optional<uint64_t> limit, UintParameter(request, "limit"));
  TM_ASSIGN_OR_RETURN(const std::optional<bool> open, BoolParameter(request, "open"));
  SessionFilter filter;
  filter.open_only = open.value_or(false);
  if (const std::string* tenant = request.Find("tenant")) filter.tenant = *tenant;
  TM_ASSIGN_OR_RETURN(const auto reader, SessionReader::Open(run.directory().db_path()));
  TM_ASSIGN_OR_RETURN(const auto rows,
                      reader->List(filter, std::min(limit.value_or(kSessionsShown), kSessionsMax)));
  Json list = Json::array();
  for (const SessionRow& row : rows) list.push_back(SessionJson(row));
  return JsonResponse({{"sessions", list}});
}

Result<HttpResponse> RunApi::SessionDetail(const HttpRequest& request, RunView& run) {
  HttpRequest part;
  part.query["session"] = PathParts(request.path)[3];
  TM_ASSIGN_OR_RETURN(const std::optional<uint64_t> number, UintParameter(part, "session"));
  TM_ASSIGN_OR_RETURN(const auto reader, SessionReader::Open(run.directory().db_path()));
  TM_ASSIGN_OR_RETURN(const StoredSession stored, reader->Read(number.value_or(0)));
  TM_ASSIGN_OR_RETURN(const SessionReport report, ReportSession(stored));
  TM_ASSIGN_OR_RETURN(const auto signals, reader->Signals(*number));
  TM_ASSIGN_OR_RETURN(const auto uses, reader->Uses(*number));
  SessionRow row;
  row.session = stored.session;
  row.turns = stored.turns.size();
  row.questions = report.questions;
  row.tokens = report.settled.sampled;
  row.signals = signals.size();
  if (!uses.empty()) row.reward = uses.back().reward;
  Json json = SessionJson(row);
  json["branches"] = report.settled.branches;
  json["damage"] = stored.damage;
  Json& said = json["said"] = Json::array();
  for (const v1::Signal& signal : signals) said.push_back(SignalJson(signal));
  const std::optional<Tokenizer> tokenizer = run.tokenizer();
  Json& tree = json["tree"] = Json::array();
  for (const v1::SessionTurn& turn : stored.turns) {
    Json one = TurnOf(turn, tokenizer);
    const auto use = std::find_if(uses.begin(), uses.end(), [&](const SessionUse& of) {
      return std::find(of.turns.begin(), of.turns.end(), turn.turn()) != of.turns.end();
    });
    const auto reason = report.settled.reasons.find(turn.turn());
    const bool open = stored.session.closed_ms() == 0;
    one["state"] = StateOf(reason == report.settled.reasons.end() ? "" : reason->second,
                           use == uses.end() ? nullptr : &*use, open, !signals.empty());
    one["step"] = use == uses.end() ? 0 : use->step;
    one["trajectory"] = use == uses.end() ? "" : use->task + "/" + std::to_string(use->member);
    tree.push_back(std::move(one));
  }
  return JsonResponse(json);
}

}  // namespace tidemill
