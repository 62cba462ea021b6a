// The conversation that a driver leads with the model where the environment does not: messages and
// tools of Chat Completions.
#pragma once

#include <string>
#include <vector>

#include "environments/environment_driver.h"

namespace tidemill {

struct ModelCall {
  std::string id;
  std::string name;
  std::string arguments;  // as they were written
};

struct ModelReply {
  std::string text;
  std::vector<ModelCall> calls;
};

class ChatTalk {
 public:
  explicit ChatTalk(uint32_t max_turn_tokens) : max_turn_tokens_(max_turn_tokens) {}

  void Say(std::string_view role, std::string text);
  void AnswerCall(const ModelCall& call, std::string text);
  // [{name, description, parameters}].
  void AddTool(const std::string& name, const std::string& description, EnvironmentJson parameters);
  bool has_tools() const { return !tools_.empty(); }

  // The next turn.
  AskModel Ask() const;
  // Puts the answer behind the conversation. kInvalid: the gateway refused it; kUnavailable: it is
  // no such answer.
  Result<ModelReply> Take(const EnvironmentAnswer& answer);

 private:
  const uint32_t max_turn_tokens_;
  EnvironmentJson messages_ = EnvironmentJson::array();
  EnvironmentJson tools_ = EnvironmentJson::array();
};

// The JSON of a text from outside: depth and size are bounded. kInvalid: it is none.
Result<EnvironmentJson> ParseEnvironmentJson(std::string_view text);

// A part of the reward; a number that is none is left out.
struct PaidPart {
  std::string name;
  double value = 0;
  double weight = 1;
  std::string player = {};  // whose it is; empty: the only one
};
void AddReward(const PaidPart& paid, v1::EnvironmentReward& reward);

}  // namespace tidemill
