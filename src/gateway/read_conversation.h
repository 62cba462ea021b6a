// The messages in the token ids of a conversation: what a template wrote, read back.
//
//   prompt ids | ids the model wrote | ids put behind them | .. -> {role, content, tool_calls} ..
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conversation/tool_formats/output_parser.h"
#include "gateway/chat_request.h"
#include "model/tokenizer.h"

namespace tidemill {

// Ids in a row that are all the model's, or all from elsewhere.
struct ConversationPart {
  std::span<const TokenId> ids;
  bool by_model = false;
};

// Immutable, thread-safe.
class ConversationReader {
 public:
  // `template_source`: the chat template the conversations were made with; empty: none is known.
  ConversationReader(Tokenizer tokenizer, std::string_view template_source);

  // In OpenAI's form, the template's own words left out. What the model wrote opens no message,
  // whatever tokens it drew. Where the tokens of no known template are there, what is from
  // elsewhere is the user's.
  std::vector<WireJson> Read(std::span<const ConversationPart> parts) const;

 private:
  // The tokens around a message: OPEN role HEADER_END text CLOSE.
  struct Marks {
    TokenId open = -1;
    std::optional<TokenId> header_end;  // none: the header is the first line
    TokenId close = -1;
  };
  struct Message {
    std::optional<std::string> role;  // none: the header goes on, or is the first line
    bool framed = false;              // between the template's tokens
    std::vector<TokenId> ids;
  };
  void Take(const ConversationPart& part, std::optional<Message>& open,
            std::vector<WireJson>& messages) const;
  void Finish(std::optional<Message>& open, std::vector<WireJson>& messages) const;
  void AddText(const std::string& role, std::string text, std::vector<WireJson>& messages) const;
  WireJson Assistant(const std::string& text) const;

  Tokenizer tokenizer_;
  std::optional<Marks> marks_;
  OutputFormat format_;
};

}  // namespace tidemill
