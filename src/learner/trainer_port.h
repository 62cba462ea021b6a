// The trainer as a port: batches in, reports out; publishes weights and writes checkpoints when
// told to. Commands are carried out one at a time, in order.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>

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
  double seconds = 0;
};
using TrainerEvent = std::variant<TrainDone, PublishDone, CheckpointDone>;

struct CheckpointRequest {
  uint64_t step = 0;
  uint64_t version = 0;  // the newest published
  std::string path;      // the directory to make; appears whole or not at all
};

class TrainerPort {
 public:
  virtual ~TrainerPort() = default;
  virtual void Train(v1::Batch batch) = 0;
  virtual void Publish(uint64_t version, uint64_t step) = 0;
  virtual void Checkpoint(CheckpointRequest request) = 0;
  virtual Mailbox<TrainerEvent>& events() = 0;
};

}  // namespace tidemill
