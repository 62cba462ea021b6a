// What a policy's figures are held against: the learner nothing can beat on a project, and a reader
// of cases that makes no mistake.
#pragma once

#include <string>
#include <vector>

#include "bench/memory_streams.h"
#include "testbeds/project.h"

namespace tidemill {

// Answers by the rule of PossibleHelpers: what it misses, retrieval did not show. Prompts must be
// of the family.
std::vector<std::string> AskPerfectReader(const std::vector<AskedPrompt>& asked);

// Knows how projects are drawn, keeps every binding that is still possible, and answers with the
// most likely helper.
class IdealLearner {
 public:
  IdealLearner();

  // The helpers the members of a group try for an operation. All take the most likely; where
  // several are as likely, they take different ones, which costs nothing and tells more.
  std::vector<int> Choose(int operation, size_t members) const;
  void Learn(int operation, int helper, bool right);
  // Half of the names were bound anew; which, it is not told.
  void Change();

 private:
  struct Possible {
    ProjectBinding binding{};
    double weight = 0;
  };
  std::vector<Possible> possible_;
};

}  // namespace tidemill
