#include "weights/weight_publisher.h"

#include <utility>

#include "core/log.h"
#include "weights/file_weights.h"

namespace tidemill {

WeightPublisher::WeightPublisher(Encode encode, Options options)
    : encode_(std::move(encode)), options_(std::move(options)) {}

Status WeightPublisher::Publish(PublishedWeights weights) {
  if (weights.weights == nullptr) return Invalid("nothing to publish: the weights are missing");
  TM_ASSIGN_OR_RETURN(const EncodedWeights encoded, encode_(*weights.weights));
  MutexLock lock(mutex_);
  if (weights.version <= newest_.version) {
    return Invalid("version " + std::to_string(weights.version) + " is not above " +
                   std::to_string(newest_.version) + ", the newest published");
  }
  if (shm_ == nullptr && !no_shm_) {
    // A header may grow by a few digits from one version to the next.
    auto made = ShmWeightSink::Create(encoded.parts->bytes() + 65536, options_.incarnation);
    no_shm_ = !made.ok();
    if (made.ok()) shm_ = std::move(*made);
    if (no_shm_)
      LogWarn("cannot share weights in memory; using files only",
              {{"why", made.status().message()}});
  }
  want_files_ = want_files_ || no_shm_;
  if (shm_ != nullptr) {
    TM_RETURN_IF_ERROR(shm_->Put(weights.version, weights.step, *encoded.parts));
  }
  newest_ = std::move(weights);
  if (want_files_) PutFiles(*encoded.parts);
  return Ok();
}

void WeightPublisher::PutFiles(const SafetensorsParts& parts) {
  if (options_.folder.empty()) return;
  Status status;
  if (files_ == nullptr) {
    auto made = FileWeightSink::Create(options_.folder);
    status = made.status();
    if (made.ok()) files_ = std::move(*made);
  }
  if (files_ != nullptr) status = files_->Put(newest_.version, newest_.step, parts);
  if (!status.ok()) LogWarn("could not write weights to files", {{"why", status.message()}});
}

Result<PublishedWeights> WeightPublisher::NewerThan(uint64_t have) {
  MutexLock lock(mutex_);
  return newest_.version > have ? newest_ : PublishedWeights{};
}

void WeightPublisher::WantFiles() {
  MutexLock lock(mutex_);
  if (std::exchange(want_files_, true) || newest_.weights == nullptr) return;
  const Result<EncodedWeights> encoded = encode_(*newest_.weights);
  if (encoded.ok()) PutFiles(*encoded->parts);
}

std::string WeightPublisher::shm_location() const {
  MutexLock lock(mutex_);
  return shm_ == nullptr ? "" : shm_->location();
}

}  // namespace tidemill
