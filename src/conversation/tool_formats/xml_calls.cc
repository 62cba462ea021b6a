// Calls as Qwen3-Coder writes them: <function=NAME><parameter=KEY>VALUE</parameter></function>.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "conversation/tool_formats/call_reader.h"

namespace tidemill {
namespace {

using SchemaJson = nlohmann::ordered_json;

constexpr size_t kTagBytesMax = 512;
constexpr std::string_view kFunction = "<function=";
constexpr std::string_view kParameter = "<parameter=";
constexpr std::string_view kFunctionEnd = "</function>";
constexpr std::string_view kParameterEnd = "</parameter>";
constexpr std::string_view kCallEnd = "</tool_call>";

const SchemaJson* MemberOf(const SchemaJson* object, const std::string& key) {
  if (object == nullptr || !object->is_object()) return nullptr;
  const auto it = object->find(key);
  return it == object->end() ? nullptr : &*it;
}

// The schema of a tool's parameter; null: none is given.
const SchemaJson* ParameterSchema(const SchemaJson& tools, const std::string& tool,
                                  const std::string& parameter) {
  if (!tools.is_array()) return nullptr;
  for (const SchemaJson& entry : tools) {
    const SchemaJson* function = MemberOf(&entry, "function");
    if (function == nullptr) function = &entry;
    const SchemaJson* name = MemberOf(function, "name");
    if (name == nullptr || *name != tool) continue;
    const SchemaJson* schema = MemberOf(function, "parameters");
    if (schema == nullptr) schema = MemberOf(function, "input_schema");
    return MemberOf(MemberOf(schema, "properties"), parameter);
  }
  return nullptr;
}

// The types a schema allows; empty: it does not say.
std::vector<std::string> TypesOf(const SchemaJson* schema) {
  std::vector<std::string> types;
  const SchemaJson* type = MemberOf(schema, "type");
  if (type != nullptr && type->is_string()) types.push_back(*type);
  if (type != nullptr && type->is_array()) {
    for (const SchemaJson& one : *type) {
      if (one.is_string()) types.push_back(one);
    }
  }
  return types;
}

std::string_view TypeOfJson(std::string_view text) {
  switch (text[0]) {
    case '{':
      return "object";
    case '[':
      return "array";
    case '"':
      return "string";
    case 't':
    case 'f':
      return "boolean";
    case 'n':
      return "null";
    default:
      return text.find_first_of(".eE") == std::string_view::npos ? "integer" : "number";
  }
}

// The JSON that a value stands for, or nothing: then it is a string.
std::string JsonOfValue(std::string_view value, const std::vector<std::string>& types) {
  while (!value.empty() && IsJsonSpace(value.front())) value.remove_prefix(1);
  while (!value.empty() && IsJsonSpace(value.back())) value.remove_suffix(1);
  std::string text(value);
  if (text == "True") text = "true";
  if (text == "False") text = "false";
  if (text == "None") text = "null";
  if (text.empty() || !SchemaJson::accept(text)) return "";
  const std::string_view type = TypeOfJson(text);
  const bool allowed = std::any_of(types.begin(), types.end(), [&](const std::string& one) {
    return one == type || (one == "number" && type == "integer");
  });
  if (!types.empty() ? allowed : type != "string") return text;
  return "";
}

class XmlCallReader final : public CallReader {
 public:
  XmlCallReader(std::string opened, const SchemaJson& tools, size_t held_max)
      : held_(std::move(opened)), tools_(tools), held_max_(held_max) {
    tagged_ = held_ != kFunction;
    if (!tagged_) tag_ = kFunction;
  }

  Outcome Push(char c, OutputSink& sink) override {
    switch (state_) {
      case State::kFunction:
        return FunctionByte(c, sink);
      case State::kBody:
        return BodyByte(c, sink);
      case State::kValue:
        return ValueByte(c, sink);
      case State::kClose:
        return CloseByte(c);
    }
    return Outcome::kStop;
  }
  const std::string& Held() const override { return held_; }
  bool EndsWell() const override { return state_ == State::kClose; }

 private:
  enum class State : uint8_t { kFunction, kBody, kValue, kClose };

  // Adds a byte of a tag; false: no tag that is expected begins so.
  bool TagByte(char c, std::initializer_list<std::string_view> expected) {
    if (tag_.size() >= kTagBytesMax) return false;
    tag_ += c;
    return std::any_of(expected.begin(), expected.end(), [&](std::string_view one) {
      if (tag_.size() <= one.size()) return one.starts_with(tag_);
      // Behind "=": a name, up to the end of the tag.
      return one.back() == '=' && tag_.starts_with(one) && c != '<' && c != '\n';
    });
  }
  bool NamedTagEnds(std::string_view kind) const {
    return tag_.size() > kind.size() + 1 && tag_.starts_with(kind) && tag_.back() == '>';
  }
  std::string TakeTagName(std::string_view kind) {
    std::string name = tag_.substr(kind.size(), tag_.size() - kind.size() - 1);
    tag_.clear();
    held_.clear();
    return name;
  }

