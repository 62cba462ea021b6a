// What a curator writes, and a SKILL.md: whatever it is, the repository keeps its bounds, and what
// it holds can be written and read back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "skills/skill_edit.h"
#include "skills/skill_repository.h"
#include "skills/skill_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tidemill;  // NOLINT: a program of one function
  const std::string input(reinterpret_cast<const char*>(data), size);
  const SkillLimits limits{.skills = 4, .body_bytes = 200, .edits = 5};
  if (const auto skill = ParseSkill(input); skill.ok() && CheckSkillText(*skill, 200).ok()) {
    const auto again = ParseSkill(SkillMarkdown(*skill));
    if (!again.ok() || again->name != skill->name || again->description != skill->description ||
        again->body != skill->body) {
      std::abort();
    }
  }
  const auto edits = ParseSkillEdits(input);
  if (!edits.ok()) return 0;
  SkillRepository repository;
  v1::SkillLesson first;
  const std::string body = "one\ntwo\nthree\n";
  const SkillEdit begin[] = {
      {v1::SkillChange::KIND_INSERT, "a", {}, SkillMarkdown({"a", "first", body})},
      {v1::SkillChange::KIND_INSERT, "b", {}, SkillMarkdown({"b", "second", body})}};
  const SkillCheck any = [](const SkillText&) { return Ok(); };
  EditSkills({}, begin, limits, any, first);
  repository.Apply(1, first);
  v1::SkillLesson lesson;
  EditSkills(repository.Of(""), *edits, limits, any, lesson);
  if (static_cast<size_t>(lesson.changes_size() + lesson.refused_size()) != edits->size()) {
    std::abort();
  }
  repository.Apply(2, lesson);
  if (repository.Of("").skills().size() > limits.skills) std::abort();
  for (const auto& [name, skill] : repository.Of("").skills()) {
    if (name != skill.text.name || !CheckSkillText(skill.text, limits.body_bytes).ok())
      std::abort();
    if (!ParseSkill(SkillMarkdown(skill.text)).ok()) std::abort();
  }
  v1::SkillLesson stored;
  SkillRepository again;
  again.Apply(1, first);
  if (!stored.ParseFromString(lesson.SerializeAsString())) std::abort();
  again.Apply(2, stored);
  if (again.Digest() != repository.Digest()) std::abort();
  return 0;
}
