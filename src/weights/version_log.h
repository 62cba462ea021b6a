// Versions in a shared place: whole ones now and then, and what changed in between.
//
//   weights-00000012.safetensors   a whole version; readable by anything that reads safetensors
//   delta-00000013                 what changed since the version before (weight_delta.h)
//   newest.json                    a PolicyLog: what is there, each with its size and checksum
//
// A subscriber that has an earlier version reads what changed since; one that has none, or another,
// reads the last whole version and what changed since that.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "core/object_place.h"
#include "weights/weight_delta.h"
#include "weights/weight_wire.h"

namespace tidemill::v1 {
class PolicyLog;
}

namespace tidemill {

struct VersionLogOptions {
  // A whole version at least this often, and whenever the changes since the last one add up to its
  // size. 1: all are whole.
  size_t whole_every = 16;
  DeltaMaker::Options delta{};
};

// Written by the last Put.
struct PutFigures {
  uint64_t bytes = 0;  // of what a subscriber with the version before reads
  uint64_t whole = 0;  // bytes of the whole version
  double density = 1;  // share of elements that changed; 1 where that is not known
};

class VersionLogSink final : public WeightSink {
 public:
  // Takes away what an earlier publisher left: a place belongs to one publisher at a time.
  static Result<std::unique_ptr<VersionLogSink>> Create(std::unique_ptr<ObjectPlace> place,
                                                        const VersionLogOptions& options = {});
  ~VersionLogSink() override;

  // On failure the place is as it was, and the next version will be whole.
  Status Put(uint64_t version, uint64_t step, const SafetensorsParts& parts) override;

  const PutFigures& figures() const { return figures_; }

 private:
  VersionLogSink(std::unique_ptr<ObjectPlace> place, const VersionLogOptions& options);
  Status PutObject(v1::PolicyLog& log, uint64_t version, uint64_t step, uint64_t base,
                   std::span<const std::string_view> parts);
  Status PutLog(const v1::PolicyLog& log);
  void Prune(v1::PolicyLog& log, std::vector<std::string>& gone) const;

  const std::unique_ptr<ObjectPlace> place_;
  const VersionLogOptions options_;
  std::unique_ptr<v1::PolicyLog> log_;
  DeltaMaker maker_;
  uint64_t changes_bytes_ = 0;  // since the last whole version
  size_t changes_ = 0;
  PutFigures figures_;
};

// The place may be filled later. kCorrupt and kNotFound name the object.
std::unique_ptr<WeightSource> NewVersionLogSource(std::unique_ptr<ObjectPlace> place);

}  // namespace tidemill
