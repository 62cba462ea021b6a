#include "live/prompt_builder.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "gateway/plain_recorder.h"
#include "model/model_template.h"
#include "model/tool_formats/output_parser.h"

namespace tidemill {
namespace {

constexpr std::string_view kThink = "<think>";
constexpr int kMarkTries = 8;

// Where an answer stands in a rendered conversation.
struct AnswerPlace {
  const KnownAnswer* answer = nullptr;
  size_t begin = 0;  // of what the drawn ids stand for
  size_t end = 0;    // where the text behind them begins
};

std::string Mark(int nonce, char part, size_t message) {
  return "tmk" + std::to_string(nonce) + part + std::to_string(message) + "kmt";
}

size_t Occurrences(std::string_view text, std::string_view word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + word.size())) {
    ++count;
  }
  return count;
}

// A message that the template writes like the answer, with marks for its texts. Its calls are left
// out: the drawn ids hold them.
WireJson Marked(const KnownAnswer& answer, int nonce) {
  WireJson message = {{"role", "assistant"}, {"content", Mark(nonce, 'c', answer.message)}};
  if (answer.reasoning) message["reasoning_content"] = Mark(nonce, 'r', answer.message);
  return message;
}

// The length of the special token that the template wrote at `at`; 0: there is none.
size_t SpecialAt(const Tokenizer& tokenizer, std::string_view text, size_t at) {
  size_t longest = 0;
  for (const AddedToken& token : tokenizer.added_tokens()) {
    if (token.special && token.content.size() > longest &&
        text.substr(at).starts_with(token.content)) {
      longest = token.content.size();
    }
  }
  return longest;
}

bool EndsTurn(const ServedPolicy& policy, const std::vector<TokenId>& ids) {
  return !ids.empty() && std::find(policy.end_ids.begin(), policy.end_ids.end(), ids.back()) !=
                             policy.end_ids.end();
}

// nullopt: the template does not show the answer as it was drawn.
std::optional<AnswerPlace> PlaceOf(const ServedPolicy& policy, const std::string& text,
                                   const KnownAnswer& answer, int nonce) {
  const std::string content = Mark(nonce, 'c', answer.message);
  const size_t at = text.find(content);
  if (at == std::string::npos || Occurrences(text, content) != 1) return std::nullopt;
  AnswerPlace place{&answer, at, at + content.size()};
  if (answer.reasoning) {
    const std::string reasoning = Mark(nonce, 'r', answer.message);
    place.begin = text.find(reasoning);
    if (place.begin == 0 || place.begin >= at || Occurrences(text, reasoning) != 1)
      return std::nullopt;
    // The tag belongs to the template where the prompt opened the think block, else to the model.
    const std::string drawn = policy.tokenizer.Decode(answer.ids);
    const size_t first = drawn.find_first_not_of(" \t\r\n");
    if (first != std::string::npos && drawn.compare(first, kThink.size(), kThink) == 0) {
      const size_t space = text.find_last_not_of(" \t\r\n", place.begin - 1);
      if (space == std::string::npos || space + 1 < kThink.size()) return std::nullopt;
      const size_t tag = space + 1 - kThink.size();
      if (text.compare(tag, kThink.size(), kThink) != 0) return std::nullopt;
      place.begin = tag;
    }
  }
  // The model's own end of turn takes the place of the template's.
  if (answer.tail.empty() && EndsTurn(policy, answer.ids)) {
    place.end += SpecialAt(policy.tokenizer, text, place.end);
  }
  return place;
}

// The part [begin, end) of a rendered text, with `before` from outside in front.
Rendered PartOf(const Rendered& whole, size_t begin, size_t end, std::string_view before) {
  Rendered part;
  part.text = std::string(before) + whole.text.substr(begin, end - begin);
  if (!before.empty()) part.outside.push_back({0, before.size()});
  for (const TextSpan& span : whole.outside) {
    const size_t from = std::max(span.begin, begin), to = std::min(span.end, end);
    if (from >= to) continue;
    const size_t shift = before.size();
    part.outside.push_back({from - begin + shift, to - begin + shift});
  }
  return part;
}

