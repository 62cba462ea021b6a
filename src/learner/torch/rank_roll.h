// How ranks that come one by one, and may die again while others are awaited, become a group. Rank
// 0 calls the roll; those who answer are the group.
//
//   others: joined += 1, who/N, pid/N ------> answer/K/N ----------> members
//   rank 0:                 roll/K ---------^            ---> members
//
// Of builds with c10d's Gloo only.
#pragma once

#ifdef USE_C10D_GLOO

#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "core/status.h"
#include "learner/torch/rank_group.h"

namespace tidemill {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

struct RankMember {
  std::string who;  // "process 4711 on NAME"
  int64_t process = 0;
};

// Rank 0: waits until as many as are wanted have come and answer, or all that are left, or the
// limit of the options has passed; then those who answer are the group and know it. Who was
// expected and is not there is named in the log. Throws as c10d does.
std::vector<RankMember> CallTheRoll(const StorePtr& store, const RankGroupOptions& options);

struct RankPlace {
  int rank = 0, size = 0;
};
// The others: joins and answers until the group is made. Fails as RankGroup::Join does, throws as
// c10d does.
Result<RankPlace> AnswerTheRoll(const StorePtr& store, const RankGroupOptions& options);

}  // namespace tidemill

#endif
