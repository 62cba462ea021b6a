// OpenEnv 0.10: a WebSocket to one environment, reset and step in JSON, actions from the model's
// text by the environment's schema, or tool calls where it has Model Context Protocol tools.
//
//   GET /schema -> socket -> reset -> [tools/list] -> (model -> step)* until done
#include <utility>

#include "environments/chat_talk.h"
#include "environments/environment_driver.h"
#include "environments/web_socket.h"

namespace tidemill {
namespace {

constexpr int64_t kToolsId = 1;

std::string TextOf(const EnvironmentJson& value) {
  return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false);
}

class OpenEnvDriver final : public EpisodeDriver {
 public:
  explicit OpenEnvDriver(EpisodeSheet sheet)
      : sheet_(std::move(sheet)),
        random_(sheet_.seed),
        key_(NewWebSocketKey(random_)),
        reader_(key_, {}),
        talk_(sheet_.max_turn_tokens) {}

  bool UsesStream() const override { return true; }

  DriverStep Begin() override {
    return CallEnvironment{
        {.method = "GET", .target = Under("/schema"), .headers = {}, .body = {}}};
  }

  DriverStep OnAnswer(const EnvironmentAnswer& answer) override {
    const auto schema = ParseEnvironmentJson(answer.body);
    if (answer.status != 200 || !schema.ok() || !schema->is_object() ||
        !schema->contains("action")) {
      return FailEpisode{
          Failure::kConnection,
          "GET /schema answers " + std::to_string(answer.status) + " without an action's schema"};
    }
    action_ = (*schema)["action"];
    output_ += WebSocketRequest(sheet_.server.Authority(), Under("/ws"), key_);
    const auto row = ParseEnvironmentJson(sheet_.task.environment().row_json());
    Send("reset", row.ok() && row->is_object() ? *row : EnvironmentJson::object());
    awaits_ = Awaited::kReset;
    return Await{};
  }

  std::optional<DriverStep> OnBytes(std::string_view bytes) override {
    const Status read = reader_.Add(bytes);
    for (const std::string& ping : reader_.TakePings()) output_ += WebSocketPong(ping, random_);
    if (!read.ok()) return FailEpisode{Failure::kConnection, read.message()};
    if (reader_.open() && !waiting_.empty()) output_ += std::exchange(waiting_, {});
    std::optional<DriverStep> next;
    for (const std::string& message : reader_.TakeMessages()) {
      if (next) return FailEpisode{Failure::kConnection, "it answers more than it is asked"};
      next = OnMessage(message);
    }
    if (!next && reader_.closed()) return FailEpisode{Failure::kConnection, "it closed the socket"};
    return next;
  }

  DriverStep OnModel(const EnvironmentAnswer& answer) override {
    Result<ModelReply> reply = talk_.Take(answer);
    if (!reply.ok()) return End("the model is asked no more: " + reply.status().message());
    ++turns_;
    if (!talk_.has_tools()) return Act(reply->text);
    if (reply->calls.empty()) return End("the model called no tool");
    calls_ = std::move(reply->calls);
    return NextCall();
  }

  std::string TakeOutput() override { return std::exchange(output_, {}); }
  std::string Farewell() override {
    if (!reader_.open() || reader_.closed()) return {};
    Send("close", nullptr);
    return std::exchange(output_, {}) + WebSocketClose(random_);
  }
  uint32_t TakeBadActions() override { return std::exchange(bad_actions_, 0); }

 private:
  enum class Awaited : uint8_t { kNothing, kReset, kTools, kStep };

  std::string Under(const std::string& target) const {
    return sheet_.server.path == "/" ? target : sheet_.server.path + target;
  }

  // Frames wait for the end of the handshake.
  void Send(const char* type, EnvironmentJson data) {
    EnvironmentJson message = {{"type", type}};
    if (!data.is_null()) message["data"] = std::move(data);
    (reader_.open() ? output_ : waiting_) += WebSocketText(
        message.dump(-1, ' ', false, EnvironmentJson::error_handler_t::replace), random_);
  }

  DriverStep OnMessage(const std::string& text) {
    const Awaited awaited = std::exchange(awaits_, Awaited::kNothing);
    if (awaited == Awaited::kNothing) {
      return FailEpisode{Failure::kConnection, "it speaks without being asked"};
    }
    const auto message = ParseEnvironmentJson(text);
    if (!message.ok() || !message->is_object() || !message->contains("type")) {
      return FailEpisode{Failure::kConnection, "it sends what is no message"};
    }
    const std::string type = TextOf((*message)["type"]);
    const EnvironmentJson data =
        message->contains("data") ? (*message)["data"] : EnvironmentJson::object();
    if (type == "error") return OnError(data, awaited);
    if (!data.is_object()) return FailEpisode{Failure::kConnection, "its \"data\" is no object"};
    if (awaited == Awaited::kTools) return type == "mcp" ? OnTools(data) : AskFirst();
    if (type != "observation" || !data.contains("observation")) {
      return FailEpisode{Failure::kConnection, "it sends \"" + type + "\" for an observation"};
    }
    return awaited == Awaited::kReset ? OnReset(data) : OnStep(data);
  }