  Outcome FunctionByte(char c, OutputSink& sink) {
    const bool space = tag_.empty() && IsJsonSpace(c);
    if (held_.size() >= 2 * kTagBytesMax || (!space && !TagByte(c, {kFunction}))) {
      return Outcome::kStop;
    }
    held_ += c;
    if (!space && NamedTagEnds(kFunction)) {
      function_ = TakeTagName(kFunction);
      sink.BeginCall(function_);
      sink.Arguments("{");
      state_ = State::kBody;
    }
    return Outcome::kMore;
  }

  Outcome BodyByte(char c, OutputSink& sink) {
    const bool space = tag_.empty() && IsJsonSpace(c);
    if (held_.size() >= 2 * kTagBytesMax || (!space && !TagByte(c, {kParameter, kFunctionEnd}))) {
      return Outcome::kStop;
    }
    held_ += c;
    if (tag_ == kFunctionEnd) {
      sink.Arguments("}");
      sink.EndCall();
      tag_.clear();
      held_.clear();
      state_ = State::kClose;
      return tagged_ ? Outcome::kMore : Outcome::kDone;
    }
    if (!space && NamedTagEnds(kParameter)) BeginValue(sink);
    return Outcome::kMore;
  }

  void BeginValue(OutputSink& sink) {
    const std::string key = TakeTagName(kParameter);
    std::string text = first_ ? "\"" : ", \"";
    first_ = false;
    AppendJsonEscaped(key, text);
    sink.Arguments(text + "\": ");
    const SchemaJson* schema = ParameterSchema(tools_, function_, key);
    types_ = TypesOf(schema);
    // Without a schema, or where only a string fits, it is given out as it comes.
    streamed_ = schema == nullptr || (types_.size() == 1 && types_[0] == "string");
    if (streamed_) sink.Arguments("\"");
    value_begins_ = true;
    state_ = State::kValue;
  }

  // held_ is the value that is kept back (of other types than strings), then what may be the
  // closing tag, with the line end before it, from candidate_ on.
  Outcome ValueByte(char c, OutputSink& sink) {
    if (std::exchange(value_begins_, false)) {
      candidate_ = 0;
      if (c == '\n') return Outcome::kMore;
    }
    held_ += c;
    while (candidate_ < held_.size() && !MayEndValue()) ++candidate_;
    const std::string_view candidate = std::string_view(held_).substr(candidate_);
    if (candidate.ends_with(kParameterEnd)) {
      EndValue(sink, std::string_view(held_).substr(0, candidate_));
      return Outcome::kMore;
    }
    if (!streamed_ && held_.size() >= held_max_) {
      streamed_ = true;  // too long to wait for: a string
      sink.Arguments("\"");
    }
    if (streamed_ && candidate_ > 0) {
      std::string text;
      AppendJsonEscaped(std::string_view(held_).substr(0, candidate_), text);
      sink.Arguments(text);
      held_.erase(0, candidate_);
      candidate_ = 0;
    }
    return Outcome::kMore;
  }

  bool MayEndValue() const {
    std::string_view rest = std::string_view(held_).substr(candidate_);
    if (rest.starts_with('\n')) rest.remove_prefix(1);
    return kParameterEnd.starts_with(rest);
  }

  void EndValue(OutputSink& sink, std::string_view value) {
    std::string text;
    if (!streamed_) text = JsonOfValue(value, types_);
    if (text.empty()) {
      if (!streamed_) text = "\"";
      AppendJsonEscaped(value, text);
      text += "\"";
    }
    sink.Arguments(text);
    held_.clear();
    state_ = State::kBody;
  }

  Outcome CloseByte(char c) {
    const bool space = tag_.empty() && IsJsonSpace(c);
    if (held_.size() >= 64 || (!space && !TagByte(c, {kCallEnd}))) return Outcome::kStop;
    held_ += c;
    if (tag_ != kCallEnd) return Outcome::kMore;
    held_.clear();
    return Outcome::kDone;
  }

  std::string held_;
  const SchemaJson& tools_;
  const size_t held_max_;
  std::string tag_;       // the tag so far
  std::string function_;  // the tool's name
  std::vector<std::string> types_;
  State state_ = State::kFunction;
  size_t candidate_ = 0;
  bool tagged_ = true;  // inside of <tool_call>
  bool first_ = true;   // no parameter yet
  bool streamed_ = true;
  bool value_begins_ = false;
};

}  // namespace

std::unique_ptr<CallReader> NewXmlCallReader(std::string opened, const SchemaJson& tools,
                                             size_t held_max) {
  return std::make_unique<XmlCallReader>(std::move(opened), tools, held_max);
}

}  // namespace tidemill
