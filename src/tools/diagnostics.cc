#include "tools/diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/text.h"

namespace tidemill {
namespace {

constexpr size_t kMessageMax = 500;

// Takes "123" or "123:" off the front; false if there is no number.
bool TakeNumber(std::string_view* text, uint32_t* number) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  if (error != std::errc()) return false;
  const size_t digits = static_cast<size_t>(end - text->data());
  if (digits >= text->size() || (*text)[digits] != ':') return false;
  text->remove_prefix(digits + 1);
  return true;
}

bool TakeSeverity(std::string_view* text, std::string* severity) {
  while (text->starts_with(' ')) text->remove_prefix(1);
  if (text->starts_with("fatal ")) text->remove_prefix(6);
  for (const std::string_view word :
       {"error", "warning", "note", "style", "performance", "portability", "information"}) {
    if (text->starts_with(word) && text->size() > word.size() && (*text)[word.size()] == ':') {
      *severity = word == "performance" || word == "portability" ? "warning"
                  : word == "information"                        ? "note"
                                                                 : word;
      text->remove_prefix(word.size() + 1);
      while (text->starts_with(' ')) text->remove_prefix(1);
      return true;
    }
  }
  return false;
}

bool ParseLine(std::string_view line, v1::Diagnostic* diagnostic) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  std::string_view file = line.substr(0, colon);
  if (file.starts_with("./")) file.remove_prefix(2);
  std::string_view rest = line.substr(colon + 1);
  uint32_t row = 0, column = 0;
  if (TakeNumber(&rest, &row)) (void)TakeNumber(&rest, &column);
  std::string severity;
  const size_t undefined = line.find("undefined reference to ");
  if (TakeSeverity(&rest, &severity)) {
    diagnostic->set_message(ToUtf8(rest.substr(0, kMessageMax)));
  } else if (undefined != std::string_view::npos) {
    severity = "error";
    diagnostic->set_message(ToUtf8(line.substr(undefined, kMessageMax)));
  } else {
    return false;
  }
  diagnostic->set_file(ToUtf8(file));
  diagnostic->set_line(row);
  diagnostic->set_column(column);
  diagnostic->set_severity(severity);
  return true;
}

int Rank(const v1::Diagnostic& diagnostic) {
  return diagnostic.severity() == "error" ? 0 : diagnostic.severity() == "note" ? 2 : 1;
}

std::string OneLine(const v1::Diagnostic& d) {
  std::string place = d.file();
  if (d.line() != 0) place += fmt::format(":{}", d.line());
  if (d.column() != 0) place += fmt::format(":{}", d.column());
  return fmt::format("{}: {}: {}\n", place, d.severity(), d.message());
}

}  // namespace

std::vector<v1::Diagnostic> ParseDiagnostics(std::string_view text, size_t max) {
  std::vector<v1::Diagnostic> found;
  while (!text.empty() && found.size() < max) {
    const size_t end = text.find('\n');
    v1::Diagnostic diagnostic;
    if (ParseLine(text.substr(0, end), &diagnostic)) found.push_back(std::move(diagnostic));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return found;
}

bool TakeCppcheckIds(std::vector<v1::Diagnostic>* diagnostics) {
  constexpr std::string_view kGaveUp[] = {
      "syntaxError",       "unknownMacro",         "preprocessorErrorDirective",
      "internalError",     "internalAstError",     "cppcheckError",
      "toomanyconfigs",    "noValidConfiguration", "ConfigurationNotChecked",
      "instantiationError"};
  bool gave_up = false;
  std::erase_if(*diagnostics, [&](v1::Diagnostic& d) {
    const std::string& message = d.message();
    const size_t open = message.rfind(" [");
    if (open == std::string::npos || !message.ends_with(']')) {
      gave_up = true;  // cut short: what it was cannot be told
      return false;
    }
    const std::string id = message.substr(open + 2, message.size() - open - 3);
    const bool stopped = std::find(std::begin(kGaveUp), std::end(kGaveUp), id) != std::end(kGaveUp);
    gave_up = gave_up || stopped;
    d.set_message(message.substr(0, open));
    return !stopped && d.severity() == "note";
  });
  return gave_up;
}

size_t CountSeverity(const std::vector<v1::Diagnostic>& diagnostics, std::string_view severity) {
  return static_cast<size_t>(
      std::count_if(diagnostics.begin(), diagnostics.end(),
                    [&](const v1::Diagnostic& d) { return d.severity() == severity; }));
}

std::string DiagnosticsText(const std::vector<v1::Diagnostic>& diagnostics, size_t bytes) {
  std::vector<const v1::Diagnostic*> order;
  for (const v1::Diagnostic& d : diagnostics) order.push_back(&d);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return Rank(*a) < Rank(*b); });
  constexpr size_t kRoomForTheRest = 24;
  std::string text;
  for (size_t i = 0; i < order.size(); ++i) {
    const std::string line = OneLine(*order[i]);
    const bool last = i + 1 == order.size();
    if (text.size() + line.size() + (last ? 0 : kRoomForTheRest) > bytes) {
      const std::string rest = fmt::format("{} more\n", order.size() - i);
      return text.empty() ? CutText(line, bytes) : text + rest;
    }
    text += line;
  }
  return text;
}

std::string CutText(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return std::string(text);
  const std::string mark = fmt::format("\n[.. {} bytes cut ..]\n", text.size() - bytes);
  if (bytes <= mark.size() + 16) return ToUtf8(text.substr(0, bytes));
  const size_t room = bytes - mark.size();
  const size_t head = room * 3 / 4, tail = room - head;
  const auto continues = [&](size_t at) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
  };
  size_t head_end = head;
  while (head_end > 0 && continues(head_end)) --head_end;
  size_t tail_start = text.size() - tail;
  while (tail_start < text.size() && continues(tail_start)) ++tail_start;
  return std::string(text.substr(0, head_end)) + mark + std::string(text.substr(tail_start));
}

}  // namespace tidemill
