#include "skills/skill_edit.h"

#include <utility>

#include "core/text.h"

namespace tidemill {
namespace {

constexpr std::string_view kMark = "=== ";
constexpr size_t kAnswerBytesMax = size_t{1} << 20;
constexpr size_t kEditsMax = 256;
constexpr size_t kWordsMax = 64;

std::vector<std::string> WordsOfLine(std::string_view line) {
  std::vector<std::string> words;
  while (words.size() < kWordsMax) {
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) break;
    line.remove_prefix(begin);
    const size_t end = line.find_first_of(" \t\r");
    words.emplace_back(line.substr(0, end));
    line.remove_prefix(end == std::string_view::npos ? line.size() : end);
  }
  return words;
}

// kInvalid: it is no operation.
Result<SkillEdit> ReadHead(const std::vector<std::string>& words) {
  using Change = v1::SkillChange;
  const std::string kind = words.empty() ? "" : words[0];
  const size_t count = words.size();
  if (count == 2 && kind == "insert") return SkillEdit{Change::KIND_INSERT, words[1]};
  if (count == 2 && kind == "update") return SkillEdit{Change::KIND_UPDATE, words[1]};
  if (count == 2 && kind == "delete") return SkillEdit{Change::KIND_DELETE, words[1]};
  if (kind == "merge" && count >= 5 && words[count - 2] == "into") {
    return SkillEdit{Change::KIND_MERGE, words[count - 1], {words.begin() + 1, words.end() - 2}};
  }
  return Invalid(
      "must be \"=== insert NAME\", \"=== update NAME\", \"=== delete NAME\", \"=== merge NAME "
      "NAME into NAME\" or \"=== end\"");
}

}  // namespace

std::string_view SkillKindName(v1::SkillChange::Kind kind) {
  switch (kind) {
    case v1::SkillChange::KIND_INSERT:
      return "insert";
    case v1::SkillChange::KIND_UPDATE:
      return "update";
    case v1::SkillChange::KIND_DELETE:
      return "delete";
    case v1::SkillChange::KIND_MERGE:
      return "merge";
    default:
      return "none";
  }
}

Result<std::vector<SkillEdit>> ParseSkillEdits(std::string_view answer) {
  if (answer.size() > kAnswerBytesMax) return Invalid("the answer has more than 1 MiB");
  std::vector<SkillEdit> edits;
  size_t number = 0;
  while (!answer.empty()) {
    ++number;
    const size_t end = answer.find('\n');
    const std::string_view line = answer.substr(0, end);
    answer.remove_prefix(end == std::string_view::npos ? answer.size() : end + 1);
    if (!line.starts_with(kMark)) {
      if (!edits.empty()) edits.back().text += std::string(line) + "\n";
      continue;
    }
    const std::vector<std::string> words = WordsOfLine(line.substr(kMark.size()));
    if (words.size() == 1 && words[0] == "end") {
      for (const SkillEdit& edit : edits) {
        const bool blank = edit.text.find_first_not_of(" \t\r\n") == std::string::npos;
        const bool bare = edit.kind == v1::SkillChange::KIND_DELETE;
        if (blank == bare) continue;
        return Invalid(std::string(SkillKindName(edit.kind)) +
                       (bare ? ": nothing may stand behind it" : ": nothing stands behind it"));
      }
      return edits;
    }
    auto head = ReadHead(words);
    if (!head.ok()) return head.status().WithContext("line " + std::to_string(number));
    if (edits.size() == kEditsMax) return Invalid("more than 256 operations");
    edits.push_back(std::move(*head));
  }
  return Invalid("the answer does not end with \"=== end\"");
}

}  // namespace tidemill
