// Making batches: which groups, and which of their tokens are young enough.
#include <algorithm>

#include "bus/read_message.h"
#include "core/topics.h"
#include "replay/replay_loop.h"

namespace tidemill {
namespace {

constexpr size_t kRequestsAtOnce = 16;
constexpr size_t kVersionsAtOnce = 256;

}  // namespace

void ReplayLoop::TakeVersions() {
  for (Lease& lease : TakeFrom(bus_, kVersionsTopic, kVersionsAtOnce)) {
    v1::VersionPublished published;
    if (!ReadOrReject(bus_, lease, published, options_.limits)) continue;
    // The learner lives in this process: what is lost, is lost with the learner.
    (void)bus_.Ack(lease);
    Published(published.version(), published.step());
  }
}

void ReplayLoop::TakeBatchRequests() {
  for (Lease& lease : TakeFrom(bus_, kBatchRequestsTopic, kRequestsAtOnce)) {
    v1::BatchRequest request;
    if (!ReadOrReject(bus_, lease, request, options_.limits)) continue;
    (void)bus_.Ack(lease);
    if (last_batch_ && request.step() <= last_batch_->first) {
      // A repetition. The same groups again, or they would be used up without having been used.
      if (request.step() == last_batch_->first)
        outbox_.Reply(request.reply_to(), last_batch_->second);
      continue;
    }
    request_ = std::move(request);
  }
}

void ReplayLoop::Published(uint64_t version, uint64_t step) {
  versions_.Published(version, step);
  newest_version_ = std::max(newest_version_, version);
}

// Whether the group may be used for this step. Leaves out what is too old; a group of which less
// than two remain is dropped and its task issued again.
bool ReplayLoop::Usable(uint64_t group_id, const v1::BatchRequest& request) {
  Group& group = groups_.at(group_id);
  const int64_t now_ms = clock_.WallMs();
  size_t left = 0;
  std::vector<std::pair<Member*, uint64_t>> old;  // with the lag
  for (auto& [index, member] : group.members) {
    if (member.excluded) continue;
    const TokenAges ages =
        MeasureAges(member.trajectory, versions_, request.step(), now_ms, options_.staleness);
    const bool keep = ages.too_old == 0 || (options_.staleness.mask && ages.too_old < ages.tokens);
    if (keep)
      ++left;
    else
      old.emplace_back(&member, ages.max_lag);
  }
  counters_.too_old += old.size();
  const bool usable = left >= std::min<size_t>(2, group.size);
  if (!usable) {
    Drop(group_id, "too_old", true);
    return false;
  }
  for (auto& [member, lag] : old) {
    member->excluded = true;
    RecordFate(member->trajectory.id(), "too_old", "lag of " + std::to_string(lag) + " steps");
  }
  return true;
}

void ReplayLoop::AddSamples(const Group& group, uint32_t uses, v1::Batch& batch) {
  for (const auto& [index, member] : group.members) {
    if (member.excluded || !member.verdict) continue;
    v1::Sample& sample = *batch.add_samples();
    *sample.mutable_trajectory() = member.trajectory;
    *sample.mutable_verdict() = *member.verdict;
    *sample.mutable_teacher() = {member.teacher.begin(), member.teacher.end()};
    sample.set_uses(uses);
    const uint32_t masked = MaskTooOld(*sample.mutable_trajectory(), versions_, batch.step(),
                                       clock_.WallMs(), options_.staleness);
    sample.set_masked_tokens(masked);
    counters_.masked_tokens += masked;
    ++counters_.used;
  }
}

bool ReplayLoop::TryMakeBatch() {
  if (!request_) return false;
  const v1::BatchRequest& request = *request_;
  if (request.live_episodes() > 0) {
    SiftLive(request);
    const size_t available = live_.Available(request.live_episodes());
    // Enough wait, but too many of one tenant.
    counters_.live_held_back =
        live_.size() < request.live_episodes() ? 0 : live_.size() - available;
    if (available < request.live_episodes()) return false;
    counters_.live_held_back = 0;
  }
  // In the order of their numbers, whichever finished first: what a step computes must not depend
  // on that.
  std::set<uint64_t> drawn;
  uint32_t episodes = 0;
  while (episodes < request.episodes()) {
    const std::optional<ItemKey> key = buffer_.Draw();
    if (!key) break;
    if (!Usable(*key, request)) continue;
    episodes += groups_.at(*key).size;
    drawn.insert(*key);
  }
  if (episodes < request.episodes()) {
    for (uint64_t id : drawn) buffer_.PutBack(id);
    return false;
  }
  v1::Batch batch;
  batch.set_step(request.step());
  batch.set_learner_version(request.version());
  for (uint64_t id : drawn) {
    Group& group = groups_.at(id);
    AddSamples(group, group.uses, batch);
    ++group.uses;
    if (buffer_.Use(id)) Forget(id);
  }
  AddLive(request.live_episodes(), batch);
  last_batch_.emplace(request.step(), batch.SerializeAsString());
  outbox_.Reply(request.reply_to(), last_batch_->second);
  request_.reset();
  return true;
}

}  // namespace tidemill
