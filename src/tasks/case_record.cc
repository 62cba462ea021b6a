#include "tasks/case_record.h"

#include <string_view>

#include "core/text.h"

namespace tidemill {
namespace {

constexpr std::string_view kScopeTag = "scope:";
constexpr std::string_view kTenantScope = "tenant:";
constexpr size_t kNoteBytes = 400;
constexpr int kNotesMax = 32;

void AddNotes(const v1::Trajectory& trajectory, v1::CaseRecord& record) {
  for (int turn = 0; turn < trajectory.turns_size(); ++turn) {
    for (const v1::ToolCall& call : trajectory.turns(turn).calls()) {
      // An unavailability that we caused says nothing about the tool, a call that was cancelled
      // nothing at all.
      if (call.skipped() || call.cancelled()) continue;
      if (call.outcome() == v1::OUTCOME_UNAVAILABLE) continue;
      if (record.tools_size() == kNotesMax) return;
      v1::ToolNote& note = *record.add_tools();
      note.set_turn(static_cast<uint32_t>(turn));
      note.set_tool(call.tool());
      note.set_arguments_json(Beginning(call.arguments_json(), kNoteBytes));
      note.set_outcome(call.outcome());
      note.set_text(Beginning(call.text(), kNoteBytes));
    }
  }
}

}  // namespace

std::string ScopeOf(const v1::Task& task) {
  for (const std::string& tag : task.tags()) {
    if (!tag.starts_with(kScopeTag)) continue;
    std::string name = tag.substr(kScopeTag.size());
    // Whoever writes a task reads no tenant's cases.
    return name.starts_with(kTenantScope) ? "task:" + name : name;
  }
  return "";
}

std::string TenantScope(std::string_view tenant) {
  return std::string(kTenantScope) + std::string(tenant);
}

bool InItsScope(const v1::CaseRecord& record) {
  if (record.session() == 0)
    return record.tenant().empty() && !record.scope().starts_with(kTenantScope);
  return !record.tenant().empty() && record.scope() == TenantScope(record.tenant());
}

std::optional<v1::CaseRecord> MakeCase(const v1::Task& task, const v1::Trajectory& trajectory,
                                       const v1::Verdict& verdict) {
  if (trajectory.purpose() != v1::PURPOSE_TRAIN || !verdict.scored()) return std::nullopt;
  if (trajectory.end() == v1::EPISODE_END_GIVEN_UP) return std::nullopt;
  if (trajectory.submission().empty()) return std::nullopt;
  v1::CaseRecord record;
  *record.mutable_id() = trajectory.id();
  record.set_scope(ScopeOf(task));
  record.set_prompt(task.prompt());
  record.set_answer(trajectory.submission());
  record.set_solved(verdict.solved());
  record.set_reward(verdict.reward());
  record.set_group_members(trajectory.group_members());
  *record.mutable_shown() = trajectory.shown_cases();
  *record.mutable_shown_skills() = trajectory.shown_skills();
  record.set_at_ms(trajectory.finished_ms());
  AddNotes(trajectory, record);
  return record;
}

}  // namespace tidemill
