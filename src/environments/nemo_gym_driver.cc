// NeMo-Gym 0.4: a resources server over HTTP. The driver does what its simple agent does.
//
//   resources: POST /seed_session -> (model -> POST /TOOL)* -> POST /verify
//   gymnasium: POST /reset -> (model -> POST /step)* until terminated or truncated
//   agent: POST /run of an agent server, which leads the episode itself
#include <utility>

#include "environments/chat_talk.h"
#include "environments/environment_driver.h"

namespace tidemill {
namespace {

bool SafeToolName(const std::string& name) {
  if (name.empty() || name.size() > 128) return false;
  for (const char c : name) {
    const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '-' || c == '.';
    if (!word) return false;
  }
  return name != "verify" && name != "seed_session" && name != "reset" && name != "step" &&
         name != "aggregate_metrics";
}

class NemoGymDriver final : public EpisodeDriver {
 public:
  explicit NemoGymDriver(EpisodeSheet sheet)
      : sheet_(std::move(sheet)),
        gymnasium_(sheet_.mode == "gymnasium"),
        agent_(sheet_.mode == "agent") {}

  bool AsksModelItself() const override { return agent_; }

  DriverStep Begin() override {
    auto row = ParseEnvironmentJson(sheet_.task.environment().row_json());
    if (!row.ok() || !row->is_object() || !row->contains("responses_create_params") ||
        !(*row)["responses_create_params"].is_object()) {
      return FailEpisode{Failure::kEnvironment, "the task's row has no responses_create_params"};
    }
    row_ = std::move(*row);
    EnvironmentJson& input = row_["responses_create_params"]["input"];
    if (input.is_string()) {
      input = EnvironmentJson::array({{{"role", "user"}, {"content", input}}});
    }
    if (!input.is_array()) input = EnvironmentJson::array();
    history_ = input;
    if (agent_) {
      row_["responses_create_params"]["max_output_tokens"] = sheet_.max_turn_tokens;
      awaits_ = Awaited::kRun;
      DriverStep run = Call("/run", row_);
      std::get<CallEnvironment>(run).whole_episode = true;
      return run;
    }
    awaits_ = Awaited::kSeed;
    return Call(gymnasium_ ? "/reset" : "/seed_session", row_);
  }

  DriverStep OnAnswer(const EnvironmentAnswer& answer) override {
    TakeCookies(answer);
    switch (awaits_) {
      case Awaited::kSeed:
        return OnSeeded(answer);
      case Awaited::kTool:
        return OnTool(answer);
      case Awaited::kStep:
        return OnStep(answer);
      case Awaited::kVerify:
        return OnVerified(answer);
      case Awaited::kRun:
        words_ = "its agent ended";
        return answer.status == 200 ? OnVerified(answer) : Unusable("/run", answer);
    }
    return FailEpisode{Failure::kConnection, "it answers without being asked"};
  }

  DriverStep OnModel(const EnvironmentAnswer& answer) override {
    auto response = ParseEnvironmentJson(answer.body);
    const bool whole = answer.status == 200 && response.ok() && response->is_object() &&
                       response->contains("output") && (*response)["output"].is_array();
    if (!whole) return Finish("the model is asked no more");
    ++turns_;
    response_ = std::move(*response);
    calls_.clear();
    bool message = false;
    for (const EnvironmentJson& item : response_["output"]) {
      history_.push_back(item);
      outputs_.push_back(item);
      const std::string type = item.is_object() ? item.value("type", "") : "";
      message = message || type == "message";
      if (type == "function_call") calls_.push_back(item);
    }
    if (gymnasium_) {
      awaits_ = Awaited::kStep;
      return Call("/step", WithResponse());
    }
    const bool cut =
        response_.contains("incomplete_details") && !response_["incomplete_details"].is_null();
    if (cut || calls_.empty()) return Finish(cut ? "its answer was cut" : "it answered");
    return NextCall();
  }

  uint32_t TakeBadActions() override { return std::exchange(bad_actions_, 0); }

 private:
  enum class Awaited : uint8_t { kSeed, kTool, kStep, kVerify, kRun };

  DriverStep Call(const std::string& target, const EnvironmentJson& body) const {
    CallEnvironment call;
    call.ask.target = sheet_.server.path == "/" ? target : sheet_.server.path + target;
    call.ask.headers = {{"Content-Type", "application/json"}};
    std::string cookies;
    for (const auto& [name, value] : cookies_) {
      cookies += (cookies.empty() ? "" : "; ") + name + "=" + value;
    }
    if (!cookies.empty()) call.ask.headers.emplace_back("Cookie", cookies);
    call.ask.body = body.dump(-1, ' ', false, EnvironmentJson::error_handler_t::replace);
    return call;
  }

  void TakeCookies(const EnvironmentAnswer& answer) {
    for (const auto& [name, value] : answer.fields) {
      if (name != "set-cookie") continue;
      const std::string pair = value.substr(0, value.find(';'));
      const size_t equals = pair.find('=');
      if (equals != std::string::npos) cookies_[pair.substr(0, equals)] = pair.substr(equals + 1);
    }
  }

  AskModel Ask() const {
    EnvironmentJson body = row_["responses_create_params"];
    body["model"] = "policy";
    body["input"] = history_;
    body["max_output_tokens"] = sheet_.max_turn_tokens;
    return {.path = "/v1/responses", .body = std::move(body)};
  }

