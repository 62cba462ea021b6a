#include "run/lesson_watch.h"

#include <algorithm>

#include "core/text.h"

namespace tidemill {
namespace {

constexpr uint64_t kUnscoredMin = 16;
constexpr size_t kCauseMax = 300;
constexpr const char* kEqualRewards =
    "the tasks are too hard or too easy for this model, or the reward is too coarse: give partial "
    "credit, take easier tasks, or train on demonstrations first (docs/training.md, \"When no "
    "group has differing rewards\")";

std::string Many(uint64_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// Of a cause over several lines (a traceback): where it was, and what it came to.
std::string OneLine(const std::string& text) {
  const std::string whole = text.substr(0, text.find_last_not_of(" \r\n\t") + 1);
  const size_t first = whole.find('\n'), last = whole.rfind('\n');
  if (first == std::string::npos) return Beginning(whole, kCauseMax);
  return Beginning(whole.substr(0, first), kCauseMax) + " .. " +
         Beginning(whole.substr(last + 1), kCauseMax);
}

// "31 times: grade unavailable: gcc is not installed"
std::string MostFrequent(const std::map<std::string, uint64_t>& causes) {
  const auto most =
      std::max_element(causes.begin(), causes.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == causes.end()) return "";
  return Many(most->second, "time") + ": " + OneLine(most->first);
}

}  // namespace

std::string LessonWatch::Look(const RunSnapshot& s) {
  // Evaluation is not training: its episodes are not meant to teach.
  if (s["steps"] != steps_seen_ || s["evaluating"] > 0) {
    if (s["steps"] != steps_seen_) batches_ = 8;
    steps_seen_ = s["steps"];
    from_ = s["episodes_finished"];
  }
  const uint64_t fruitless = s["episodes_finished"] - std::min(from_, s["episodes_finished"]);
  if (!train_ || s["ready_episodes"] > 0 || fruitless < batches_ * batch_) return "";
  from_ = s["episodes_finished"];
  batches_ *= 2;
  std::string text = Many(fruitless, "episode") + " without a training step: so far " +
                     std::to_string(s["zero_variance"]) +
                     " in groups whose rewards are all equal, " + std::to_string(s["untrainable"]) +
                     " in groups in which the model wrote nothing, " + std::to_string(s["stale"]) +
                     " stale (see stale_by_cause), " + std::to_string(s["too_old"]) + " too old";
  if (s["zero_variance"] > 0) text += std::string("; ") + kEqualRewards;
  return text;
}

bool LessonWatch::Hopeless(const RunSnapshot& s) const {
  return s["scored"] <= scored_before_ &&
         s["unscored"] >= unscored_before_ + std::max(kUnscoredMin, batch_);
}

namespace {

uint64_t Grown(uint64_t now, uint64_t before) {
  return now - std::min(now, before);
}

RunCounts Since(RunCounts counts, const RunCounts& before) {
  counts.episodes = Grown(counts.episodes, before.episodes);
  counts.train = Grown(counts.train, before.train);
  counts.unscored = Grown(counts.unscored, before.unscored);
  counts.steps = Grown(counts.steps, before.steps);
  for (const auto& [cause, count] : before.stale_by_cause) {
    const auto found = counts.stale_by_cause.find(cause);
    if (found == counts.stale_by_cause.end()) continue;
    found->second = Grown(found->second, count);
    if (found->second == 0) counts.stale_by_cause.erase(found);
  }
  return counts;
}

// Why a run that was to make a step made none.
std::string WhyNoStep(const RunCounts& counts, const TokenUse& tokens, const RunSnapshot& last) {
  if (counts.train == 0) return "no training episode was finished in time";
  const uint64_t equal = last["zero_variance"], untrainable = last["untrainable"];
  const std::string causes = MostFrequent(counts.stale_by_cause);
  const std::string of_all = " of " + std::to_string(counts.train);
  if (untrainable > 0 && untrainable >= std::max(equal, last["stale"])) {
    const std::string why = MostFrequent(tokens.untrained);
    return Many(untrainable, "episode") + of_all +
           " in groups in which the model wrote nothing that can be trained" +
           (why.empty() ? "" : "; most frequent cause, " + why);
  }
  if (equal > 0 && equal >= last["stale"]) {
    return Many(equal, "episode") + of_all + " in groups whose rewards are all equal; " +
           kEqualRewards;
  }
  if (!causes.empty()) return "most episodes are stale, " + causes;
  return Many(counts.train, "episode") +
         " finished, too few for a batch; give the run more time or make the batch smaller "
         "(rollout.groups_per_step, rollout.group_size)";
}

}  // namespace

Status CheckTaught(const RunCounts& all, const TokenUse& tokens, const RunSnapshot& last,
                   const Lesson& lesson) {
  const RunCounts counts = Since(all, lesson.before);
  const std::string causes = MostFrequent(counts.stale_by_cause);
  if (counts.episodes > 0 && counts.unscored == counts.episodes && !causes.empty()) {
    return Unavailable("none of " + Many(counts.episodes, "episode") +
                       " could be scored; most frequent cause, " + causes);
  }
  const std::string untrained = MostFrequent(tokens.untrained);
  const bool drew = tokens.drawn > lesson.drawn_before;
  if (counts.episodes > 0 && !drew && tokens.answers == 0 && !untrained.empty()) {
    return Unavailable("no agent got an answer of the model in " +
                       Many(counts.episodes, "episode") + "; most frequent cause, " + untrained);
  }
  if (lesson.steps && counts.steps == 0) {
    const bool resumed = lesson.before.steps > 0;
    return Unavailable(std::string("no training step was made") +
                       (resumed ? " since the run was resumed: " : ": ") +
                       WhyNoStep(counts, tokens, last));
  }
  if (lesson.tokens && tokens.used == 0) {
    return Unavailable(Many(counts.steps, "step") + " made, and not one token was trained" +
                       (untrained.empty() ? "" : "; most frequent cause, " + untrained));
  }
  return Ok();
}

}  // namespace tidemill
