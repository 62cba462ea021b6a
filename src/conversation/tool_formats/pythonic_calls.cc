// Calls as a list in Python: [f(a=1, b="x"), g()].
#include <cctype>

#include "conversation/tool_formats/call_reader.h"
#include "conversation/tool_formats/python_literal.h"

namespace tidemill {
namespace {

constexpr size_t kNameBytesMax = 256;

bool IsIdentifierByte(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

class PythonicCallReader final : public CallReader {
 public:
  explicit PythonicCallReader(std::string opened) : held_(std::move(opened)) {}

  Outcome Push(char c, OutputSink& sink) override {
    if (state_ == State::kValue) return ValueByte(c, sink);
    if (held_.size() >= 4 * kNameBytesMax) return Outcome::kStop;
    const Outcome outcome = Between(c, sink);
    if (outcome == Outcome::kMore && !given_out_) held_ += c;
    if (given_out_ || outcome == Outcome::kDone) held_.clear();
    given_out_ = false;
    return outcome;
  }
  const std::string& Held() const override { return held_; }
  bool EndsWell() const override { return state_ == State::kAfterCall; }

 private:
  enum class State : uint8_t {
    kName,       // a function's name, then "("
    kFirstKey,   // ")" or the first keyword, then "="
    kValue,      // a keyword's value
    kNextKey,    // ")" or a further keyword, then "="
    kAfterCall,  // "," or "]"
  };

  Outcome Between(char c, OutputSink& sink) {
    if (state_ == State::kAfterCall) {
      if (IsJsonSpace(c)) return Outcome::kMore;
      if (c == ',') state_ = State::kName;
      return c == ',' ? Outcome::kMore : c == ']' ? Outcome::kDone : Outcome::kStop;
    }
    const bool in_name = state_ == State::kName;
    if (IsJsonSpace(c)) {
      word_ended_ = !word_.empty();
      return Outcome::kMore;
    }
    if (IsIdentifierByte(c) || (in_name && c == '.')) {
      const bool starts_wrong = word_.empty() && (c == '.' || (c >= '0' && c <= '9'));
      if (word_ended_ || starts_wrong || word_.size() >= kNameBytesMax) return Outcome::kStop;
      word_ += c;
      return Outcome::kMore;
    }
    word_ended_ = false;
    if (in_name) {
      if (c != '(' || word_.empty()) return Outcome::kStop;
      name_ = std::exchange(word_, {});
      state_ = State::kFirstKey;
      return Outcome::kMore;
    }
    return KeyEnd(c, sink);
  }

  // "=" behind a keyword, or the call's end.
  Outcome KeyEnd(char c, OutputSink& sink) {
    const bool first = state_ == State::kFirstKey;
    const bool ends = c == ')' && word_.empty();
    if (!ends && (c != '=' || word_.empty())) return Outcome::kStop;
    if (first) {
      sink.BeginCall(name_);
      sink.Arguments("{");
    }
    given_out_ = true;
    if (ends) {
      sink.Arguments("}");
      sink.EndCall();
      state_ = State::kAfterCall;
      return Outcome::kMore;
    }
    sink.Arguments((first ? "\"" : ", \"") + std::exchange(word_, {}) + "\": ");
    literal_ = PythonLiteral();
    state_ = State::kValue;
    return Outcome::kMore;
  }

  Outcome ValueByte(char c, OutputSink& sink) {
    std::string json;
    const PythonLiteral::Step step = literal_.Push(c, json);
    const bool too_long = held_.size() >= 4 * kNameBytesMax;
    if (step == PythonLiteral::Step::kError || too_long) return Outcome::kStop;
    // White space around a value is layout, but between the parts of it it may be given out.
    held_ += c;
    if (!json.empty() || step == PythonLiteral::Step::kDone) held_.clear();
    if (!json.empty()) sink.Arguments(json);
    if (step == PythonLiteral::Step::kMore) return Outcome::kMore;
    state_ = State::kNextKey;
    if (c == ')') {
      sink.Arguments("}");
      sink.EndCall();
      state_ = State::kAfterCall;
    }
    return Outcome::kMore;
  }

  std::string held_;
  std::string word_;
  std::string name_;
  PythonLiteral literal_;
  State state_ = State::kName;
  bool word_ended_ = false;
  bool given_out_ = false;
};

}  // namespace

std::unique_ptr<CallReader> NewPythonicCallReader(std::string opened) {
  return std::make_unique<PythonicCallReader>(std::move(opened));
}

}  // namespace tidemill
