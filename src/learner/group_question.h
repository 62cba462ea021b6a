// What a program of the user's is asked about a group of a step, and what its answer means.
//
//   {"group", "task", "members": [{"member", "reward", ..}, ..]}
//   -> {"keep": [true, ..], "advantages": [0.5, ..]}, each one a member, either may be missing
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/status.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

// Of the samples of a step that are no sessions', in their order.
struct GroupAnswers {
  std::vector<bool> keep;
  std::vector<double> advantages;  // empty: the objective compares
};

// The answers, JSON objects, to one question a group. A failure is the program's: no step is taken.
using GroupFunction =
    std::function<Result<std::vector<std::string>>(const std::vector<std::string>& questions)>;

// `rewards` has one for each sample, as the objective sees it. kUnavailable: no answer, or one that
// is none; names the group.
Result<GroupAnswers> AskAboutGroups(const GroupFunction& ask,
                                    std::span<const v1::Sample* const> samples,
                                    std::span<const double> rewards);

}  // namespace tidemill
