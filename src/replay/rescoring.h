// The versions of scorers that verdicts bear, and which groups of the buffer are scored again when
// one rises: those whose rewards vary most or whose judges' votes split.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "replay/group_book.h"
#include "tasks/task_book.h"

namespace tidemill {

// A verdict replaces another if it has a score and none of its scorers is older.
bool Replaces(const v1::Verdict& verdict, const v1::Verdict& before);

// Belongs to one loop; not thread-safe. What it is given must outlive it.
class Rescoring {
 public:
  Rescoring(GroupBook& book, const TaskBook& tasks, const ReplayOptions& options)
      : book_(book), tasks_(tasks), options_(options), highest_(options.scorer_versions) {}

  void Note(const v1::Verdict& verdict);
  void Buffered(const ReplayGroup& group);
  // Stored verdicts may be of older scorers.
  void Suspect() { rose_ = true; }
  // The highest version of each scorer that was seen.
  const std::map<std::string, uint32_t>& highest() const { return highest_; }

  // The members to ask about now.
  std::vector<MemberOf> TakeDue();
  // An answer about a member is in, or there will be none. After the group's last one it has
  // another place in the choice, or none.
  void Answered(uint64_t group);
  void Forget(uint64_t group) { rescoring_.erase(group); }

 private:
  bool Outdated(const ReplayMember& member) const;
  void Choose();

  GroupBook& book_;
  const TaskBook& tasks_;
  const ReplayOptions& options_;
  std::map<std::string, uint32_t> highest_;
  bool rose_ = false;                // since the last choice
  std::deque<uint64_t> to_rescore_;  // those that vary most first
  std::set<uint64_t> rescoring_;     // a verdict of a member is asked for
};

}  // namespace tidemill
