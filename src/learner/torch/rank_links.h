// The connections between the ranks of a group, over c10d: bytes between rank 0 and each of the
// others, sums over all. What the bytes mean is rank_group.cc's.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <vector>
#ifdef USE_C10D_NCCL
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

#include "core/status.h"
#include "learner/torch/rank_group.h"
#include "learner/torch/rank_meeting.h"
#include "learner/torch/rank_roll.h"

namespace tidemill {

// Where the ranks of a group find each other; `first` is rank 0. Those with another secret do not
// see each other there.
Result<StorePtr> OpenRankStore(const MeetingPlace& place, bool first,
                               std::chrono::milliseconds limit, const std::string& secret);

// Not thread-safe. Every failure is kUnavailable and names who is gone or did not answer.
class RankLinks {
 public:
  using Bytes = std::vector<at::Tensor>;  // one tensor of bytes, as c10d wants it

  RankLinks(RankGroupOptions options, StorePtr store, int rank, int size);

  // `others` are known to rank 0 alone.
  Status Connect(const MeetingPlace& place, std::vector<RankMember> others);

  // Rank 0 and each of the others prove to each other that they know the options' secret.
  Status Prove();

  // Rank 0, with another.
  Status SendTo(int rank, int tag, Bytes bytes, std::chrono::milliseconds limit);
  Status ReceiveFrom(int rank, int tag, Bytes bytes, std::chrono::milliseconds limit);
  // The others, with rank 0.
  Status SendToFirst(int tag, Bytes bytes);
  Status ReceiveFromFirst(int tag, Bytes bytes);
  // All together.
  Status Sum(at::Tensor& tensor);
  Status Broadcast(at::Tensor& tensor);

  const RankGroupOptions& options() const { return options_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  // "rank 2 (process 4711 on host)"; on rank 0.
  std::string Name(int rank) const;
  // Rank 0: how many are known to be lost.
  int lost() const { return lost_; }
  void NoteLost() { lost_ = 1; }

 private:
  template <typename Talk>
  Status With(int rank, std::chrono::milliseconds limit, Talk&& talk);
  template <typename Talk>
  Status WithFirst(Talk&& talk);
  template <typename Work>
  Status Collective(Work&& work);
  void AllReduce(at::Tensor& tensor);
  template <typename WorkPtr>
  void Await(WorkPtr work);
  std::string Fate(int rank, std::chrono::milliseconds patience) const;

  const RankGroupOptions options_;
  StorePtr store_;  // shared with the groups, which is c10d's way
  const int rank_, size_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo_;
#ifdef USE_C10D_NCCL
  void AllReduceNccl(at::Tensor& tensor);
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> nccl_;
#endif
  std::vector<RankMember> members_;  // from rank 1 on, on rank 0
  int lost_ = 0;
};

}  // namespace tidemill
