#include "weights/weight_publisher.h"

#include <chrono>
#include <utility>
#include <vector>

#include "core/log.h"
#include "weights/folder_place.h"

namespace tidemill {

WeightPublisher::WeightPublisher(Encode encode, Options options)
    : encode_(std::move(encode)), options_(std::move(options)) {}

Result<std::shared_ptr<const TravellingWeights>> WeightPublisher::Pack(
    const PublishedWeights& weights) const {
  auto packed = std::make_shared<TravellingWeights>();
  packed->version = weights.version;
  packed->step = weights.step;
  TM_ASSIGN_OR_RETURN(packed->encoded, encode_(*weights.weights));
  return std::shared_ptr<const TravellingWeights>(std::move(packed));
}

Status WeightPublisher::Publish(PublishedWeights weights) {
  if (weights.weights == nullptr) return Invalid("nothing to publish: the weights are missing");
  TM_ASSIGN_OR_RETURN(const auto packed, Pack(weights));
  const SafetensorsParts& parts = *packed->encoded.parts;
  MutexLock lock(mutex_);
  if (weights.version <= newest_.version) {
    return Invalid("version " + std::to_string(weights.version) + " is not above " +
                   std::to_string(newest_.version) + ", the newest published");
  }
  if (shm_ == nullptr && !no_shm_) {
    // A header may grow by a few digits from one version to the next.
    auto made = ShmWeightSink::Create(parts.bytes() + 65536, options_.incarnation);
    no_shm_ = !made.ok();
    if (made.ok()) shm_ = std::move(*made);
    if (no_shm_)
      LogWarn("cannot share weights in memory; using files only",
              {{"why", made.status().message()}});
  }
  if (no_shm_) AddCarrier(WeightsWay::kFiles);
  if (shm_ != nullptr) {
    const auto began = std::chrono::steady_clock::now();
    TM_RETURN_IF_ERROR(shm_->Put(weights.version, weights.step, parts));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    shm_figures_ = {.versions = shm_figures_.versions + 1,
                    .version = weights.version,
                    .put = {.bytes = parts.bytes(), .whole = parts.bytes()},
                    .seconds = took.count(),
                    .bytes_total = shm_figures_.bytes_total + parts.bytes()};
  }
  newest_ = std::move(weights);
  for (const auto& [way, carrier] : carriers_) carrier->Carry(packed);
  return Ok();
}

void WeightPublisher::AddCarrier(WeightsWay way) {
  if (carriers_.contains(way)) return;
  WeightCarrier::Open open;
  if (way == WeightsWay::kBus) open = options_.bus;
  if (way == WeightsWay::kFiles && !options_.folder.empty()) {
    open = [folder = options_.folder]() -> Result<std::unique_ptr<ObjectPlace>> {
      return NewFolderPlace(folder);
    };
  }
  if (open) {
    carriers_[way] = std::make_unique<WeightCarrier>(std::string(WayName(way)), std::move(open));
  }
}

Result<PublishedWeights> WeightPublisher::NewerThan(uint64_t have) {
  MutexLock lock(mutex_);
  return newest_.version > have ? newest_ : PublishedWeights{};
}

void WeightPublisher::Want(WeightsWay way) {
  MutexLock lock(mutex_);
  if (carriers_.contains(way)) return;
  AddCarrier(way);
  const auto added = carriers_.find(way);
  if (added == carriers_.end() || newest_.weights == nullptr) return;
  const auto packed = Pack(newest_);
  if (packed.ok()) added->second->Carry(*packed);
}

void WeightPublisher::Flush() {
  std::vector<WeightCarrier*> carriers;
  {
    MutexLock lock(mutex_);
    // They live as long as this does.
    for (const auto& [way, carrier] : carriers_) carriers.push_back(carrier.get());
  }
  for (WeightCarrier* carrier : carriers) carrier->Flush();
}

std::map<WeightsWay, CarrierFigures> WeightPublisher::figures() const {
  std::map<WeightsWay, CarrierFigures> all;
  MutexLock lock(mutex_);
  if (shm_figures_.versions > 0) all[WeightsWay::kShm] = shm_figures_;
  for (const auto& [way, carrier] : carriers_) all[way] = carrier->figures();
  return all;
}

std::string WeightPublisher::shm_location() const {
  MutexLock lock(mutex_);
  return shm_ == nullptr ? "" : shm_->location();
}

}  // namespace tidemill
