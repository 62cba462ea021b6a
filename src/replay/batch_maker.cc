#include "replay/batch_maker.h"

#include <algorithm>
#include <vector>

#include "bus/read_message.h"
#include "core/topics.h"
#include "replay/role_sample.h"

namespace tidemill {
namespace {

constexpr size_t kRequestsAtOnce = 16;

}  // namespace

void BatchMaker::TakeRequests() {
  for (Lease& lease : TakeFrom(parts_.bus, kBatchRequestsTopic, kRequestsAtOnce)) {
    v1::BatchRequest request;
    if (!ReadOrReject(parts_.bus, lease, request, parts_.options.limits)) continue;
    const auto policy = parts_.options.policies.Find(request.policy());
    if (!policy.ok()) {
      (void)parts_.bus.Reject(lease, policy.status().message());
      continue;
    }
    // The learner lives in this process: a request that is lost, is lost with the learner.
    (void)parts_.bus.Ack(lease);
    const auto last = last_batch_.find(*policy);
    if (last != last_batch_.end() && request.step() <= last->second.first) {
      // A repetition. The same groups again, or they would be used up without having been used.
      if (request.step() == last->second.first)
        parts_.outbox.Reply(request.reply_to(), last->second.second);
      continue;
    }
    const auto open = std::find_if(requests_.begin(), requests_.end(),
                                   [&](const Request& one) { return one.policy == *policy; });
    if (open != requests_.end()) {
      open->wish = std::move(request);
    } else {
      requests_.push_back({*policy, std::move(request)});
    }
  }
}

// Whether the group may be used for this step. Leaves out what is too old; a group of which less
// than two remain is dropped and its task issued again.
bool BatchMaker::Usable(uint64_t id, const Request& request) {
  ReplayGroup& group = parts_.book.at(id);
  const int64_t now_ms = clock_.WallMs();
  const StalenessConfig& bound = parts_.options.StalenessOf(request.policy);
  const VersionSteps& versions = versions_.Of(request.policy);
  const std::string name = parts_.options.policies.NameOf(request.policy);
  const uint64_t step = request.wish.step();
  ReplayPart& part = group.parts.at(request.policy);
  size_t left = 0;
  std::vector<std::pair<uint32_t, uint64_t>> old;  // members, with the lag
  for (auto& [index, member] : group.members) {
    if (member.excluded || part.too_old.contains(index)) continue;
    const TokenAges ages = MeasureAges(member.trajectory, name, versions, step, now_ms, bound);
    const bool keep = ages.too_old == 0 || (bound.masks() && ages.too_old < ages.tokens);
    if (keep)
      ++left;
    else
      old.emplace_back(index, ages.max_lag);
  }
  parts_.counters.too_old += old.size();
  if (left < std::min<size_t>(2, group.size)) {
    parts_.book.DropPart(id, request.policy, Fate::kTooOld);
    return false;
  }
  for (const auto& [member, lag] : old) {
    // Another policy may still learn from it.
    if (group.parts.size() > 1) {
      part.too_old.insert(member);
      continue;
    }
    group.members.at(member).excluded = true;
    parts_.writer.Record(group.members.at(member).trajectory.id(), Fate::kTooOld,
                         "lag of " + std::to_string(lag) + " steps");
  }
  return true;
}

std::optional<std::set<uint64_t>> BatchMaker::Draw(const Request& request) {
  GroupBuffer& buffer = parts_.book.BufferOf(request.policy);
  const uint32_t wanted = request.wish.episodes();
  std::set<uint64_t> drawn;
  uint32_t episodes = 0;
  while (episodes < wanted) {
    const std::optional<ItemKey> key = buffer.Draw();
    if (!key) break;
    if (!Usable(*key, request)) continue;
    episodes += parts_.book.at(*key).size;
    drawn.insert(*key);
  }
  if (episodes >= wanted) return drawn;
  for (const uint64_t id : drawn) buffer.PutBack(id);
  return std::nullopt;
}

void BatchMaker::AddSamples(const ReplayGroup& group, PolicyId policy, v1::Batch& batch) {
  const ReplayPart& part = group.parts.at(policy);
  for (const auto& [index, member] : group.members) {
    if (member.excluded || !member.verdict || part.too_old.contains(index)) continue;
    for (const std::string& role : part.roles) {
      std::optional<v1::Sample> made = RoleSample(member, role);
      if (!made) continue;
      v1::Sample& sample = *batch.add_samples();
      sample = std::move(*made);
      sample.set_uses(part.uses);
      const uint32_t masked =
          MaskTooOld(*sample.mutable_trajectory(), versions_.Of(policy), batch.step(),
                     clock_.WallMs(), parts_.options.StalenessOf(policy));
      sample.set_masked_tokens(masked);
      parts_.counters.masked_tokens += masked;
      ++parts_.counters.used;
    }
  }
}

bool BatchMaker::TryMake() {
  for (auto request = requests_.begin(); request != requests_.end(); ++request) {
    if (!Make(*request)) continue;
    requests_.erase(request);
    return true;
  }
  return false;
}

bool BatchMaker::Make(const Request& request) {
  const v1::BatchRequest& wish = request.wish;
  if (!live_.Ready(wish)) return false;
  const auto drawn = Draw(request);
  if (!drawn) return false;
  v1::Batch batch;
  batch.set_step(wish.step());
  batch.set_learner_version(wish.version());
  batch.set_policy(wish.policy());
  // In the order of their numbers, whichever finished first: what a step computes must not depend
  // on that.
  for (const uint64_t id : *drawn) {
    AddSamples(parts_.book.at(id), request.policy, batch);
    parts_.book.Use(id, request.policy);
  }
  live_.AddTo(wish.live_episodes(), batch);
  auto& last = last_batch_[request.policy];
  last = {wish.step(), batch.SerializeAsString()};
  parts_.outbox.Reply(wish.reply_to(), last.second);
  return true;
}

}  // namespace tidemill
