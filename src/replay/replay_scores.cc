// Asking for verdicts: when an episode is stored, when an answer was lost, and again when a
// scorer's version rose.
#include <algorithm>
#include <cmath>

#include "core/topics.h"
#include "replay/replay_loop.h"
#include "tasks/case_record.h"

namespace tidemill {
namespace {

constexpr double kSameReward = 1e-9;

}  // namespace

ReplayLoop::Spread ReplayLoop::SpreadOf(const Group& group) {
  Spread spread;
  double low = 0, high = 0, sum = 0, squares = 0;
  for (const auto& [index, member] : group.members) {
    if (!member.verdict || member.excluded) continue;
    // What an audit added is noise to this choice.
    const double reward = member.verdict->reward() - member.verdict->correction();
    low = spread.usable == 0 ? reward : std::min(low, reward);
    high = spread.usable == 0 ? reward : std::max(high, reward);
    sum += reward, squares += reward * reward;
    ++spread.usable;
  }
  if (spread.usable == 0) return spread;
  const auto count = static_cast<double>(spread.usable);
  spread.same = high - low < kSameReward;
  spread.deviation = std::sqrt(std::max(0.0, squares / count - (sum / count) * (sum / count)));
  return spread;
}

bool ReplayLoop::HasTokens(const Group& group) {
  return std::any_of(group.members.begin(), group.members.end(), [](const auto& one) {
    const auto& turns = one.second.trajectory.turns();
    return !one.second.excluded && std::any_of(turns.begin(), turns.end(), [](const auto& turn) {
      return turn.ids_size() > 0;
    });
  });
}

// Whether the group is gone, because a step would learn nothing from it.
bool ReplayLoop::DroppedAsUseless(uint64_t group_id, const Spread& spread) {
  const Group& group = groups_.at(group_id);
  if (options_.drop_untrainable && !HasTokens(group)) {
    counters_.untrainable += group.size;
    Drop(group_id, "untrainable", false, "no member of the group has a token to train");
    return true;
  }
  if (!options_.drop_zero_variance || group.size < 2 || !spread.same) return false;
  counters_.zero_variance += group.size;
  Drop(group_id, "zero_variance", false);
  return true;
}

void ReplayLoop::AskForVerdict(const Asked& about, Time now) {
  Member& member = groups_.at(about.group).members.at(about.member);
  const v1::Trajectory& trajectory = member.trajectory;
  const v1::Task* task = tasks_.Find(trajectory.id().task());
  if (task == nullptr) {
    MarkStale(member, "the task is not in this run's task files");
    CompleteIfDone(about.group);
    return;
  }
  v1::ScoreRequest request;
  ++member.score_tries;
  member.asked = std::to_string(about.group) + "." + std::to_string(about.member) + "." +
                 std::to_string(trajectory.id().attempt()) + ".s" +
                 std::to_string(member.score_tries) + "@" + options_.worker;
  request.set_request_id(member.asked);
  *request.mutable_id() = trajectory.id();
  request.set_purpose(trajectory.purpose());
  request.set_end(trajectory.end());
  *request.mutable_tree() = trajectory.tree();
  *request.mutable_grading() = task->grading();
  for (const v1::Turn& turn : trajectory.turns()) {
    v1::ToolCall& last = *request.add_last_calls();
    if (turn.calls_size() > 0) last = turn.calls(turn.calls_size() - 1);
    request.set_generated_tokens(request.generated_tokens() +
                                 static_cast<uint32_t>(turn.ids_size()));
  }
  request.set_turns(static_cast<uint32_t>(trajectory.turns_size()));
  request.set_max_tokens(options_.max_turn_tokens * request.turns());
  request.set_prompt(task->prompt());
  *request.mutable_weights() = task->weights();
  request.set_metadata_json(task->metadata_json());
  request.set_root(task->root());
  if (options_.turn_text) {
    for (const v1::Turn& turn : trajectory.turns())
      request.add_turn_texts(options_.turn_text({turn.ids().begin(), turn.ids().end()}));
  }
  for (const auto& [scorer, version] : scorer_versions_) {
    v1::ScorerVersion& known = *request.add_known_versions();
    known.set_scorer(scorer), known.set_version(version);
  }
  request.set_submission(trajectory.submission());
  if (!task->answer_file().empty()) request.add_files(task->answer_file());
  for (const std::string& source : task->grading().sources()) {
    if (source != task->answer_file()) request.add_files(source);
  }
  AddPeers(groups_.at(about.group), about.member, request);
  questions_.Ask(kScoreTopic, std::move(request), about, now);
}

// An episode was stored: its verdict is asked for, or, where answers are compared, those of its
// group once it is whole.
void ReplayLoop::OnMember(const Asked& about, Time now) {
  const auto group = groups_.find(about.group);
  if (draining_ || group == groups_.end() || AwaitsMembers(group->second)) return;
  std::vector<uint32_t> open;
  for (const auto& [index, member] : group->second.members) {
    const bool meant = options_.compared_with > 0 || index == about.member;
    if (meant && !member.excluded && !member.verdict && member.asked.empty()) open.push_back(index);
  }
  for (const uint32_t index : open) {
    if (FindMember(about.group, index) != nullptr) AskForVerdict({about.group, index}, now);
  }
}

// The members stand in a ring, and each is compared with those around it: if they are asked about
// two, the next and the one before. So a comparison serves both.
void ReplayLoop::AddPeers(const Group& group, uint32_t member, v1::ScoreRequest& request) const {
  if (options_.compared_with == 0) return;
  std::vector<const v1::Trajectory*> ring;
  size_t own = 0;
  for (const auto& [index, other] : group.members) {
    if (index == member) own = ring.size();
    // What failed because of us says nothing about the policy.
    if (index == member || other.trajectory.end() != v1::EPISODE_END_GIVEN_UP)
      ring.push_back(&other.trajectory);
  }
  const size_t count = std::min<size_t>(options_.compared_with, ring.size() - 1);
  for (size_t i = 0; i < count; ++i) {
    const size_t distance = i / 2 + 1;
    const size_t place = i % 2 == 0 ? own + distance : own + ring.size() - distance;
    const v1::Trajectory& other = *ring[place % ring.size()];
    v1::ScoredPeer& peer = *request.add_peers();
    peer.set_member(other.id().member());
    peer.set_submitted(other.end() == v1::EPISODE_END_SUBMITTED);
    peer.set_submission(other.submission());
  }
}

// A resumed run asks for what a draining one left open.
void ReplayLoop::AskAgain(Time now) {
  if (draining_) return;
  for (const auto& [id, about] : questions_.TakeLost(now)) OnNoVerdict(about, now);
  for (const Asked& about : ask_again_.TakeDue(now)) OnNoVerdict(about, now);
}

void ReplayLoop::OnNoVerdict(const Asked& about, Time now) {
  Member* found = FindMember(about.group, about.member);
  if (found == nullptr) return;  // evicted meanwhile
  Member& member = *found;
  member.asked.clear();
  if (member.verdict) {  // the one it has stays
    ++counters_.rescore_failed;
    FinishRescoring(about.group);
  } else if (AwaitsMembers(groups_.at(about.group))) {
    return;  // asked for with the last of them
  } else if (member.score_tries < options_.score_tries) {
    AskForVerdict(about, now);
  } else {
    MarkStale(member, "no verdict after " + std::to_string(member.score_tries) + " tries");
    CompleteIfDone(about.group);
  }
}

// Only of what is durable: memory can find it again where this message is lost.
void ReplayLoop::TellMemory(const Member& member) {
  if (!options_.tells_memory) return;
  const v1::Task* task = tasks_.Find(member.trajectory.id().task());
  if (task == nullptr) return;
  const std::optional<v1::CaseRecord> record = MakeCase(*task, member.trajectory, *member.verdict);
  if (record) outbox_.Publish(kMemoryCasesTopic, record->SerializeAsString());
}

void ReplayLoop::NoteVersions(const v1::Verdict& verdict) {
  for (const v1::RewardPart& part : verdict.parts()) {
    auto [known, first] = scorer_versions_.try_emplace(part.scorer(), part.scorer_version());
    if (first || part.scorer_version() <= known->second) continue;
    known->second = part.scorer_version();
    version_rose_ = true;
  }
}

bool ReplayLoop::Outdated(const Member& member) const {
  if (!member.verdict || member.excluded) return false;
  for (const v1::RewardPart& part : member.verdict->parts()) {
    auto known = scorer_versions_.find(part.scorer());
    if (known != scorer_versions_.end() && part.scorer_version() < known->second) return true;
  }
  return false;
}

// A verdict replaces another if it has a score and none of its scorers is older.
bool ReplayLoop::Replaces(const v1::Verdict& verdict, const v1::Verdict& before) {
  if (!verdict.scored()) return false;
  for (const v1::RewardPart& part : verdict.parts()) {
    for (const v1::RewardPart& old : before.parts()) {
      if (old.scorer() == part.scorer() && part.scorer_version() < old.scorer_version())
        return false;
    }
  }
  return true;
}

// How far the votes of judges were apart, at most.
double ReplayLoop::VoteSpread(const Group& group) {
  double most = 0;
  for (const auto& [index, member] : group.members) {
    if (!member.verdict) continue;
    for (const v1::RewardPart& part : member.verdict->parts()) {
      for (const v1::Judgement& judgement : part.judgements())
        most = std::max(most, judgement.spread());
    }
  }
  return most;
}

// The re-evaluation queue: of the groups that an older scorer judged, those whose rewards vary
// most or whose judges' votes split.
void ReplayLoop::ChooseForRescoring() {
  if (!version_rose_) return;
  version_rose_ = false;
  std::vector<std::pair<double, uint64_t>> outdated;
  for (const auto& [id, group] : groups_) {
    if (!group.in_buffer || rescoring_.count(id) != 0) continue;
    const bool any = std::any_of(group.members.begin(), group.members.end(),
                                 [&](const auto& entry) { return Outdated(entry.second); });
    if (any) outdated.emplace_back(-SpreadOf(group).deviation - VoteSpread(group), id);
  }
  std::sort(outdated.begin(), outdated.end());
  if (outdated.size() > options_.rescore_groups) outdated.resize(options_.rescore_groups);
  to_rescore_.clear();
  for (const auto& [deviation, id] : outdated) to_rescore_.push_back(id);
}

void ReplayLoop::RescoreNext(Time now) {
  while (!draining_ && !to_rescore_.empty() && rescoring_.size() < options_.rescore_at_once) {
    const uint64_t id = to_rescore_.front();
    to_rescore_.pop_front();
    auto group = groups_.find(id);
    if (group == groups_.end()) continue;  // used up, or gone, meanwhile
    for (auto& [index, member] : group->second.members) {
      const bool known = tasks_.Find(member.trajectory.id().task()) != nullptr;
      if (!known || !Outdated(member) || !member.asked.empty()) continue;
      rescoring_.insert(id);
      AskForVerdict({id, index}, now);
    }
  }
}

// When the last answer for a group is in: with its new rewards it has another place in the choice,
// or none.
void ReplayLoop::FinishRescoring(uint64_t group_id) {
  Group& group = groups_.at(group_id);
  for (const auto& [index, member] : group.members) {
    if (!member.asked.empty()) return;
  }
  rescoring_.erase(group_id);
  const Spread spread = SpreadOf(group);
  if (!DroppedAsUseless(group_id, spread)) buffer_.SetPriority(group_id, spread.deviation);
}

// The first failure of a scorer is told at once; after that only when their number has doubled.
void ReplayLoop::TellUnscored(const v1::Verdict& verdict) {
  const uint64_t count = counters_.unscored;
  if ((count & (count - 1)) != 0) return;
  const std::string many =
      count == 1 ? "an episode" : std::to_string(count) + " episodes so far, the newest";
  journal_.Record("warning", {{"unscored", static_cast<double>(count)}},
                  {{"what", "could not score " + many + " of task " + verdict.id().task() + ": " +
                                verdict.cause()}});
}

}  // namespace tidemill
