// A rank other than the first: takes the orders of rank 0 until it says stop.
#pragma once

#include "learner/torch/rank_group.h"
#include "learner/torch/trainer.h"

namespace tidemill {

// Of weights, moments and counts: equal where they are, bit by bit.
uint64_t Fingerprint(const Trainer& trainer);

// `trainer` stands where rank 0's does; it is shared with `ranks` from here on. ok: told to stop.
// kUnavailable: rank 0 is gone. Whatever else goes wrong here is told to rank 0 as well.
Status FollowOrders(RankGroup& ranks, Trainer& trainer);

// Rank 0's side of the same, used by the trainer's thread.
Status OrderStep(RankGroup& ranks, const v1::Batch& batch);
Status OrderPublished(RankGroup& ranks, uint64_t version, uint64_t step);
// kCorrupt names a rank whose weights have drifted.
Status OrderVerify(RankGroup& ranks, const Trainer& trainer);

}  // namespace tidemill
