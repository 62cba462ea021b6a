#include "memory/tool_memory.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "core/text.h"

namespace tidemill {
namespace {

constexpr size_t kFactBytes = 200;  // of arguments or of what was said, in a line

std::string FirstLine(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

void ToolMemory::Apply(uint64_t number, const v1::CaseRecord& record) {
  if (record.tools().empty()) return;
  Calls& calls = scopes_[record.scope()];
  std::set<std::pair<std::string, std::string>> seen;
  for (const v1::ToolNote& note : record.tools()) {
    // A call without arguments speaks of the work alone.
    if (note.arguments_json().find(':') == std::string::npos) continue;
    const std::pair<std::string, std::string> key = {note.tool(), note.arguments_json()};
    // An episode that repeats a call says it once, as it was at first: later it may have changed
    // what the call is about.
    if (!seen.insert(key).second) continue;
    Call& call = calls[key];
    const bool failed = note.outcome() != v1::OUTCOME_OK;
    const std::string text = FirstLine(note.text());
    if (call.times == 0 || call.failed != failed || call.text != text) {
      call = {failed, text, record.id().task(), false, 0, 0};
    }
    ++call.times;
    call.newest = number;
    call.other_task = call.other_task || call.task != record.id().task();
  }
  while (calls.size() > kCallsMax) {
    calls.erase(std::min_element(calls.begin(), calls.end(), [](const auto& a, const auto& b) {
      return a.second.newest < b.second.newest;
    }));
  }
}

std::vector<ToolFact> ToolMemory::Facts(const std::string& scope, size_t most) const {
  std::vector<ToolFact> facts;
  const auto found = scopes_.find(scope);
  if (found == scopes_.end()) return facts;
  for (const auto& [key, call] : found->second) {
    if (!call.other_task || call.text.empty()) continue;
    facts.push_back({key.first, key.second, call.failed, call.text, call.times, call.newest});
  }
  std::stable_sort(facts.begin(), facts.end(), [](const ToolFact& a, const ToolFact& b) {
    return std::tuple(a.failed, a.times, a.newest) > std::tuple(b.failed, b.times, b.newest);
  });
  if (facts.size() > most) facts.resize(most);
  return facts;
}

std::string ToolMemory::Line(const ToolFact& fact) {
  return fact.tool + " " + Beginning(fact.arguments_json, kFactBytes) +
         (fact.failed ? " failed: " : ": ") + Beginning(fact.text, kFactBytes);
}

void ToolMemory::AppendTo(std::string& bytes) const {
  for (const auto& [scope, calls] : scopes_) {
    bytes += scope;
    for (const auto& [key, call] : calls) {
      bytes += key.first + key.second + call.text + call.task + (call.failed ? "f" : "o") +
               (call.other_task ? "2" : "1") + std::to_string(call.times) + " " +
               std::to_string(call.newest);
    }
  }
}

}  // namespace tidemill
