#include "run/torch/weights_watch.h"

#include <algorithm>
#include <iterator>

#include "bus/broker.h"
#include "core/log.h"
#include "core/version.h"
#include "run/stop_signal.h"
#include "run/torch/make_trainer.h"
#include "weights/folder_place.h"
#include "weights/shared_folder.h"
#include "weights/shm_weights.h"
#include "weights/version_log.h"

namespace tidemill {
namespace {

// So many versions that did not check out are not chance.
constexpr uint64_t kRefusedMax = 3;

Result<DecodeOptions> ReadShape(const RunConfig& config) {
  DecodeOptions decode;
  TM_ASSIGN_OR_RETURN(decode.config, ReadModelConfig(config.model.path));
  TM_ASSIGN_OR_RETURN(decode.device, DeviceOf(config));
  if (config.learner.lora_rank > 0 || !config.model.adapter.empty()) {
    TM_ASSIGN_OR_RETURN(decode.base, BaseWeights(config, decode.device));
  }
  return decode;
}

}  // namespace

Result<std::unique_ptr<WeightsWatch>> WeightsWatch::Follow(const RunConfig& config,
                                                           const std::string& bus_url,
                                                           const std::string& run,
                                                           const SheetKeys& keys) {
  TM_ASSIGN_OR_RETURN(DecodeOptions decode, ReadShape(config));
  TM_ASSIGN_OR_RETURN(SheetBoard board,
                      SheetBoard::Connect(bus_url, run, keys, std::chrono::seconds(1)));
  TM_ASSIGN_OR_RETURN(RunSheet sheet, WaitForSheet(board, run));
  std::unique_ptr<WeightsWatch> watch(
      new WeightsWatch(config, bus_url, std::move(board), std::move(decode)));
  TM_RETURN_IF_ERROR(watch->FollowSheet(std::move(sheet)));
  return watch;
}

bool WeightsWatch::May(WeightsWay way) const {
  const std::string& wanted = config_.bus.weights;
  return (wanted == "auto" || wanted == WayName(way)) && !broken_.contains(way);
}

Status WeightsWatch::FollowSheet(RunSheet sheet) {
  if (sheet.incarnation != sheet_.incarnation) broken_.clear();
  sheet_ = std::move(sheet);
  Status why = Unavailable("no way is left by which weights could come");
  for (const WeightsWay way : kWeightsWays) {
    if (!May(way)) continue;
    why = FollowBy(way).WithContext("weights by " + std::string(WayName(way)));
    if (!why.ok()) continue;
    way_ = way;
    LogInfo("receiving weights", {{"by", WayName(way)}});
    return Ok();
  }
  return why;
}

Status WeightsWatch::FollowBy(WeightsWay way) {
  switch (way) {
    case WeightsWay::kShm: {
      if (sheet_.shm_domain != ShmDomain() || sheet_.shm.empty()) {
        return NotFound("the learner is on another host or in another container");
      }
      TM_ASSIGN_OR_RETURN(auto source, OpenShmWeights(sheet_.shm, sheet_.incarnation));
      receiver_.Follow(std::move(source));
      return Ok();
    }
    case WeightsWay::kFiles:
      // Whoever asks for files knows why; by itself the worker takes only the learner's own folder.
      if (config_.bus.weights == "auto" &&
          !IsSharedFolder(sheet_.weights_folder, sheet_.incarnation)) {
        return NotFound(sheet_.weights_folder + " is not a folder of the learner");
      }
      receiver_.Follow(NewVersionLogSource(NewFolderPlace(sheet_.weights_folder)));
      break;
    case WeightsWay::kBus: {
      TM_ASSIGN_OR_RETURN(auto place, ConnectPlace(bus_url_, sheet_.run));
      receiver_.Follow(NewVersionLogSource(std::move(place)));
      break;
    }
  }
  return board_.AskForWeights(way);
}

Status WeightsWatch::LookAtWay() {
  if (receiver_.refused_in_a_row() < kRefusedMax) return Ok();
  broken_.insert(way_);
  const bool another = std::any_of(std::begin(kWeightsWays), std::end(kWeightsWays),
                                   [this](WeightsWay way) { return May(way); });
  if (!another) {
    // There is only this one; it may recover.
    broken_.erase(way_);
    return Ok();
  }
  LogWarn("weights do not arrive; trying another way", {{"by", WayName(way_)}});
  const Status followed = FollowSheet(sheet_);
  if (!followed.ok()) LogWarn("no other way of weights works", {{"why", followed.message()}});
  return Ok();
}

Result<PublishedWeights> WeightsWatch::First() {
  while (!AskedToStop()) {
    Result<PublishedWeights> came = receiver_.WaitForFirst(std::chrono::seconds(1));
    if (came.ok()) return came;
    (void)Look(0);  // the learner may have been replaced before its first version
  }
  return Closed("stopped before any weights arrived");
}

Status WeightsWatch::Look(uint64_t version) {
  const Result<std::optional<RunSheet>> now = board_.Read();
  if (!now.ok() || !*now) return Ok();  // a learner that is away comes back; work goes on
  const RunSheet& sheet = **now;
  if (way_ != WeightsWay::kShm) (void)board_.AskForWeights(way_);
  if (sheet.incarnation == sheet_.incarnation) return LookAtWay();
  if (sheet.messages != kMessagesVersion) {
    return Invalid("the new learner uses version " + std::to_string(sheet.messages) +
                   " of the messages, this program uses version " +
                   std::to_string(kMessagesVersion));
  }
  if (sheet.version <= version) {
    return Unavailable("run " + sheet.run + " was started anew; restart this worker");
  }
  LogInfo("a new learner took over", {{"pid", sheet.pid}, {"host", sheet.host}});
  const Status followed = FollowSheet(sheet);
  if (!followed.ok()) {
    LogWarn("cannot read the new learner's weights", {{"why", followed.message()}});
  }
  return Ok();
}

}  // namespace tidemill
