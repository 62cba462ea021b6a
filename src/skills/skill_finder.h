// Which skills of a scope fit a task: those with the most telling words in common (BM25, as memory
// finds its cases).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "memory/lexical_index.h"
#include "skills/skill_repository.h"

namespace tidemill {

// Belongs to one thread at a time.
class SkillFinder {
 public:
  // The skills of the scope are now these.
  void Update(const std::string& scope, const SkillShelf& shelf);
  // Names, the best first: at most `most` that share a word with the text. `all`: then the others,
  // by name.
  std::vector<std::string> Find(const std::string& scope, std::string_view text, size_t most,
                                bool all = false) const;

 private:
  struct Entry {
    uint64_t number = 0;
    uint32_t version = 0;
  };
  LexicalIndex texts_;
  std::map<std::string, std::map<std::string, Entry>> scopes_;  // by name
  std::map<uint64_t, std::string> names_;                       // by number
  uint64_t next_ = 1;
};

}  // namespace tidemill
