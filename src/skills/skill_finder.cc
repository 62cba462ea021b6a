#include "skills/skill_finder.h"

#include <algorithm>

namespace tidemill {

void SkillFinder::Update(const std::string& scope, const SkillShelf& shelf) {
  std::map<std::string, Entry>& entries = scopes_[scope];
  for (auto it = entries.begin(); it != entries.end();) {
    const Skill* skill = shelf.Find(it->first);
    if (skill != nullptr && skill->version == it->second.version) {
      ++it;
      continue;
    }
    texts_.Remove(it->second.number);
    names_.erase(it->second.number);
    it = entries.erase(it);
  }
  for (const auto& [name, skill] : shelf.skills()) {
    if (entries.contains(name)) continue;
    const uint64_t number = next_++;
    // The dashes of a name stand between its words.
    texts_.Add(number, scope, name + "\n" + skill.text.description + "\n" + skill.text.body);
    names_[number] = name;
    entries[name] = {number, skill.version};
  }
}

std::vector<std::string> SkillFinder::Find(const std::string& scope, std::string_view text,
                                           size_t most, bool all) const {
  std::vector<std::string> names;
  for (const Match& match : texts_.Search(scope, text, most)) {
    names.push_back(names_.at(match.number));
  }
  const auto entries = scopes_.find(scope);
  if (!all || entries == scopes_.end()) return names;
  const size_t found = names.size();
  for (const auto& [name, entry] : entries->second) {
    const auto end = names.begin() + static_cast<std::ptrdiff_t>(found);
    if (names.size() >= most) break;
    if (std::find(names.begin(), end, name) == end) names.push_back(name);
  }
  return names;
}

}  // namespace tidemill
