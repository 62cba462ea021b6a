#include "gateway/turn_reader.h"

#include <algorithm>
#include <utility>

#include "conversation/written_turn.h"
#include "core/text.h"

namespace tidemill {
namespace {

// How many of the last bytes are the beginning of a character whose rest is missing.
size_t OpenCharacter(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;  // goes on with one that began earlier
    const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

}  // namespace

void AppendEvent(OutputEvent event, std::vector<OutputEvent>& events) {
  const bool grows = event.kind != OutputEvent::Kind::kCallBegin &&
                     event.kind != OutputEvent::Kind::kCallEnd && !events.empty() &&
                     events.back().kind == event.kind && events.back().call == event.call;
  if (grows) {
    events.back().text += event.text;
  } else {
    events.push_back(std::move(event));
  }
}

TurnReaderOptions ReaderOptionsFor(const ServedPolicy& policy, const ChatRequest& request,
                                   bool thinking_open) {
  TurnReaderOptions options;
  options.records = request.sampling.logprobs || request.return_token_ids;
  if (HasRawPrompts(request.api)) return options;
  options.parser.format = policy.format;
  options.parser.thinking_open = thinking_open;
  if (request.tools.empty() || request.tool_choice.kind == ToolChoice::Kind::kNone) {
    options.parser.format.tools = ToolFormat::kNone;
  } else {
    options.parser.tools = request.tools;
    options.one_call = !request.parallel_tool_calls;
  }
  return options;
}

TurnReader::TurnReader(const ServedPolicy& policy, TurnReaderOptions options)
    : policy_(policy), options_(std::move(options)), parser_(options_.parser) {}

void TurnReader::Record(const TurnOutput& part, AnswerDelta& out) const {
  size_t run = 0, versioned = 0;
  for (const TokenVersionRun& r : part.versions) versioned += r.tokens;
  // Else they are of tokens that were told before, too.
  const bool own_versions = versioned == part.ids.size();
  uint32_t left = part.versions.empty() ? 0 : part.versions[0].tokens;
  for (size_t i = 0; i < part.ids.size(); ++i) {
    while (left == 0 && run + 1 < part.versions.size()) left = part.versions[++run].tokens;
    if (left > 0) --left;
    TokenRecord record{.id = part.ids[i],
                       .bytes = std::string(policy_.tokenizer.TokenBytes(part.ids[i])),
                       .draw_logprob = part.logprobs[i]};
    record.logprob = i < part.model_logprobs.size() ? part.model_logprobs[i] : record.draw_logprob;
    if (own_versions && !part.versions.empty()) record.version = part.versions[run].version;
    if (i < part.top.size()) {
      for (const TokenLogprob& top : part.top[i]) {
        record.top.push_back({.id = top.id,
                              .bytes = std::string(policy_.tokenizer.TokenBytes(top.id)),
                              .logprob = top.logprob});
      }
    }
    out.tokens.push_back(std::move(record));
  }
}

AnswerDelta TurnReader::Push(const TurnOutput& part, bool done) {
  AnswerDelta out;
  if (options_.records) Record(part, out);
  const bool by_stop_id = done && part.finish == TurnFinish::kStop && part.stop.string < 0;
  for (size_t i = 0; i < part.ids.size(); ++i) {
    const bool forced = i < part.forced;
    const bool ends = by_stop_id && i + 1 == part.ids.size();
    const std::string_view bytes = policy_.tokenizer.TokenBytes(part.ids[i]);
    Unread& token = unread_.emplace_back();
    if (!ends && IsAnswerText(policy_.tokenizer, options_.parser.format, part.ids[i]))
      token.bytes = bytes;
    token.drawn = forced ? 0 : static_cast<uint32_t>(bytes.size());
    drawn_ += token.drawn;
  }
  uint64_t limit = drawn_ - std::min<uint64_t>(drawn_, part.held_bytes);
  if (done) limit = part.stop.string >= 0 ? part.stop.byte : drawn_;
  size_t taken = 0;
  for (; taken < unread_.size(); ++taken) {
    Unread& token = unread_[taken];
    if (read_ + token.drawn > limit) break;
    read_ += token.drawn;
    Read(token.bytes, out.events);
  }
  unread_.erase(unread_.begin(), unread_.begin() + static_cast<std::ptrdiff_t>(taken));
  if (!unread_.empty() && limit > read_) {
    // The limit lies inside of a token.
    Unread& token = unread_.front();
    const size_t cut = std::min<size_t>(limit - read_, token.bytes.size());
    Read(std::string_view(token.bytes).substr(0, cut), out.events);
    token.bytes.erase(0, cut);
    token.drawn -= static_cast<uint32_t>(limit - read_);
    read_ = limit;
  }
  if (done) Close(out.events);
  return out;
}

void TurnReader::Read(std::string_view bytes, std::vector<OutputEvent>& events) {
  if (closed_ || bytes.empty()) return;
  part_of_character_ += bytes;
  const size_t open = OpenCharacter(part_of_character_);
  const size_t whole = part_of_character_.size() - open;
  if (whole == 0) return;
  const std::string text = ToUtf8(std::string_view(part_of_character_).substr(0, whole));
  part_of_character_.erase(0, whole);
  std::vector<OutputEvent> fresh;
  parser_.Push(text, fresh);
  for (OutputEvent& event : fresh) {
    if (event.kind == OutputEvent::Kind::kReasoning && &event == &fresh.front()) {
      ++reasoning_tokens_;
    }
    const bool ends = options_.one_call && event.kind == OutputEvent::Kind::kCallEnd;
    AppendEvent(std::move(event), events);
    if (ends) {
      closed_ = true;
      return;
    }
  }
}

void TurnReader::Close(std::vector<OutputEvent>& events) {
  if (closed_) return;
  if (!part_of_character_.empty()) {
    parser_.Push(ToUtf8(std::exchange(part_of_character_, {})), events);
  }
  parser_.Finish(events);
  if (!options_.one_call) return;
  const auto end = std::find_if(events.begin(), events.end(), [](const OutputEvent& event) {
    return event.kind == OutputEvent::Kind::kCallEnd;
  });
  if (end == events.end()) return;
  events.erase(end + 1, events.end());
  closed_ = true;
}

}  // namespace tidemill
