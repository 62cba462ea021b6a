#include "skills/skill_repository.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/hash.h"
#include "core/text.h"
#include "tools/patch.h"

namespace tidemill {
namespace {

using Change = v1::SkillChange;

constexpr size_t kOriginsMax = 256;  // kept of a skill, the newest
constexpr double kTwoSided = 1.96;

// The name as a person may see it; whoever wrote it may have written anything.
std::string Quote(std::string_view name) {
  return "\"" + Beginning(ForTerminal(name), kSkillNameBytes) + "\"";
}

Status CheckNamed(const SkillText& skill, const std::string& name) {
  if (skill.name == name) return Ok();
  return Invalid("the head names " + Quote(skill.name) + ", the operation " + Quote(name));
}

// The skill behind the diff, which may come without the lines that name its file.
Result<SkillText> Patched(const Skill& skill, const std::string& diff) {
  Workspace files;
  const std::string before = SkillMarkdown(skill.text);
  files[kSkillFile] = {before, false};
  const std::string head = fmt::format("--- {}\n+++ {}\n", kSkillFile, kSkillFile);
  TM_RETURN_IF_ERROR(ApplyPatch(diff.starts_with("@@") ? head + diff : diff, &files).status());
  const auto after = files.find(kSkillFile);
  if (after == files.end() || files.size() != 1) {
    return Invalid(std::string("a diff may change ") + kSkillFile + " alone");
  }
  if (after->second.content == before) return Invalid("the diff changes nothing");
  return ParseSkill(after->second.content);
}

void AddOrigins(std::vector<SkillOrigin>& all, const std::vector<SkillOrigin>& more) {
  all.insert(all.end(), more.begin(), more.end());
  std::stable_sort(all.begin(), all.end(),
                   [](const SkillOrigin& a, const SkillOrigin& b) { return a.lesson < b.lesson; });
  const auto same = [](const SkillOrigin& a, const SkillOrigin& b) { return a.lesson == b.lesson; };
  all.erase(std::unique(all.begin(), all.end(), same), all.end());
  if (all.size() > kOriginsMax) all.erase(all.begin(), all.end() - kOriginsMax);
}

}  // namespace

SkillUses::Worth SkillUses::worth() const {
  if (compared == 0) return {};
  const auto n = static_cast<double>(compared);
  Worth worth{gain / n, -1};
  if (compared < 2) return worth;
  const double variance = std::max(0.0, (squares - gain * gain / n) / (n - 1));
  worth.half = kTwoSided * std::sqrt(variance / n);
  return worth;
}

const Skill* SkillShelf::Find(std::string_view name) const {
  const auto found = skills_.find(name);
  return found == skills_.end() ? nullptr : &found->second;
}

v1::SkillChange SkillShelf::Changed(Change::Kind kind, const SkillText& skill) const {
  Change change;
  change.set_kind(kind);
  change.mutable_skill()->set_name(skill.name);
  const auto newest = versions_.find(skill.name);
  change.mutable_skill()->set_version(newest == versions_.end() ? 1 : newest->second + 1);
  change.set_description(skill.description);
  change.set_body(skill.body);
  return change;
}

Result<v1::SkillChange> SkillShelf::Try(const SkillEdit& edit, const SkillLimits& limits) const {
  TM_RETURN_IF_ERROR(CheckSkillName(edit.name));
  if (edit.kind == Change::KIND_MERGE) return TryMerge(edit, limits);
  const Skill* const skill = Find(edit.name);
  if (edit.kind == Change::KIND_INSERT) {
    if (skill != nullptr) return Exists("there is a skill " + Quote(edit.name) + " already");
    if (skills_.size() >= limits.skills) {
      return Full(fmt::format("there are {} skills, which is the most", skills_.size()));
    }
    TM_ASSIGN_OR_RETURN(const SkillText made, ParseSkill(edit.text));
    TM_RETURN_IF_ERROR(CheckNamed(made, edit.name));
    TM_RETURN_IF_ERROR(CheckSkillText(made, limits.body_bytes));
    return Changed(edit.kind, made);
  }
  if (skill == nullptr) return NotFound("there is no skill " + Quote(edit.name));
  if (edit.kind == Change::KIND_UPDATE) {
    TM_ASSIGN_OR_RETURN(const SkillText made, Patched(*skill, edit.text));
    TM_RETURN_IF_ERROR(CheckNamed(made, edit.name));
    TM_RETURN_IF_ERROR(CheckSkillText(made, limits.body_bytes));
    return Changed(edit.kind, made);
  }
  if (edit.kind != Change::KIND_DELETE) return Invalid("no operation");
  Change gone;
  gone.set_kind(edit.kind);
  gone.mutable_skill()->set_name(edit.name);
  gone.mutable_skill()->set_version(skill->version);
  return gone;
}

Result<v1::SkillChange> SkillShelf::TryMerge(const SkillEdit& edit,
                                             const SkillLimits& limits) const {
  const std::set<std::string> from(edit.from.begin(), edit.from.end());
  if (from.size() < 2 || from.size() != edit.from.size()) {
    return Invalid("a merge needs two skills or more, each once");
  }
  for (const std::string& name : from) {
    if (Find(name) == nullptr) return NotFound("there is no skill " + Quote(name));
  }
  if (Find(edit.name) != nullptr && !from.contains(edit.name)) {
    return Exists("there is a skill " + Quote(edit.name) + ", which is not one of those merged");
  }
  TM_ASSIGN_OR_RETURN(const SkillText made, ParseSkill(edit.text));
  TM_RETURN_IF_ERROR(CheckNamed(made, edit.name));
  TM_RETURN_IF_ERROR(CheckSkillText(made, limits.body_bytes));
  Change change = Changed(edit.kind, made);
  for (const std::string& name : from) {
    v1::SkillName& gone = *change.add_from();
    gone.set_name(name);
    gone.set_version(Find(name)->version);
  }
  return change;
}

Result<v1::SkillChange> SkillShelf::Put(const SkillText& skill, const SkillLimits& limits) const {
  const Skill* const there = Find(skill.name);
  if (there == nullptr) {
    return Try({Change::KIND_INSERT, skill.name, {}, SkillMarkdown(skill)}, limits);
  }
  TM_RETURN_IF_ERROR(CheckSkillText(skill, limits.body_bytes));
  if (SkillMarkdown(there->text) == SkillMarkdown(skill)) {
    return Exists("the skill " + Quote(skill.name) + " is there as it is");
  }
  return Changed(Change::KIND_UPDATE, skill);
}

void SkillShelf::Take(const v1::SkillChange& change, const SkillOrigin& origin) {
  const std::string& name = change.skill().name();
  if (change.kind() == Change::KIND_DELETE) {
    skills_.erase(name);
    return;
  }
  Skill made{.text = TextOf(change), .version = change.skill().version()};
  if (const auto before = skills_.find(name); before != skills_.end()) {
    made.origins = before->second.origins;
    made.uses = before->second.uses;
  }
  for (const v1::SkillName& one : change.from()) {
    if (const auto before = skills_.find(one.name()); before != skills_.end()) {
      AddOrigins(made.origins, before->second.origins);
      skills_.erase(before);
    }
  }
  AddOrigins(made.origins, {origin});
  versions_[name] = std::max(versions_[name], made.version);
  skills_[name] = std::move(made);
}

void SkillShelf::Count(const v1::SkillUse& use) {
  const auto found = skills_.find(use.skill().name());
  if (found == skills_.end() || use.shown() == 0) return;
  SkillUses& uses = found->second.uses;
  uses.shown += use.shown();
  uses.solved += use.solved();
  uses.reward += use.reward();
  if (use.others() == 0) return;
  const double gain = use.reward() / use.shown() - use.others_reward() / use.others();
  ++uses.compared;
  uses.gain += gain;
  uses.squares += gain * gain;
}

// What is said of the skills counts before they are changed.
void SkillRepository::Apply(uint64_t number, const v1::SkillLesson& lesson) {
  TM_CHECK(number > last_, "lessons come in their order");
  last_ = number;
  if (lesson.uses().empty() && lesson.changes().empty()) return;
  SkillShelf& shelf = scopes_[lesson.scope()];
  for (const v1::SkillUse& use : lesson.uses()) shelf.Count(use);
  for (const v1::SkillChange& change : lesson.changes()) {
    shelf.Take(change, {number, lesson.group(), lesson.task()});
  }
}

const SkillShelf& SkillRepository::Of(std::string_view scope) const {
  static const SkillShelf kNone;
  const auto found = scopes_.find(scope);
  return found == scopes_.end() ? kNone : found->second;
}

std::string SkillRepository::Digest() const {
  std::string bytes;
  for (const auto& [scope, shelf] : scopes_) {
    bytes += fmt::format("scope {} {}\n", scope.size(), scope);
    for (const auto& [name, skill] : shelf.skills()) {
      const SkillUses& uses = skill.uses;
      const std::string text = SkillMarkdown(skill.text);
      bytes += fmt::format("{} v{} {} {} {} {} {} {} {}\n{}", name, skill.version, uses.shown,
                           uses.solved, uses.reward, uses.compared, uses.gain, uses.squares,
                           text.size(), text);
      for (const SkillOrigin& origin : skill.origins) {
        bytes += fmt::format("{} {} {} {}\n", origin.lesson, origin.group, origin.task.size(),
                             origin.task);
      }
    }
  }
  return Sha256Hex(bytes);
}

void EditSkills(SkillShelf shelf, std::span<const SkillEdit> edits, const SkillLimits& limits,
                const SkillCheck& check, v1::SkillLesson& lesson) {
  for (size_t i = 0; i < edits.size(); ++i) {
    const SkillEdit& edit = edits[i];
    Result<Change> change = Full(fmt::format("more than {} operations", limits.edits));
    if (i < limits.edits) change = shelf.Try(edit, limits);
    Status status = change.status();
    if (status.ok() && edit.kind != Change::KIND_DELETE) status = check(TextOf(*change));
    if (status.ok()) {
      shelf.Take(*change, {});
      *lesson.add_changes() = std::move(*change);
      continue;
    }
    v1::SkillRefusal& refused = *lesson.add_refused();
    refused.set_kind(edit.kind);
    refused.set_name(Beginning(edit.name, 2 * kSkillNameBytes));
    refused.set_reason(ToUtf8(status.message()));
  }
}

SkillText TextOf(const v1::SkillChange& change) {
  if (change.kind() == Change::KIND_DELETE) return {};
  return {change.skill().name(), change.description(), change.body()};
}

}  // namespace tidemill
