#include "environments/chat_talk.h"

#include <cmath>
#include <utility>

namespace tidemill {
namespace {

constexpr size_t kTextBytes = size_t{16} << 20;
constexpr int kDepth = 100;

}  // namespace

Result<EnvironmentJson> ParseEnvironmentJson(std::string_view text) {
  if (text.size() > kTextBytes) return Invalid("it has more than 16 MiB");
  int depth = 0;
  bool deep = false;
  const auto watch = [&](int now, EnvironmentJson::parse_event_t, EnvironmentJson&) {
    depth = std::max(depth, now);
    deep = deep || now > kDepth;
    return !deep;
  };
  EnvironmentJson json = EnvironmentJson::parse(text, watch, /*allow_exceptions=*/false);
  if (deep) return Invalid("it is nested more than " + std::to_string(kDepth) + " deep");
  if (json.is_discarded()) return Invalid("it is no JSON");
  return json;
}

void AddReward(const PaidPart& paid, v1::EnvironmentReward& reward) {
  if (!std::isfinite(paid.value) || !std::isfinite(paid.weight)) return;
  v1::NamedReward& part = *reward.add_parts();
  part.set_name(paid.name);
  part.set_value(paid.value);
  part.set_weight(paid.weight);
  part.set_player(paid.player);
}

void ChatTalk::Say(std::string_view role, std::string text) {
  messages_.push_back({{"role", role}, {"content", std::move(text)}});
}

void ChatTalk::AnswerCall(const ModelCall& call, std::string text) {
  messages_.push_back({{"role", "tool"}, {"tool_call_id", call.id}, {"content", std::move(text)}});
}

void ChatTalk::AddTool(const std::string& name, const std::string& description,
                       EnvironmentJson parameters) {
  if (!parameters.is_object()) parameters = {{"type", "object"}};
  tools_.push_back(
      {{"type", "function"},
       {"function",
        {{"name", name}, {"description", description}, {"parameters", std::move(parameters)}}}});
}

AskModel ChatTalk::Ask() const {
  EnvironmentJson body = {{"model", "policy"}, {"messages", messages_}};
  body["max_tokens"] = max_turn_tokens_;
  if (!tools_.empty()) body["tools"] = tools_;
  return {.path = "/v1/chat/completions", .body = std::move(body)};
}

Result<ModelReply> ChatTalk::Take(const EnvironmentAnswer& answer) {
  if (answer.status != 200) return Invalid("status " + std::to_string(answer.status));
  TM_ASSIGN_OR_RETURN(const EnvironmentJson body, ParseEnvironmentJson(answer.body));
  const auto choices = body.find("choices");
  const bool whole = choices != body.end() && choices->is_array() && !choices->empty() &&
                     choices->front().contains("message");
  if (!whole) return Unavailable("the gateway's answer has no message");
  const EnvironmentJson& message = choices->front()["message"];
  messages_.push_back(message);
  ModelReply reply;
  if (message.contains("content") && message["content"].is_string()) {
    reply.text = message["content"].get<std::string>();
  }
  if (!message.contains("tool_calls")) return reply;
  for (const EnvironmentJson& call : message["tool_calls"]) {
    const EnvironmentJson& function = call.at("function");
    reply.calls.push_back({.id = call.at("id").get<std::string>(),
                           .name = function.at("name").get<std::string>(),
                           .arguments = function.at("arguments").get<std::string>()});
  }
  return reply;
}

}  // namespace tidemill
