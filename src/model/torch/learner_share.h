// The learner's work on a part of a GPU's multiprocessors (model/multiprocessor_share.h): a stream
// of a green context of CUDA, in place of libtorch's own. Engines stay where they are, on all
// multiprocessors.
#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "core/status.h"

namespace tidemill {

class LearnerShare {
 public:
  // Leaves at least `reserved` multiprocessors of `device` to others. 0: no share, which costs
  // nothing. The share of a GPU and a number is made once and lasts as long as the process, since
  // libtorch keeps memory by stream.
  LearnerShare(const c10::Device& device, int reserved);

  // Why there is no share where one was asked for; then the learner has all multiprocessors.
  // kInvalid: so many cannot be reserved. kUnavailable, kInternal: the device, the driver or this
  // build has no shares.
  const Status& status() const { return status_; }
  int multiprocessors() const { return multiprocessors_; }  // the learner's; 0: no share

  // While it lives, what libtorch does in this thread runs on the share, autograd's threads
  // included: after all that the thread's own stream was given before, and before all that it is
  // given later. May throw as libtorch does. Nothing where there is no share.
  class Use {
   public:
    explicit Use(const LearnerShare& share);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    struct Streams;
    std::unique_ptr<Streams> streams_;
  };

 private:
  Status status_;
  int multiprocessors_ = 0;
  // Used by Use, in builds with CUDA.
  [[maybe_unused]] c10::Device device_;
  [[maybe_unused]] void* stream_ = nullptr;
};

#ifdef TIDEMILL_CUDA
// Before a matrix product of libtorch: tells cuBLAS how many multiprocessors the current stream
// has. Its kernels have a block for each; those that find no place would run alone afterwards, and
// the product would take twice as long.
void TellProductsOfShare();
#endif

}  // namespace tidemill
