#include "conversation/jinja/chat_template.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "conversation/jinja/interpreter.h"
#include "conversation/jinja/lexer.h"
#include "conversation/jinja/syntax.h"
#include "core/text.h"

namespace tidemill {
namespace {

constexpr size_t kSourceBytesMax = size_t{4} << 20;

bool IsDate(const CivilTime& t) {
  constexpr int kDays[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return t.year >= 1 && t.year <= 9999 && t.month >= 1 && t.month <= 12 && t.day >= 1 &&
         t.day <= kDays[t.month - 1] && t.hour >= 0 && t.hour < 24 && t.minute >= 0 &&
         t.minute < 60 && t.second >= 0 && t.second < 60;
}

}  // namespace

struct ChatTemplate::Impl {
  std::string name;
  std::string source;      // as it was given
  std::string normalized;  // as it is read
  JinjaProgram program;
};

CivilTime LocalTime(int64_t unix_seconds) {
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm tm = {};
  localtime_r(&seconds, &tm);
  return {tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec};
}

Result<CivilTime> ParseCivilTime(std::string_view text) {
  CivilTime t;
  int used = 0;
  const std::string copy(text);
  const int fields = std::sscanf(copy.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d%n", &t.year, &t.month,
                                 &t.day, &t.hour, &t.minute, &t.second, &used);
  if (fields != 6 || static_cast<size_t>(used) != text.size() || !IsDate(t)) {
    return Invalid("\"" + Beginning(text, 40) +
                   "\" is not a date and time, such as 2025-03-14T09:26:53");
  }
  return t;
}

Result<ChatTemplate> ChatTemplate::Parse(std::string_view source, std::string_view name) {
  const std::string called(name);
  if (source.size() > kSourceBytesMax) {
    return Invalid(called + ": a template of more than " + std::to_string(kSourceBytesMax) +
                   " bytes");
  }
  if (!IsUtf8(source)) return Invalid(called + ": the template is not UTF-8");
  auto impl = std::make_shared<Impl>();
  impl->name = called;
  impl->source = source;
  impl->normalized = NormalizedSource(source);
  try {
    impl->program = ParseProgram(impl->normalized);
  } catch (const JinjaSyntaxError& error) {
    const auto end = impl->normalized.begin() +
                     static_cast<std::ptrdiff_t>(std::min(error.at, impl->normalized.size()));
    const auto line = std::count(impl->normalized.begin(), end, '\n') + 1;
    return Invalid(called + ":" + std::to_string(line) + ": " + error.message);
  }
  return ChatTemplate(std::move(impl));
}

Result<Rendered> ChatTemplate::Render(const RenderInput& input) const {
  if (!IsDate(input.now)) return Invalid(impl_->name + ": the time is not a date");
  try {
    return JinjaInterpreter(impl_->program, impl_->normalized, impl_->name, input).Run();
  } catch (const JinjaError& error) {
    return Invalid(error.placed ? error.message : impl_->name + ": " + error.message);
  }
}

std::string_view ChatTemplate::source() const {
  return impl_->source;
}

}  // namespace tidemill
