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
  // Of kPublishWays; "all": those that can be measured here.
  std::vector<std::string> ways = {"all"};
  std::string bus;  // redis://HOST:PORT/DB for the way "broker"; empty: it is not measured
};

// In process, shared memory, files, a broker's objects, and files when one number in a hundred
// changes from version to version: in the others all do.
inline constexpr const char* kPublishWays[] = {"process", "shm", "files", "broker", "delta"};

// Medians over the versions.
struct PublishWay {
  std::string name;              // of kPublishWays
  double bytes = 0;              // of a version on its way; 0: a pointer is
  double density = 0;            // share of its numbers that changed
  double to_first_token_ms = 0;  // from the end of the step (before the snapshot) to a token
  double snapshot_ms = 0;        // of that: the learner copies its weights
  double publish_ms = 0;         // of that: until Publish returns; the rest travels beside it
  double pause_ms = 0;           // generation stands still
  double step_ms = 0;            // of generation, between publications
  // The time of a plain copy of the whole version by the time that publication takes, also where a
  // thread of its own does it; 0: copies nothing.
  double copy_share = 0;
};

struct PublishBenchReport {
  uint64_t bytes = 0;
  double copy_gb_per_s = 0;  // memcpy of the same bytes between buffers used before
  std::vector<PublishWay> ways;
  std::vector<std::string> left_out;  // of "all", with why

  std::string ToText() const;
  std::string ToJson() const;  // one object, no line end
};

Result<PublishBenchReport> RunPublishBench(const PublishBenchOptions& options);

}  // namespace tidemill
