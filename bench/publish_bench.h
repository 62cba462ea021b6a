// How soon new weights are sampled from, and what that costs: each way from the learner to an
// engine that is generating all the while, beside a plain copy of the same bytes in the same run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"

namespace tidemill {

struct PublishBenchOptions {
  int64_t hidden_size = 512;  // of the model; 8 layers: about 100 MB
  int64_t layers = 8;
  uint32_t versions = 12;  // published each way; the first two are not counted
  uint32_t sequences = 8;  // generating meanwhile
  std::string folder;      // for files; empty: the system's for temporary files
};

// Medians over the versions.
struct PublishWay {
  std::string name;              // "in process", "shared memory", "files"
  double to_first_token_ms = 0;  // from the end of the step (before the snapshot) to a token
  double snapshot_ms = 0;        // of that: the learner copies its weights
  double publish_ms = 0;         // of that: until Publish returns
  double pause_ms = 0;           // generation stands still
  double step_ms = 0;            // of generation, between publications
  double publish_share = 0;      // bandwidth of Publish by that of a plain copy; 0: copies nothing
};

struct PublishBenchReport {
  uint64_t bytes = 0;
  double copy_gb_per_s = 0;  // memcpy of the same bytes between buffers used before
  std::vector<PublishWay> ways;

  std::string ToText() const;
  std::string ToJson() const;  // one object, no line end
};

Result<PublishBenchReport> RunPublishBench(const PublishBenchOptions& options);

}  // namespace tidemill