  static DriverStep Unusable(const std::string& what, const EnvironmentAnswer& answer) {
    const Failure failure =
        answer.status == 503 || answer.status == 429 ? Failure::kCapacity : Failure::kEnvironment;
    return FailEpisode{failure, what + " answers " + std::to_string(answer.status) + ": " +
                                    answer.body.substr(0, 200)};
  }

  DriverStep OnSeeded(const EnvironmentAnswer& answer) {
    if (answer.status != 200) return Unusable(gymnasium_ ? "/reset" : "/seed_session", answer);
    if (gymnasium_) {
      const auto body = ParseEnvironmentJson(answer.body);
      if (!body.ok() || !body->is_object()) return Unusable("/reset", answer);
      Observe(*body);
    }
    return Ask();
  }

  DriverStep NextCall() {
    const EnvironmentJson& call = calls_.front();
    const std::string name = call.value("name", "");
    const auto arguments = ParseEnvironmentJson(call.value("arguments", "{}"));
    if (!SafeToolName(name)) return AfterCall("There is no tool \"" + name + "\".", true);
    if (!arguments.ok() || !arguments->is_object()) {
      return AfterCall("The arguments are no JSON object.", true);
    }
    awaits_ = Awaited::kTool;
    return Call("/" + name, *arguments);
  }

  // An error of a tool is an answer to the model, too; of the server it is ours.
  DriverStep OnTool(const EnvironmentAnswer& answer) {
    if (answer.status >= 500) return Unusable("a tool", answer);
    return AfterCall(answer.body, answer.status != 200);
  }

  DriverStep AfterCall(std::string text, bool bad) {
    bad_actions_ += bad ? 1 : 0;
    EnvironmentJson output = {{"type", "function_call_output"},
                              {"call_id", calls_.front().value("call_id", "")},
                              {"output", std::move(text)}};
    history_.push_back(output);
    outputs_.push_back(std::move(output));
    calls_.erase(calls_.begin());
    if (!calls_.empty()) return NextCall();
    if (turns_ >= sheet_.max_turns) return Finish("it has had its turns");
    return Ask();
  }

  void Observe(const EnvironmentJson& body) {
    const auto observed = body.find("observation");
    if (observed == body.end() || !observed->is_string()) return;
    history_.push_back({{"role", "user"}, {"content", *observed}});
  }

  DriverStep OnStep(const EnvironmentAnswer& answer) {
    const auto body = ParseEnvironmentJson(answer.body);
    if (answer.status != 200 || !body.ok() || !body->is_object()) {
      return Unusable("/step", answer);
    }
    const auto reward = body->find("reward");
    if (reward != body->end() && reward->is_number()) sum_ += reward->get<double>();
    const bool over = body->value("terminated", false) || body->value("truncated", false);
    if (over || turns_ >= sheet_.max_turns) return End(over ? "done" : "it has had its turns");
    Observe(*body);
    return Ask();
  }

  EnvironmentJson WithResponse() const {
    EnvironmentJson body = row_;
    body["response"] = response_;
    return body;
  }

  // The verifier sees all that was written, not the last turn alone.
  DriverStep Finish(std::string words) {
    if (gymnasium_) return End(std::move(words));
    words_ = std::move(words);
    if (turns_ == 0) {
      return FailEpisode{Failure::kAgent, "the gateway answered no turn of the episode"};
    }
    response_["output"] = outputs_;
    awaits_ = Awaited::kVerify;
    return Call("/verify", WithResponse());
  }

  DriverStep OnVerified(const EnvironmentAnswer& answer) {
    const auto body = ParseEnvironmentJson(answer.body);
    const bool pays = answer.status == 200 && body.ok() && body->is_object() &&
                      body->contains("reward") && (*body)["reward"].is_number();
    if (!pays) {
      return FailEpisode{Failure::kVerifier, (agent_ ? "/run answers " : "/verify answers ") +
                                                 std::to_string(answer.status) +
                                                 " without a reward"};
    }
    const auto masked = body->find("mask_sample");
    if (masked != body->end() && masked->is_boolean() && masked->get<bool>()) {
      const auto kind = body->find("failure_kind");
      return FailEpisode{Failure::kMasked, kind != body->end() && kind->is_string()
                                               ? kind->get<std::string>()
                                               : "mask_sample"};
    }
    sum_ = (*body)["reward"].get<double>();
    return End(words_);
  }

  DriverStep End(std::string words) const {
    EndEpisode end{.reward = {}, .words = std::move(words)};
    end.reward.set_environment(sheet_.name);
    AddReward({.name = "reward", .value = sum_}, end.reward);
    return end;
  }

  const EpisodeSheet sheet_;
  const bool gymnasium_, agent_;
  EnvironmentJson row_;
  EnvironmentJson history_ = EnvironmentJson::array();  // the model's next input
  EnvironmentJson outputs_ = EnvironmentJson::array();  // what the verifier is shown
  EnvironmentJson response_ = EnvironmentJson::object();
  EnvironmentJson calls_ = EnvironmentJson::array();  // of the turn, not yet answered
  std::map<std::string, std::string> cookies_;
  Awaited awaits_ = Awaited::kSeed;
  std::string words_;
  double sum_ = 0;
  uint32_t turns_ = 0;
  uint32_t bad_actions_ = 0;
};

}  // namespace

std::unique_ptr<EpisodeDriver> NewNemoGymDriver(EpisodeSheet sheet) {
  return std::make_unique<NemoGymDriver>(std::move(sheet));
}

}  // namespace tidemill
