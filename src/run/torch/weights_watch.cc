#include "run/torch/weights_watch.h"

#include "core/log.h"
#include "core/version.h"
#include "run/stop_signal.h"
#include "run/torch/make_trainer.h"
#include "weights/file_weights.h"
#include "weights/shm_weights.h"

namespace tidemill {
namespace {

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
      new WeightsWatch(config, std::move(board), std::move(decode)));
  TM_RETURN_IF_ERROR(watch->FollowSheet(std::move(sheet)));
  return watch;
}

Status WeightsWatch::FollowSheet(RunSheet sheet) {
  sheet_ = std::move(sheet);
  by_files_ = false;
  if (config_.bus.weights != "files") {
    Status why = NotFound("the learner is on another host or in another container");
    if (sheet_.shm_domain == ShmDomain() && !sheet_.shm.empty()) {
      auto source = OpenShmWeights(sheet_.shm, sheet_.incarnation);
      why = source.status();
      if (source.ok()) {
        receiver_.Follow(std::move(*source));
        LogInfo("receiving weights through shared memory", {{"from", sheet_.shm}});
        return Ok();
      }
    }
    if (config_.bus.weights == "shm") return why.WithContext("bus.weights = shm");
  }
  by_files_ = true;
  receiver_.Follow(NewFileWeightSource(sheet_.weights_folder));
  LogInfo("receiving weights through files", {{"from", sheet_.weights_folder}});
  return board_.AskForFiles();
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
  if (by_files_) (void)board_.AskForFiles();
  if (sheet.incarnation == sheet_.incarnation) return Ok();
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
