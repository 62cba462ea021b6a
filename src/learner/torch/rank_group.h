// The processes that take a step together. Rank 0 is the learner; the others follow its orders with
// a share of every minibatch, and all of them hold the same weights and moments.
//
//   rank 0:  Gather -> Send(order) -> Sum(..) -> .. -> Send(kStop)
//   others:  Join   -> Next()      -> Sum(..) -> ..
//
// Small data travels between rank 0 and each of the others (so that a rank that is dead or hangs
// has a name), sums over all ranks are c10d's all-reduce: Gloo, and for tensors on a GPU NCCL where
// the program was built with it.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/status.h"

namespace tidemill {

// Rank 0's messages to the others.
struct RankOrder {
  enum Kind : uint64_t {
    kIdle = 1,   // nothing: rank 0 is still there
    kStart,      // payload: how to begin, as run/torch/make_ranks.cc writes it
    kStep,       // payload: v1::Batch
    kPublished,  // `number`: the version; `step`: the step it is of
    kVerify,     // say what your weights hash to
    kStop,       // done; leave
  };
  Kind kind = kIdle;
  uint64_t number = 0;
  uint64_t step = 0;
  std::string payload;
};

struct RankGroupOptions {
  // Where they meet: "file:PATH" (processes of one machine; PATH must not exist yet) or "HOST:PORT"
  // (rank 0 listens there, on every interface).
  std::string meeting;
  int ranks = 2;                                  // rank 0: how many are wanted, itself included
  std::chrono::milliseconds join_limit{600'000};  // for all to come and to load what they need
  std::chrono::milliseconds timeout{120'000};     // rank 0: for the others to do their share
  // Only ranks with the same secret find each other and are talked to; empty: any.
  std::string secret = {};
  // How a rank's process ended, by its id; empty: not known. May itself be empty.
  std::function<std::string(int64_t process)> fate;
  // Rank 0, where it started the others itself: those that ended so far, "process 4711 was killed
  // by signal 9", in the order in which they did. Empty: who else comes is not known.
  std::function<std::vector<std::string>()> ended;
};

// Not thread-safe: belongs to the trainer's thread. After a failure nothing but lost() and the
// destructor may be used.
class RankGroup {
 public:
  // Whether this program was built with c10d's Gloo.
  static bool Available();

  // Rank 0. Waits for the others until all are there, or all that have not ended, or join_limit has
  // passed; those who are there then are the group: size() says how many, 1 at least. Who was
  // expected and is not is named in the log. kUnavailable: one was lost while they connected.
  static Result<std::unique_ptr<RankGroup>> Gather(const RankGroupOptions& options);
  // The others. kClosed: the group is complete without this one. kUnavailable: no rank 0.
  static Result<std::unique_ptr<RankGroup>> Join(const RankGroupOptions& options);
  ~RankGroup();

  int rank() const;
  int size() const;

  // Rank 0: to each of the others, in order. kUnavailable names the rank that is gone or hangs.
  Status Send(const RankOrder& order);
  // The others: waits for the next order. kUnavailable: rank 0 is gone. kCorrupt: not an order.
  Result<RankOrder> Next();

  // All ranks: the tensors become their sum over the ranks, with the same bits on each. Rank 0
  // first hears from every other that it has come this far. kUnavailable names the rank that has
  // not; what such a rank said of itself (Fail) comes with its own code.
  Status Sum(std::vector<at::Tensor> tensors);
  // All ranks: rank 0's number.
  Result<double> FromFirst(double number);
  // All ranks, each with what its state hashes to. kCorrupt on rank 0 names a rank that differs.
  Status Agree(uint64_t fingerprint);
  // The others: tells rank 0, where it next waits for this rank, why there will be no more.
  void Fail(const Status& status);

  // Rank 0: how many ranks are known to be lost.
  int lost() const;

 private:
  class Impl;
  explicit RankGroup(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tidemill
