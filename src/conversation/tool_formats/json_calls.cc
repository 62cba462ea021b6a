// Calls written as a JSON object: Hermes and Qwen (in <tool_call> tags), Llama 3 (bare).
#include <nlohmann/json.hpp>
#include <optional>

#include "conversation/tool_formats/call_reader.h"
#include "conversation/tool_formats/json_scanner.h"

namespace tidemill {
namespace {

using CallJson = nlohmann::ordered_json;

class HeaderText {
 public:
  explicit HeaderText(std::string_view text) : text_(text) {}
  bool Skip(std::string_view word) {
    Space();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  // A string with its quotes; nullopt: none is here.
  std::optional<std::string_view> String() {
    Space();
    const size_t begin = at_;
    if (!Skip("\"")) return std::nullopt;
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\\')
        ++at_;
      else if (text_[at_] == '"')
        return text_.substr(begin, ++at_ - begin);
    }
    return std::nullopt;
  }
  bool AtEnd() {
    Space();
    return at_ >= text_.size();
  }

 private:
  void Space() {
    while (at_ < text_.size() && IsJsonSpace(text_[at_])) ++at_;
  }
  std::string_view text_;
  size_t at_ = 0;
};

// The name in {"name": "..", "arguments": {  where the last brace ends the text.
std::optional<std::string> NameOfHeader(std::string_view object) {
  HeaderText header(object);
  if (!header.Skip("{")) return std::nullopt;
  if (header.Skip("\"type\"") &&
      !(header.Skip(":") && header.Skip("\"function\"") && header.Skip(","))) {
    return std::nullopt;
  }
  if (!header.Skip("\"name\"") || !header.Skip(":")) return std::nullopt;
  const auto name = header.String();
  if (!name || !header.Skip(",")) return std::nullopt;
  if (!header.Skip("\"arguments\"") && !header.Skip("\"parameters\"")) return std::nullopt;
  if (!header.Skip(":") || !header.Skip("{") || !header.AtEnd()) return std::nullopt;
  const auto parsed = CallJson::parse(*name, nullptr, false);
  if (!parsed.is_string() || parsed.get_ref<const std::string&>().empty()) return std::nullopt;
  return parsed.get<std::string>();
}

struct WholeCall {
  std::string name;
  std::string arguments;
};

// A call whose keys came in another order, or whose arguments are a string or missing.
std::optional<WholeCall> CallOfObject(std::string_view object) {
  const auto json = CallJson::parse(object, nullptr, false);
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string()) return std::nullopt;
  WholeCall call{json["name"].get<std::string>(), "{}"};
  if (call.name.empty()) return std::nullopt;
  size_t known = 1;
  if (json.contains("type")) known += json["type"] == "function" ? 1 : 0;
  for (const char* key : {"arguments", "parameters"}) {
    if (!json.contains(key)) continue;
    const CallJson& arguments = json[key];
    ++known;
    if (arguments.is_object()) {
      call.arguments = arguments.dump(-1, ' ', false, CallJson::error_handler_t::replace);
    } else if (arguments.is_string() &&
               CallJson::parse(arguments.get_ref<const std::string&>(), nullptr, false)
                   .is_object()) {
      call.arguments = arguments.get<std::string>();
    } else if (!arguments.is_null()) {
      return std::nullopt;
    }
  }
  // Other keys would be lost.
  return known == json.size() ? std::optional(std::move(call)) : std::nullopt;
}

class JsonCallReader final : public CallReader {
 public:
  JsonCallReader(std::string opened, std::string close, size_t held_max)
      : held_(std::move(opened)), close_(std::move(close)), held_max_(held_max) {
    object_at_ = held_.size();
    // A bare object: its brace is the marker.
    if (held_.ends_with('{')) {
      --object_at_;
      outer_.Push('{');
    }
  }

  Outcome Push(char c, OutputSink& sink) override {
    switch (state_) {
      case State::kHeader:
        return HeaderByte(c, sink);
      case State::kArguments:
        return ArgumentsByte(c, sink);
      case State::kBrace:
      case State::kClose:
        return TailByte(c);
    }
    return Outcome::kStop;
  }
  const std::string& Held() const override { return held_; }
  bool EndsWell() const override { return state_ == State::kBrace || state_ == State::kClose; }

 private:
  enum class State : uint8_t {
    kHeader,     // before the arguments; nothing was given out
    kArguments,  // given out as they come
    kBrace,      // behind the arguments: the object's end is to come
    kClose,      // behind the object: the closing tag is to come
  };

  Outcome HeaderByte(char c, OutputSink& sink) {
    const size_t before = outer_.depth();
    const JsonScanner::Step step = outer_.Push(c);
    const bool list = before == 0 && c == '[';
    if (step == JsonScanner::Step::kError || list || held_.size() >= held_max_) {
      return Outcome::kStop;
    }
    held_ += c;
    if (step == JsonScanner::Step::kDone) return WholeObject(sink);
    if (before != 1 || outer_.depth() != 2 || nested_) return Outcome::kMore;
    nested_ = true;  // only the first inner value can be streamed
    if (const auto name = NameOfHeader(std::string_view(held_).substr(object_at_))) {
      sink.BeginCall(*name);
      sink.Arguments("{");
      inner_.Push('{');
      held_.clear();
      state_ = State::kArguments;
    }
    return Outcome::kMore;
  }

  Outcome WholeObject(OutputSink& sink) {
    const auto call = CallOfObject(std::string_view(held_).substr(object_at_));
    if (!call) return Outcome::kDone;  // what is held is text
    sink.BeginCall(call->name);
    sink.Arguments(call->arguments);
    sink.EndCall();
    held_.clear();
    state_ = State::kClose;
    return close_.empty() ? Outcome::kDone : Outcome::kMore;
  }

  Outcome ArgumentsByte(char c, OutputSink& sink) {
    const JsonScanner::Step step = inner_.Push(c);
    if (step == JsonScanner::Step::kError) return Outcome::kStop;
    sink.Arguments(std::string_view(&c, 1));
    if (step == JsonScanner::Step::kDone) {
      sink.EndCall();
      state_ = State::kBrace;
    }
    return Outcome::kMore;
  }

  // White space, "}", white space, the closing tag.
  Outcome TailByte(char c) {
    if (held_.size() >= 64) return Outcome::kStop;
    if (matched_ == 0 && IsJsonSpace(c)) {
      held_ += c;
      return Outcome::kMore;
    }
    if (state_ == State::kBrace) {
      if (c != '}') return Outcome::kStop;
      held_.clear();
      state_ = State::kClose;
      return close_.empty() ? Outcome::kDone : Outcome::kMore;
    }
    if (c != close_[matched_]) return Outcome::kStop;
    held_ += c;
    if (++matched_ < close_.size()) return Outcome::kMore;
    held_.clear();
    return Outcome::kDone;
  }

  std::string held_;
  const std::string close_;
  const size_t held_max_;
  size_t object_at_ = 0;  // where the object begins in held_
  JsonScanner outer_;
  JsonScanner inner_;
  State state_ = State::kHeader;
  size_t matched_ = 0;  // bytes of the closing tag
  bool nested_ = false;
};

}  // namespace

std::unique_ptr<CallReader> NewJsonCallReader(std::string opened, std::string close,
                                              size_t held_max) {
  return std::make_unique<JsonCallReader>(std::move(opened), std::move(close), held_max);
}

}  // namespace tidemill
