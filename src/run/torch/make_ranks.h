// The learner over several processes: starts or awaits the other ranks of rank 0, and is one of
// them.
//
//   rank 0: StartRanks -> they load what it loads -> they agree on the weights -> steps
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "learner/torch/rank_group.h"
#include "run/torch/make_trainer.h"

namespace tidemill {

// Null where learner.ranks is 1 or nobody came in time. Without learner.rank_address the others are
// processes started here, which end with the group; one that ends before it joined is left out.
// They are told how to begin; whoever made the trainer calls Agree next. kUnavailable: one of them
// was lost meanwhile.
Result<std::unique_ptr<RankGroup>> StartRanks(const RunConfig& config, const TrainerStart& start);

// One of the others: joins at `meeting`, follows until told to stop (ok). kUnavailable: rank 0 is
// gone or never came. kClosed: it has all it wants. After a failure the process should end: threads
// that wait for a lost rank may be left.
Status FollowRun(const std::string& meeting, const std::string& secret_file,
                 std::chrono::milliseconds join_limit);

}  // namespace tidemill
