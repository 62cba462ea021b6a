#include "conversation/tool_formats/output_parser.h"

#include <algorithm>
#include <span>

#include "conversation/tool_formats/call_reader.h"

namespace tidemill {
namespace {

constexpr std::string_view kThink = "<think>";
constexpr std::string_view kThinkEnd = "</think>";
constexpr std::string_view kToolCall = "<tool_call>";
constexpr std::string_view kToolCallEnd = "</tool_call>";
constexpr std::string_view kFunctionTag = "<function=";
constexpr std::string_view kPythonTag = "<|python_tag|>";
constexpr size_t kLayoutMax = 2;

std::span<const std::string_view> MarkersOf(ToolFormat format) {
  static constexpr std::string_view kHermes[] = {kToolCall};
  static constexpr std::string_view kCoder[] = {kToolCall, kFunctionTag};
  static constexpr std::string_view kLlama[] = {kPythonTag, "{"};
  static constexpr std::string_view kPythonic[] = {"<|python_tag|>[", "["};
  switch (format) {
    case ToolFormat::kNone:
      break;
    case ToolFormat::kHermesJson:
      return kHermes;
    case ToolFormat::kQwenCoderXml:
      return kCoder;
    case ToolFormat::kLlama3Json:
      return kLlama;
    case ToolFormat::kLlamaPythonic:
      return kPythonic;
  }
  return {};
}

}  // namespace

void OutputSink::Add(OutputEvent::Kind kind, std::string_view text, int call) {
  if (text.empty()) return;
  if (!events_.empty() && events_.back().kind == kind && events_.back().call == call) {
    events_.back().text.append(text);
  } else {
    events_.push_back({kind, std::string(text), call});
  }
}

void OutputSink::Drain(std::vector<OutputEvent>& out) {
  std::move(events_.begin(), events_.end(), std::back_inserter(out));
  events_.clear();
}

void AppendJsonEscaped(std::string_view text, std::string& out) {
  constexpr char kDigits[] = "0123456789abcdef";
  constexpr std::string_view kShort = "\"\\\n\r\t\b\f";
  constexpr std::string_view kNames = "\"\\nrtbf";
  for (const char c : text) {
    const size_t i = kShort.find(c);
    if (i != std::string_view::npos) {
      out += '\\';
      out += kNames[i];
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00";
      out += kDigits[static_cast<unsigned char>(c) >> 4];
      out += kDigits[c & 15];
    } else {
      out += c;
    }
  }
}

OutputParser::OutputParser(OutputParserOptions options)
    : options_(std::move(options)), sink_(std::make_unique<OutputSink>()) {
  if (options_.thinking_open) state_ = State::kThinking;
}
OutputParser::~OutputParser() = default;
OutputParser::OutputParser(OutputParser&&) noexcept = default;

void OutputParser::Push(std::string_view delta, std::vector<OutputEvent>& events) {
  for (const char c : delta) Byte(c);
  sink_->Drain(events);
}

void OutputParser::Byte(char c) {
  switch (state_) {
    case State::kThinking:
      return ThinkingByte(c);
    case State::kCall:
      return CallByte(c);
    case State::kStart:
    case State::kText:
      return TextByte(c);
  }
}

bool OutputParser::CallMayStart(std::string_view marker) const {
  // A bare bracket opens a call only where the answer begins, or right behind another call.
  return marker.size() > 1 || !wrote_text_ || after_call_;
}

bool OutputParser::MayBecomeMarker() const {
  if (state_ == State::kStart && options_.format.thinking && kThink.starts_with(held_)) return true;
  const auto markers = MarkersOf(options_.format.tools);
  return std::any_of(markers.begin(), markers.end(), [&](std::string_view marker) {
    return marker.starts_with(held_) && CallMayStart(marker);
  });
}

bool OutputParser::TakeMarker() {
  if (state_ == State::kStart && options_.format.thinking && held_ == kThink) {
    held_.clear();
    layout_.clear();
    skip_ = kLayoutMax;
    state_ = State::kThinking;
    return true;
  }
  for (const std::string_view marker : MarkersOf(options_.format.tools)) {
    if (held_ != marker || !CallMayStart(marker)) continue;
    held_.clear();
    StartCall(marker);
    return true;
  }
  return false;
}

void OutputParser::StartCall(std::string_view marker) {
  std::string opened(marker);
  switch (options_.format.tools) {
    case ToolFormat::kNone:
      return;
    case ToolFormat::kHermesJson:
      reader_ =
          NewJsonCallReader(std::move(opened), std::string(kToolCallEnd), options_.held_bytes_max);
      break;
    case ToolFormat::kQwenCoderXml:
      reader_ = NewXmlCallReader(std::move(opened), options_.tools, options_.held_bytes_max);
      break;
    case ToolFormat::kLlama3Json:
      reader_ = NewJsonCallReader(std::move(opened), "", options_.held_bytes_max);
      break;
    case ToolFormat::kLlamaPythonic:
      reader_ = NewPythonicCallReader(std::move(opened));
      break;
  }
  calls_before_ = sink_->calls();
  state_ = State::kCall;
}

void OutputParser::FlushLayout() {
  if (layout_.empty()) return;
  sink_->Text(layout_);
  layout_.clear();
}

void OutputParser::EmitText(char c) {
  if (c == '\n' && skip_ > 0) {
    --skip_;
    return;
  }
  skip_ = 0;
  const bool between = after_call_ && options_.format.tools == ToolFormat::kLlama3Json;
  if (c == '\n' || (between && (c == ';' || c == ' '))) {
    if (layout_.size() >= kLayoutMax) {
      sink_->Text(layout_.substr(0, 1));
      layout_.erase(0, 1);
    }
    layout_ += c;
    return;
  }
  FlushLayout();
  sink_->Text(std::string_view(&c, 1));
  wrote_text_ = true;
  after_call_ = false;
  state_ = State::kText;
}

void OutputParser::TextByte(char c) {
  held_ += c;
  while (!held_.empty()) {
    if (TakeMarker() || MayBecomeMarker()) return;
    const char first = held_[0];
    held_.erase(0, 1);
    EmitText(first);
  }
}

void OutputParser::ThinkingByte(char c) {
  if (c == '\n' && skip_ > 0 && held_.empty()) {
    --skip_;
    return;
  }
  skip_ = 0;
  held_ += c;
  // Line ends before the closing tag, at most two, belong to it.
  while (!held_.empty()) {
    const size_t ends = std::min(held_.find_first_not_of('\n'), held_.size());
    const std::string_view rest = std::string_view(held_).substr(ends);
    if (ends <= kLayoutMax && kThinkEnd.starts_with(rest)) {
      if (rest != kThinkEnd) return;
      held_.clear();
      skip_ = kLayoutMax;
      state_ = State::kText;
      return;
    }
    sink_->Reasoning(held_.substr(0, 1));
    held_.erase(0, 1);
  }
}

void OutputParser::EndCall() {
  const bool begun = sink_->calls() > calls_before_;
  if (begun) layout_.clear();
  if (!reader_->Held().empty()) {
    FlushLayout();
    sink_->Text(reader_->Held());
    wrote_text_ = true;
  }
  after_call_ = begun && reader_->Held().empty();
  reader_.reset();
  state_ = State::kText;
}

void OutputParser::CallByte(char c) {
  const CallReader::Outcome outcome = reader_->Push(c, *sink_);
  if (outcome == CallReader::Outcome::kMore) return;
  EndCall();
  if (outcome == CallReader::Outcome::kStop) TextByte(c);
}

void OutputParser::Finish(std::vector<OutputEvent>& events) {
  if (state_ == State::kCall) {
    if (reader_->EndsWell()) {
      reader_.reset();
      layout_.clear();
    } else {
      EndCall();
    }
  } else if (state_ == State::kThinking) {
    sink_->Reasoning(held_);
  } else {
    if (!after_call_ || !held_.empty()) FlushLayout();
    sink_->Text(held_);
  }
  held_.clear();
  layout_.clear();
  sink_->Drain(events);
}

}  // namespace tidemill
