#include "conversation/prompt.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>

namespace tidemill {
namespace {

using ChatJson = nlohmann::ordered_json;

constexpr std::string_view kThink = "<think>";
constexpr std::string_view kThinkEnd = "</think>";
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

// Whether the drawn ids hold a think block or its end, with or without a thought in it.
bool Thinks(const ModelChat& chat, const KnownAnswer& answer) {
  return answer.reasoning ||
         (chat.format.thinking &&
          chat.tokenizer.Decode(answer.ids).find(kThinkEnd) != std::string::npos);
}

// A message that the template writes like the answer, with marks for its texts. Its calls are left
// out: the drawn ids hold them.
ChatJson Marked(const ModelChat& chat, const KnownAnswer& answer, int nonce) {
  ChatJson message = {{"role", "assistant"}, {"content", Mark(nonce, 'c', answer.message)}};
  if (Thinks(chat, answer)) message["reasoning_content"] = Mark(nonce, 'r', answer.message);
  return message;
}

Result<Rendered> RenderMarked(const ModelChat& chat, RenderInput conversation,
                              const std::vector<const KnownAnswer*>& answers, int nonce) {
  for (const KnownAnswer* answer : answers) {
    conversation.messages[answer->message] = Marked(chat, *answer, nonce);
  }
  conversation.add_generation_prompt = true;
  return RenderChat(chat, std::move(conversation));
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

bool EndsTurn(const ModelChat& chat, const std::vector<TokenId>& ids) {
  return !ids.empty() &&
         std::find(chat.end_ids.begin(), chat.end_ids.end(), ids.back()) != chat.end_ids.end();
}

// nullopt: the template does not show the answer as it was drawn.
std::optional<AnswerPlace> PlaceOf(const ModelChat& chat, const std::string& text,
                                   const KnownAnswer& answer, int nonce) {
  const std::string content = Mark(nonce, 'c', answer.message);
  const size_t at = text.find(content);
  if (at == std::string::npos || Occurrences(text, content) != 1) return std::nullopt;
  AnswerPlace place{&answer, at, at + content.size()};
  if (Thinks(chat, answer)) {
    const std::string reasoning = Mark(nonce, 'r', answer.message);
    place.begin = text.find(reasoning);
    if (place.begin == 0 || place.begin >= at || Occurrences(text, reasoning) != 1)
      return std::nullopt;
    // The tag belongs to the template where the prompt opened the think block, else to the model.
    const std::string drawn = chat.tokenizer.Decode(answer.ids);
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
  if (answer.tail.empty() && EndsTurn(chat, answer.ids)) {
    place.end += SpecialAt(chat.tokenizer, text, place.end);
  }
  return place;
}

// The ids of the part [begin, end) of a rendered text, with `before` from outside in front; `most`
// of them.
Result<Tokenizer::Bounded> PartIds(const ModelChat& chat, const Rendered& whole, size_t begin,
                                   size_t end, std::string_view before, size_t most) {
  Rendered part;
  part.text = std::string(before) + whole.text.substr(begin, end - begin);
  if (!before.empty()) part.outside.push_back({0, before.size()});
  for (const TextSpan& span : whole.outside) {
    const size_t from = std::max(span.begin, begin), to = std::min(span.end, end);
    if (from >= to) continue;
    const size_t shift = before.size();
    part.outside.push_back({from - begin + shift, to - begin + shift});
  }
  return chat.tokenizer.EncodeBounded(part.text, part.outside, most);
}

Result<BuiltPrompt> Assemble(const ModelChat& chat, const Rendered& rendered,
                             const std::vector<AnswerPlace>& places, size_t tokens_max) {
  BuiltPrompt prompt;
  size_t at = 0;
  std::string_view tail;
  auto encode_up_to = [&](size_t end) -> Status {
    const size_t room = tokens_max - std::min(tokens_max, prompt.ids.size());
    TM_ASSIGN_OR_RETURN(const Tokenizer::Bounded encoded,
                        PartIds(chat, rendered, at, end, tail, room));
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

std::vector<const KnownAnswer*> WithIds(const std::vector<KnownAnswer>& answers) {
  std::vector<const KnownAnswer*> marked;
  for (const KnownAnswer& answer : answers) {
    if (!answer.ids.empty()) marked.push_back(&answer);
  }
  return marked;
}

}  // namespace

Result<BuiltPrompt> BuildPrompt(const ModelChat& chat, const RenderInput& conversation,
                                const std::vector<KnownAnswer>& answers, size_t tokens_max) {
  std::vector<const KnownAnswer*> marked = WithIds(answers);
  for (int nonce = 0; nonce < kMarkTries; ++nonce) {
    auto rendered = RenderMarked(chat, conversation, marked, nonce);
    if (!rendered.ok()) {
      // Without marks it is the client's own conversation that is refused.
      if (marked.empty()) return rendered.status();
      marked.clear();
      continue;
    }
    std::vector<AnswerPlace> places;
    std::vector<const KnownAnswer*> shown;
    for (const KnownAnswer* answer : marked) {
      const auto place = PlaceOf(chat, rendered->text, *answer, nonce);
      if (!place || (!places.empty() && place->begin < places.back().end)) continue;
      places.push_back(*place);
      shown.push_back(answer);
    }
    if (places.size() == marked.size()) {
      auto prompt = Assemble(chat, *rendered, places, tokens_max);
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

Result<NextPrompt> ContinuePrompt(const ModelChat& chat, const RenderInput& conversation,
                                  const std::vector<KnownAnswer>& answers) {
  const KnownAnswer& last = answers.back();
  std::vector<const KnownAnswer*> marked = WithIds(answers);
  RenderInput earlier = conversation;
  ChatJson& messages = earlier.messages;
  messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(last.message), messages.end());
  const auto whole = RenderMarked(chat, conversation, marked, 0);
  std::erase(marked, &last);
  const auto before = RenderMarked(chat, earlier, marked, 0);
  if (whole.ok() && before.ok() && whole->text.starts_with(before->text)) {
    const auto place = PlaceOf(chat, whole->text, last, 0);
    if (place && place->begin == before->text.size()) {
      TM_ASSIGN_OR_RETURN(Tokenizer::Bounded behind,
                          PartIds(chat, *whole, place->end, whole->text.size(), last.tail,
                                  std::numeric_limits<size_t>::max()));
      return NextPrompt{.ids = std::move(behind.ids),
                        .thinking_open = LeavesThinkingOpen(whole->text)};
    }
  }
  TM_ASSIGN_OR_RETURN(BuiltPrompt prompt, BuildPrompt(chat, conversation, answers));
  return NextPrompt{
      .ids = std::move(prompt.ids), .anew = true, .thinking_open = prompt.thinking_open};
}

}  // namespace tidemill