  DriverStep OnError(const EnvironmentJson& data, Awaited awaited) {
    const std::string code = data.is_object() ? data.value("code", "") : "";
    const std::string what = code + ": " + (data.is_object() ? data.value("message", "") : "");
    if (code == "CAPACITY_REACHED") return FailEpisode{Failure::kCapacity, what};
    if (awaited == Awaited::kTools) return AskFirst();  // it has no tools
    const bool by_agent =
        awaited == Awaited::kStep && (code == "VALIDATION_ERROR" || code == "INVALID_JSON");
    if (!by_agent) return FailEpisode{Failure::kEnvironment, what};
    return Refuse(what);
  }

  // The agent is told what was wrong with its action, and goes on.
  DriverStep Refuse(const std::string& why) {
    ++bad_actions_;
    rewards_.push_back(0);
    return AfterStep("This action is not valid. " + why);
  }

  DriverStep OnReset(const EnvironmentJson& data) {
    first_ = TextOf(data["observation"]);
    const EnvironmentJson& properties =
        action_.is_object() && action_.contains("properties") ? action_["properties"] : action_;
    if (!properties.is_object() || !properties.contains("tool_name")) return AskFirst();
    Send("mcp", {{"jsonrpc", "2.0"},
                 {"id", kToolsId},
                 {"method", "tools/list"},
                 {"params", EnvironmentJson::object()}});
    awaits_ = Awaited::kTools;
    return Await{};
  }

  DriverStep OnTools(const EnvironmentJson& rpc) {
    const auto result = rpc.find("result");
    if (result != rpc.end() && result->is_object() && result->contains("tools")) {
      for (const EnvironmentJson& tool : (*result)["tools"]) {
        if (!tool.is_object() || !tool.contains("name")) continue;
        const char* schema = tool.contains("inputSchema") ? "inputSchema" : "input_schema";
        talk_.AddTool(TextOf(tool["name"]), tool.value("description", ""),
                      tool.contains(schema) ? tool[schema] : EnvironmentJson());
      }
    }
    return AskFirst();
  }

  DriverStep AskFirst() {
    if (!sheet_.task.prompt().empty()) talk_.Say("system", sheet_.task.prompt());
    std::string said = first_;
    if (!talk_.has_tools() && PlainField().empty()) {
      said += "\n\nAnswer with a JSON object of this schema:\n" + action_.dump();
    }
    talk_.Say("user", said);
    return talk_.Ask();
  }

  // The name of the action's only required field, where a bare text can be its value.
  std::string PlainField() const {
    if (!action_.is_object() || !action_.contains("required")) return {};
    const EnvironmentJson& required = action_["required"];
    if (!required.is_array() || required.size() != 1 || !required[0].is_string()) return {};
    return required[0].get<std::string>();
  }

  DriverStep Act(const std::string& text) {
    const size_t open = text.find('{'), close = text.rfind('}');
    if (open != std::string::npos && close != std::string::npos && open < close) {
      auto json = ParseEnvironmentJson(std::string_view(text).substr(open, close - open + 1));
      if (json.ok() && json->is_object()) return Step(std::move(*json));
    }
    const std::string field = PlainField();
    if (field.empty()) return Refuse("It must be a JSON object.");
    return Step({{field, text}});
  }

  DriverStep Step(EnvironmentJson action) {
    Send("step", std::move(action));
    awaits_ = Awaited::kStep;
    return Await{};
  }

  DriverStep NextCall() {
    const ModelCall& call = calls_.front();
    auto arguments = ParseEnvironmentJson(call.arguments.empty() ? "{}" : call.arguments);
    if (!arguments.ok() || !arguments->is_object()) return Refuse("Its arguments are no object.");
    return Step(
        {{"type", "call_tool"}, {"tool_name", call.name}, {"arguments", std::move(*arguments)}});
  }

  DriverStep OnStep(const EnvironmentJson& data) {
    const auto reward = data.find("reward");
    const bool pays = reward != data.end() && reward->is_number();
    rewards_.push_back(pays ? reward->get<double>() : 0);
    const auto done = data.find("done");
    const bool over = done != data.end() && done->is_boolean() && done->get<bool>();
    if (over) return End("done");
    return AfterStep(TextOf(data["observation"]));
  }

  DriverStep AfterStep(std::string observed) {
    if (!calls_.empty()) {
      talk_.AnswerCall(calls_.front(), std::move(observed));
      calls_.erase(calls_.begin());
      if (!calls_.empty()) return NextCall();
    } else {
      talk_.Say("user", std::move(observed));
    }
    if (turns_ >= sheet_.max_turns) return End("it has had its turns");
    return talk_.Ask();
  }

  DriverStep End(std::string words) {
    EndEpisode end{.reward = {}, .words = std::move(words)};
    end.reward.set_environment(sheet_.name);
    double sum = 0;
    for (const double reward : rewards_) sum += reward;
    AddReward({.name = "reward", .value = sum}, end.reward);
    return end;
  }

  const EpisodeSheet sheet_;
  Random random_;
  const std::string key_;
  WebSocketReader reader_;
  ChatTalk talk_;
  EnvironmentJson action_;  // its schema
  std::string first_;       // the first observation
  std::string output_, waiting_;
  Awaited awaits_ = Awaited::kNothing;
  std::vector<ModelCall> calls_;  // of the turn, not yet answered
  std::vector<double> rewards_;   // by step
  uint32_t turns_ = 0;
  uint32_t bad_actions_ = 0;
};

}  // namespace

std::unique_ptr<EpisodeDriver> NewOpenEnvDriver(EpisodeSheet sheet) {
  return std::make_unique<OpenEnvDriver>(std::move(sheet));
}

}  // namespace tidemill
