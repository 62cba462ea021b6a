// The trainer as a port: batches in, reports out; publishes weights and writes checkpoints when
// told to. Commands are carried out one at a time, in order, and answered in order, but for
// checkpoints: they hold what is there in their turn, and are answered once they are written.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/mailbox.h"
#include "core/status.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

// One step on one batch. `status` not ok: the weights are as they were before (a NaN loss, say),
// and the run should stop with its message.
struct TrainDone {
  uint64_t step = 0;
  Status status;
  std::map<std::string, double>
      metrics;  // loss, grad_norm, lr, entropy, kl, ess, mismatch, tokens, seconds, ..
};
struct PublishDone {
  uint64_t version = 0;
  Status status;
  double seconds = 0;
};
struct CheckpointDone {
  uint64_t step = 0;
  uint64_t version = 0;
  std::string path;
  Status status;
  double seconds = 0;  // until it was written
  // Of them, the trainer stood still: for the request itself, and before its next update for the
  // rest of the copy.
  double pause_seconds = 0;
  double copy_seconds = 0;   // to memory of the host; 0: there was none for a copy
  double write_seconds = 0;  // to the file system
};
// `status` not ok: the weights are as they were, and `version` was not published.
struct SetBackDone {
  uint64_t to = 0;
  uint64_t version = 0;
  uint64_t step = 0;
  Status status;
};
using TrainerEvent = std::variant<TrainDone, PublishDone, CheckpointDone, SetBackDone>;

struct CheckpointRequest {
  uint64_t step = 0;
  uint64_t version = 0;  // the newest published
  std::string path;      // the directory to make; appears whole or not at all
  // That of this step stays, whichever else go: a run would go on from it.
  std::optional<uint64_t> keep_step{};
};

struct SetBackRequest {
  uint64_t to = 0;       // the version whose weights and optimizer the trainer goes on from
  uint64_t version = 0;  // they are published as
  uint64_t step = 0;     // steps taken, which stay taken
};

class TrainerPort {
 public:
  virtual ~TrainerPort() = default;
  virtual void Train(v1::Batch batch) = 0;
  virtual void Publish(uint64_t version, uint64_t step) = 0;
  virtual void Checkpoint(CheckpointRequest request) = 0;
  // Answered with SetBackDone. A trainer that keeps no earlier weights cannot.
  virtual void SetBack(const SetBackRequest& request) {
    events().Post(SetBackDone{request.to, request.version, request.step,
                              Unavailable("this trainer keeps no earlier weights")});
  }
  // Of the versions kept for SetBack only these, and the newest, are needed. No answer.
  virtual void NeedOnly(const std::vector<uint64_t>& versions) { (void)versions; }
  virtual Mailbox<TrainerEvent>& events() = 0;
};

}  // namespace tidemill
