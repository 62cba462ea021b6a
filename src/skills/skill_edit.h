// What a curator writes: operations on the skills of one scope, in a small strict format.
//
//   === insert NAME            followed by a SKILL.md
//   === update NAME            followed by a unified diff of its SKILL.md
//   === delete NAME
//   === merge NAME NAME.. into NAME    followed by a SKILL.md
//   === end
//
// What stands before the first operation and behind the end is not read. An answer without its end
// was cut, and none of it counts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "proto/skills.pb.h"

namespace tidemill {

struct SkillEdit {
  v1::SkillChange::Kind kind = v1::SkillChange::KIND_UNSPECIFIED;
  std::string name;
  std::vector<std::string> from = {};  // of a merge
  std::string text = {};               // a SKILL.md; of an update a diff
};

// "insert", "update", "delete", "merge".
std::string_view SkillKindName(v1::SkillChange::Kind kind);

// kInvalid: it is malformed, which is the curator's doing.
Result<std::vector<SkillEdit>> ParseSkillEdits(std::string_view answer);

}  // namespace tidemill
