#include "tools/tool_text.h"

#include <fmt/format.h>

#include <cstring>

#include "core/text.h"
#include "tools/diagnostics.h"

namespace tidemill {
namespace {

std::vector<v1::Diagnostic> Diagnostics(const v1::ToolResult& result) {
  return {result.diagnostics().begin(), result.diagnostics().end()};
}

// Adds `more` as far as there is room in `bytes` altogether.
void AddWithin(std::string* text, std::string_view more, size_t bytes) {
  if (text->size() < bytes) *text += CutText(more, bytes - text->size());
}

// "  input: ..." with long or many-lined values cut short.
std::string Field(std::string_view name, const std::string& value) {
  std::string shown = CutText(value, 200);
  while (!shown.empty() && shown.back() == '\n') shown.pop_back();
  const bool lines = shown.find('\n') != std::string::npos;
  return fmt::format("  {}:{}{}\n", name, lines ? "\n" : " ", shown);
}

}  // namespace

std::string EndingText(const v1::ToolResult& result, const BoxLimits& limits) {
  switch (result.outcome()) {
    case v1::OUTCOME_SIGNAL:
      return fmt::format("it was killed by signal {} ({})", result.exit_code(),
                         strsignal(result.exit_code()));
    case v1::OUTCOME_TIMEOUT:
      return fmt::format("stopped: it ran longer than {} s", Seconds(limits.wall));
    case v1::OUTCOME_CPU_LIMIT:
      return fmt::format("stopped: it used more than {} s of CPU time", Seconds(limits.cpu));
    case v1::OUTCOME_MEMORY_LIMIT:
      return fmt::format("stopped: it used more than {} MiB of memory", limits.memory_bytes >> 20);
    case v1::OUTCOME_OUTPUT_LIMIT:
      return fmt::format("stopped: it printed more than {} KiB", limits.output_bytes >> 10);
    case v1::OUTCOME_DISK_LIMIT:
      return fmt::format("stopped: it wrote more than {} MiB or too many files",
                         limits.disk_bytes >> 20);
    case v1::OUTCOME_PROCESS_LIMIT:
      return fmt::format("stopped: it started more than {} processes", limits.processes);
    case v1::OUTCOME_UNAVAILABLE:
      return "the tool is unavailable";
    case v1::OUTCOME_INVALID:
      return "the call was wrong: " + result.cause();
    default:
      return {};
  }
}

std::string CompileText(const v1::ToolResult& result, const BoxLimits& limits, size_t bytes) {
  const std::string ending = EndingText(result, limits);
  const auto diagnostics = Diagnostics(result);
  std::string text;
  if (!ending.empty()) {
    text = ending + "\n";
  } else if (result.compiled()) {
    const size_t warnings = CountSeverity(diagnostics, "warning");
    text = warnings == 0 ? "compiled\n" : fmt::format("compiled, {} warnings\n", warnings);
  } else {
    text = "compile failed\n";
  }
  if (!diagnostics.empty()) {
    if (text.size() < bytes) text += DiagnosticsText(diagnostics, bytes - text.size());
  } else if (!result.compiled()) {
    AddWithin(&text, ToUtf8(result.stderr_bytes()), bytes);
  }
  return CutText(text, bytes);
}

std::string LintText(const v1::ToolResult& result, const BoxLimits& limits, size_t bytes) {
  const std::string ending = EndingText(result, limits);
  if (!ending.empty()) return CutText(ending + "\n", bytes);
  if (result.diagnostics().empty()) {
    return result.outcome() == v1::OUTCOME_OK
               ? "no remarks\n"
               : CutText("lint failed\n" + ToUtf8(result.stderr_bytes()), bytes);
  }
  std::string text = fmt::format("{} remarks\n", result.diagnostics_size());
  if (text.size() < bytes) text += DiagnosticsText(Diagnostics(result), bytes - text.size());
  return CutText(text, bytes);
}

std::string TestsText(const v1::ToolResult& result, const BoxLimits& limits, size_t bytes) {
  if (!result.compiled()) return CompileText(result, limits, bytes);
  std::string text =
      fmt::format("{} of {} tests passed\n", result.tests_passed(), result.tests_total());
  const std::string ending = EndingText(result, limits);
  if (!ending.empty()) text += ending + "\n";
  for (const v1::TestFailure& failure : result.failures()) {
    std::string one = fmt::format("failed: {}\n", failure.name());
    if (!failure.input().empty()) one += Field("input", failure.input());
    if (!failure.expected().empty()) one += Field("expected", failure.expected());
    one += Field("got", failure.actual());
    if (text.size() + one.size() > bytes) break;
    text += one;
  }
  return CutText(text, bytes);
}

std::string CommandText(const v1::ToolResult& result, const BoxLimits& limits, size_t bytes) {
  std::string text = EndingText(result, limits);
  if (text.empty() && result.outcome() == v1::OUTCOME_FAILED) {
    text = fmt::format("exit status {}", result.exit_code());
  }
  if (!text.empty()) text += "\n";
  const std::string out = ToUtf8(result.stdout_bytes()), err = ToUtf8(result.stderr_bytes());
  // Half of the room for each; what one does not need the other gets.
  const size_t room = bytes > text.size() ? bytes - text.size() : 0;
  const size_t err_room = std::max(room / 2, room - std::min(room, out.size()));
  const std::string err_text = CutText(err, err_room);
  AddWithin(&text, out, bytes - std::min(bytes, err_text.size()));
  return CutText(text + err_text, bytes);
}

}  // namespace tidemill
