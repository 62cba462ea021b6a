// Takes versions to a place that other hosts reach, on a thread of its own: the learner waits for
// no disk and no link. A version that still waits when the next one comes is left out.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "core/mutex.h"
#include "weights/version_log.h"

namespace tidemill {

// Weights as they travel. `keeps` holds what the parts point into.
struct EncodedWeights {
  std::unique_ptr<const SafetensorsParts> parts;
  std::shared_ptr<const void> keeps;
};

// A version on its way.
struct TravellingWeights {
  uint64_t version = 0;
  uint64_t step = 0;
  EncodedWeights encoded;
};

struct CarrierFigures {
  uint64_t versions = 0;     // that arrived
  uint64_t version = 0;      // the newest of them
  PutFigures put{};          // of that one
  double seconds = 0;        // it took
  uint64_t bytes_total = 0;  // of all versions
};

// Thread-safe.
class WeightCarrier {
 public:
  using Open = std::function<Result<std::unique_ptr<ObjectPlace>>()>;

  // `way` is for messages: "files". The place is opened when there is something to carry, and
  // again after a failure.
  WeightCarrier(std::string way, Open open);
  // A version that is under way arrives; one that waits does not.
  ~WeightCarrier();

  void Carry(std::shared_ptr<const TravellingWeights> weights);
  // Waits until nothing is under way. Not for loops.
  void Flush();
  CarrierFigures figures() const;

 private:
  void Run();
  Status Deliver(const TravellingWeights& weights);
  void LogArrival(const TravellingWeights& weights, const PutFigures& put, double seconds) const;

  const std::string way_;
  const Open open_;
  std::unique_ptr<VersionLogSink> sink_;  // the thread's

  mutable Mutex mutex_;
  CondVar changed_;
  std::shared_ptr<const TravellingWeights> waiting_ TM_GUARDED_BY(mutex_);
  bool busy_ TM_GUARDED_BY(mutex_) = false;
  bool stop_ TM_GUARDED_BY(mutex_) = false;
  CarrierFigures figures_ TM_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace tidemill
