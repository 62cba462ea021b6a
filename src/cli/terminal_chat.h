// A conversation in a terminal with a server that speaks OpenAI's Chat Completions.
//
//   a line -> "/command" or a message -> POST .. stream: true -> text as it comes, then the tokens
#pragma once

#include <cstdio>
#include <functional>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/status.h"
#include "http/http_peer.h"

namespace tidemill {

struct TerminalChatOptions {
  HttpUrl server;
  std::string key{};     // sent as a bearer; empty: none
  std::string model{};   // empty: the first that the server lists
  std::string system{};  // what the conversation begins with; empty: nothing
  std::optional<double> temperature{};
  std::optional<int> max_tokens{};
};

// Belongs to one thread.
class TerminalChat {
 public:
  // What it says goes to `out`.
  TerminalChat(TerminalChatOptions options, std::FILE* out);

  // Asks the server for its model where none is named. kUnavailable: nobody listens there.
  Status Begin();
  // A line of the user. False: it was the last one.
  bool Take(const std::string& line);

  const nlohmann::ordered_json& messages() const { return messages_; }
  const std::string& model() const { return options_.model; }

 private:
  std::string Path(const std::string& path) const;
  bool Command(const std::string& line);
  void Say(const std::string& text);
  Status Ask(std::string& answer);
  Status Save(const std::string& path) const;
  void Forget();
  void Print(const std::string& text) const;

  TerminalChatOptions options_;
  std::FILE* const out_;
  nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();
  int64_t prompt_tokens_ = 0, answer_tokens_ = 0;  // of all answers
};

}  // namespace tidemill
