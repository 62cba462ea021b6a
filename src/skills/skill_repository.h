// The skills of a run: a fold over the lessons of the run's database, so that the same lessons in
// the same order give the same repository, to the byte, in a new process too.
//
//   answer -> ParseSkillEdits -> EditSkills (each checked) -> SkillLesson -> [durable] -> Apply
//
// Plain values: no disk, no clock, no thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "proto/skills.pb.h"
#include "skills/skill_edit.h"
#include "skills/skill_text.h"

namespace tidemill {

struct SkillLimits {
  size_t skills = 64;  // of a scope
  size_t body_bytes = 8192;
  size_t edits = 8;  // of one answer
};

// A lesson that made or changed a skill, or one of those that were merged into it.
struct SkillOrigin {
  uint64_t lesson = 0;
  uint64_t group = 0;  // whose episodes; 0: an import
  std::string task = {};
};

// What episodes that were shown a skill say of it, over all of its versions.
struct SkillUses {
  uint64_t shown = 0;  // episodes
  uint64_t solved = 0;
  double reward = 0;      // their sum
  uint64_t compared = 0;  // groups in which other members were not shown it
  double gain = 0;        // over these: the sum of mean reward with it less that without it
  double squares = 0;     // of the same differences

  // The mean gain, and the half width of its 95 % interval; `half` < 0: too few groups to say.
  struct Worth {
    double mean = 0;
    double half = -1;
  };
  Worth worth() const;
};

struct Skill {
  SkillText text;
  uint32_t version = 1;
  std::vector<SkillOrigin> origins = {};  // the oldest first
  SkillUses uses = {};
};

// The skills of one scope.
class SkillShelf {
 public:
  const std::map<std::string, Skill, std::less<>>& skills() const { return skills_; }
  const Skill* Find(std::string_view name) const;

  // What the edit would make. kInvalid, kNotFound, kExists, kFull say why it cannot be.
  Result<v1::SkillChange> Try(const SkillEdit& edit, const SkillLimits& limits) const;
  // The same of a whole skill, inserted or in the place of the one of its name. kExists: it is
  // there as it is.
  Result<v1::SkillChange> Put(const SkillText& skill, const SkillLimits& limits) const;
  void Take(const v1::SkillChange& change, const SkillOrigin& origin);
  void Count(const v1::SkillUse& use);

 private:
  v1::SkillChange Changed(v1::SkillChange::Kind kind, const SkillText& skill) const;
  Result<v1::SkillChange> TryMerge(const SkillEdit& edit, const SkillLimits& limits) const;

  std::map<std::string, Skill, std::less<>> skills_;
  // The newest version of every name there ever was: a version is never two texts.
  std::map<std::string, uint32_t, std::less<>> versions_;
};

class SkillRepository {
 public:
  // Numbers rise from call to call.
  void Apply(uint64_t number, const v1::SkillLesson& lesson);
  // Of a scope that has none: an empty one.
  const SkillShelf& Of(std::string_view scope) const;
  const std::map<std::string, SkillShelf, std::less<>>& scopes() const { return scopes_; }
  // SHA-256 over everything the repository holds.
  std::string Digest() const;

 private:
  uint64_t last_ = 0;
  std::map<std::string, SkillShelf, std::less<>> scopes_;
};

// What the text of a skill may say; not ok says why it may not.
using SkillCheck = std::function<Status(const SkillText&)>;

// Makes the edits one after the other on a copy of the shelf and writes what came of each into the
// lesson: a change or a refusal. What is refused changes nothing.
void EditSkills(SkillShelf shelf, std::span<const SkillEdit> edits, const SkillLimits& limits,
                const SkillCheck& check, v1::SkillLesson& lesson);

// Of a change that left a skill; otherwise empty.
SkillText TextOf(const v1::SkillChange& change);

}  // namespace tidemill