Result<BuiltPrompt> Assemble(const ServedPolicy& policy, const Rendered& rendered,
                             const std::vector<AnswerPlace>& places, size_t tokens_max) {
  BuiltPrompt prompt;
  size_t at = 0;
  std::string_view tail;
  auto encode_up_to = [&](size_t end) -> Status {
    const Rendered part = PartOf(rendered, at, end, tail);
    const size_t room = tokens_max - std::min(tokens_max, prompt.ids.size());
    TM_ASSIGN_OR_RETURN(const Tokenizer::Bounded encoded,
                        policy.tokenizer.EncodeBounded(part.text, part.outside, room));
    prompt.ids.insert(prompt.ids.end(), encoded.ids.begin(), encoded.ids.end());
    prompt.more += encoded.more;
    return Ok();
  };
  for (const AnswerPlace& place : places) {
    TM_RETURN_IF_ERROR(encode_up_to(place.begin));
    const KnownAnswer& answer = *place.answer;
    prompt.ids.insert(prompt.ids.end(), answer.ids.begin(), answer.ids.end());
    at = place.end;
    tail = answer.tail;
  }
  TM_RETURN_IF_ERROR(encode_up_to(rendered.text.size()));
  prompt.thinking_open = LeavesThinkingOpen(rendered.text);
  return prompt;
}

}  // namespace

Result<BuiltPrompt> TemplatePromptBuilder::Build(const ChatRequest& request,
                                                 const WireJson& messages,
                                                 const std::vector<KnownAnswer>& answers,
                                                 int64_t wall_ms, size_t tokens_max) const {
  ChatRequest asked = request;
  std::vector<const KnownAnswer*> marked;
  for (const KnownAnswer& answer : answers) {
    if (!answer.ids.empty()) marked.push_back(&answer);
  }
  for (int nonce = 0; nonce < kMarkTries; ++nonce) {
    asked.messages = messages;
    for (const KnownAnswer* answer : marked) {
      asked.messages[answer->message] = Marked(*answer, nonce);
    }
    auto rendered = RenderConversation(policy_, asked, wall_ms);
    if (!rendered.ok()) {
      // Without marks it is the client's own conversation that is refused.
      if (marked.empty()) return rendered.status();
      marked.clear();
      continue;
    }
    std::vector<AnswerPlace> places;
    std::vector<const KnownAnswer*> shown;
    for (const KnownAnswer* answer : marked) {
      const auto place = PlaceOf(policy_, rendered->text, *answer, nonce);
      if (!place || (!places.empty() && place->begin < places.back().end)) continue;
      places.push_back(*place);
      shown.push_back(answer);
    }
    if (places.size() == marked.size()) {
      auto prompt = Assemble(policy_, *rendered, places, tokens_max);
      if (prompt.ok() && prompt->ids.empty() && prompt->more == 0) {
        return Invalid("the template renders nothing of the conversation");
      }
      return prompt;
    }
    // A mark that occurs twice is a text of the client's that looks like it: the next number helps.
    // One that is missing is left out for good.
    std::erase_if(marked, [&](const KnownAnswer* answer) {
      const std::string mark = Mark(nonce, 'c', answer->message);
      const bool twice = Occurrences(rendered->text, mark) > 1 ||
                         Occurrences(rendered->text, Mark(nonce, 'r', answer->message)) > 1;
      return !twice && std::find(shown.begin(), shown.end(), answer) == shown.end();
    });
    if (nonce + 2 == kMarkTries) marked.clear();
  }
  return Internal("a conversation could not be rendered with its answers marked");
}

Result<TurnPrompt> TemplatePromptBuilder::Encode(const ChatRequest& request,
                                                 size_t tokens_max) const {
  return EncodeRawPrompts(policy_, request, tokens_max);
}

size_t TemplatePromptBuilder::CountTokens(const std::string& text) const {
  return policy_.tokenizer.Encode(text, SpecialTokens::kAsText).size();
}

std::string TemplatePromptBuilder::BytesOf(TokenId id) const {
  return std::string(policy_.tokenizer.TokenBytes(id));
}

}  // namespace tidemill
