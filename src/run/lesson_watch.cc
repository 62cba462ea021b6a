#include "run/lesson_watch.h"

#include <algorithm>

#include "core/text.h"

namespace tidemill {
namespace {

constexpr uint64_t kUnscoredMin = 16;
constexpr size_t kCauseMax = 300;

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
  return std::to_string(fruitless) + " episodes without a training step: so far " +
         std::to_string(s["zero_variance"]) +
         " in groups whose rewards are all equal (tasks too hard or too easy, or a reward that is "
         "too coarse), " +
         std::to_string(s["stale"]) + " stale (see stale_by_cause), " +
         std::to_string(s["too_old"]) + " too old";
}

bool LessonWatch::Hopeless(const RunSnapshot& s) const {
  return s["scored"] == 0 && s["unscored"] >= std::max(kUnscoredMin, batch_);
}

Status CheckTaught(const RunCounts& counts, const RunSnapshot& last, bool train) {
  const std::string causes = MostFrequent(counts.stale_by_cause);
  if (counts.episodes > 0 && counts.unscored == counts.episodes && !causes.empty()) {
    return Unavailable("none of " + Many(counts.episodes, "episode") +
                       " could be scored; most frequent cause, " + causes);
  }
  if (!train || counts.steps > 0) return Ok();
  if (counts.train == 0)
    return Unavailable("no training step was made: no training episode was finished in time");
  if (last["zero_variance"] > 0 && last["zero_variance"] >= last["stale"]) {
    return Unavailable("no training step was made: " + Many(last["zero_variance"], "episode") +
                       " of " + std::to_string(counts.train) +
                       " in groups whose rewards are all equal (tasks too hard or too easy, or a "
                       "reward that is too coarse)");
  }
  if (!causes.empty())
    return Unavailable("no training step was made: most episodes are stale, " + causes);
  return Unavailable("no training step was made: " + Many(counts.train, "episode") +
                     " finished, too few for a batch; give the run more time or make the batch "
                     "smaller (rollout.groups_per_step, rollout.group_size)");
}

}  // namespace tidemill
