#include "replay/live_samples.h"

#include <string>
#include <utility>
#include <vector>

#include "core/topics.h"

namespace tidemill {
namespace {

constexpr size_t kLiveAtOnce = 64;
constexpr PolicyId kSessionPolicy = PolicyId::kMain;  // answers sessions, and learns from them

}  // namespace

LiveSamples::LiveSamples(const ReplayParts& parts, const PolicyVersions& versions,
                         const Clock& clock)
    : parts_(parts),
      versions_(versions),
      clock_(clock),
      pool_(parts.options.live_capacity, parts.options.live_tenant_share) {}

Status LiveSamples::Check(const v1::LiveEvent& event) const {
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
  if (scores == turns) return CheckVersions(trajectory, parts_.options.policies, versions_);
  return Invalid(std::to_string(scores) + " scores for " + std::to_string(turns) + " turns");
}

void LiveSamples::Take() {
  for (Lease& lease : TakeFrom(parts_.bus, kLiveEventsTopic, kLiveAtOnce)) {
    v1::LiveEvent event;
    Status right = ParseMessage(lease.body, event, parts_.options.limits);
    if (right.ok()) right = Check(event);
    if (!right.ok()) {
      ++parts_.counters.refused;
      (void)parts_.bus.Reject(lease, right.message());
      continue;
    }
    // Its record is durable already: what is lost with this process is sent again by the next.
    (void)parts_.bus.Ack(lease);
    Add(std::move(event));
  }
  parts_.counters.live_ready = pool_.size();
}

void LiveSamples::Add(v1::LiveEvent event) {
  if (event.has_deleted()) return pool_.Forget(event.deleted().session());
  const LivePool::Put put = event.has_revised() ? pool_.Revise(std::move(*event.mutable_revised()))
                                                : pool_.Add(std::move(*event.mutable_sample()));
  if (put == LivePool::Put::kNew) ++parts_.counters.live_received;
  if (put == LivePool::Put::kRevised) ++parts_.counters.rescored;
  while (const std::optional<v1::Sample> out = pool_.Overflow()) {
    ++parts_.counters.evicted;
    parts_.writer.Record(out->trajectory().id(), Fate::kEvicted,
                         "too many sessions wait for a step");
  }
}

void LiveSamples::LeaveOutOld(uint64_t step) {
  const int64_t now_ms = clock_.WallMs();
  const StalenessConfig& bound = parts_.options.staleness;
  const std::vector<v1::Sample> old = pool_.Drop([&](const v1::Sample& sample) {
    const TokenAges ages =
        MeasureAges(sample.trajectory(), parts_.options.policies.NameOf(kSessionPolicy),
                    versions_.Of(kSessionPolicy), step, now_ms, bound);
    return bound.masks() ? ages.too_old >= ages.tokens : ages.too_old > 0;
  });
  for (const v1::Sample& sample : old) {
    ++parts_.counters.too_old;
    ++parts_.counters.live_too_old;
    parts_.writer.Record(sample.trajectory().id(), Fate::kTooOld, "over the staleness bound");
  }
  parts_.counters.live_ready = pool_.size();
}

bool LiveSamples::Ready(const v1::BatchRequest& request) {
  if (request.live_episodes() == 0) return true;
  LeaveOutOld(request.step());
  const size_t available = pool_.Available(request.live_episodes());
  const bool enough = available >= request.live_episodes();
  // Enough wait, but too many of one tenant.
  const bool held_back = !enough && pool_.size() >= request.live_episodes();
  parts_.counters.live_held_back = held_back ? pool_.size() - available : 0;
  return enough;
}

void LiveSamples::AddTo(uint32_t count, v1::Batch& batch) {
  for (v1::Sample& sample : pool_.Take(count)) {
    const uint32_t masked = MaskTooOld(*sample.mutable_trajectory(), versions_.Of(kSessionPolicy),
                                       batch.step(), clock_.WallMs(), parts_.options.staleness);
    sample.set_masked_tokens(masked);
    parts_.counters.masked_tokens += masked;
    ++parts_.counters.used;
    ++parts_.counters.live_used;
    *batch.add_samples() = std::move(sample);
  }
  parts_.counters.live_ready = pool_.size();
}

}  // namespace tidemill
