// Trajectories of sessions: they come scored and with what they are compared with, wait in a pool
// of their own and are used once. The live loop owns their records; what becomes of them is written
// here.
#include <algorithm>

#include "bus/read_message.h"
#include "core/topics.h"
#include "replay/replay_loop.h"

namespace tidemill {
namespace {

constexpr size_t kLiveAtOnce = 64;

}  // namespace

Status ReplayLoop::CheckLive(const v1::LiveEvent& event) const {
  if (event.has_deleted()) return Ok();
  if (!event.has_sample() && !event.has_revised()) return Invalid("LiveEvent.event: is missing");
  const v1::Verdict& verdict =
      event.has_revised() ? event.revised().verdict() : event.sample().verdict();
  if (!verdict.scored()) return Invalid("a trajectory of a session without a verdict");
  if (event.has_revised()) return Ok();
  const v1::Trajectory& trajectory = event.sample().trajectory();
  if (trajectory.purpose() != v1::PURPOSE_LIVE) return Invalid("not of a session");
  const int turns = trajectory.turns_size();
  if (turns == 0) return Invalid("a trajectory of a session without turns");
  const int scores = event.sample().live().turn_scores_size();
  if (scores == turns) return CheckVersions(trajectory);
  return Invalid(std::to_string(scores) + " scores for " + std::to_string(turns) + " turns");
}

void ReplayLoop::TakeLive() {
  for (Lease& lease : TakeFrom(bus_, kLiveEventsTopic, kLiveAtOnce)) {
    v1::LiveEvent event;
    Status right = ParseMessage(lease.body, event, options_.limits);
    if (right.ok()) right = CheckLive(event);
    if (!right.ok()) {
      ++counters_.refused;
      (void)bus_.Reject(lease, right.message());
      continue;
    }
    // Its record is durable already: what is lost with this process is sent again by the next.
    (void)bus_.Ack(lease);
    if (event.has_deleted()) {
      live_.Forget(event.deleted().session());
      continue;
    }
    const LivePool::Put put = event.has_revised()
                                  ? live_.Revise(std::move(*event.mutable_revised()))
                                  : live_.Add(std::move(*event.mutable_sample()));
    if (put == LivePool::Put::kNew) ++counters_.live_received;
    if (put == LivePool::Put::kRevised) ++counters_.rescored;
    while (const std::optional<v1::Sample> out = live_.Overflow()) {
      ++counters_.evicted;
      RecordFate(out->trajectory().id(), "evicted", "too many sessions wait for a step");
    }
  }
  counters_.live_ready = live_.size();
}

// Leaves out what is too old for the step.
void ReplayLoop::SiftLive(const v1::BatchRequest& request) {
  const int64_t now_ms = clock_.WallMs();
  const std::vector<v1::Sample> old = live_.Drop([&](const v1::Sample& sample) {
    const TokenAges ages =
        MeasureAges(sample.trajectory(), versions_, request.step(), now_ms, options_.staleness);
    return options_.staleness.mask ? ages.too_old >= ages.tokens : ages.too_old > 0;
  });
  for (const v1::Sample& sample : old) {
    ++counters_.too_old;
    ++counters_.live_too_old;
    RecordFate(sample.trajectory().id(), "too_old", "over the staleness bound");
  }
  counters_.live_ready = live_.size();
}

void ReplayLoop::AddLive(uint32_t count, v1::Batch& batch) {
  for (v1::Sample& sample : live_.Take(count)) {
    const uint32_t masked = MaskTooOld(*sample.mutable_trajectory(), versions_, batch.step(),
                                       clock_.WallMs(), options_.staleness);
    sample.set_masked_tokens(masked);
    counters_.masked_tokens += masked;
    ++counters_.used;
    ++counters_.live_used;
    *batch.add_samples() = std::move(sample);
  }
  counters_.live_ready = live_.size();
}

}  // namespace tidemill
