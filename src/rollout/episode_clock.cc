#include "rollout/episode_clock.h"

#include <algorithm>

namespace tidemill {

void EpisodeClock::Turn(int64_t started_ms, double place_ms, int64_t finished_ms) {
  Add(started_ms, place_ms, finished_ms, kGenerating);
}

void EpisodeClock::Call(int64_t asked_ms, double queue_ms, int64_t answered_ms) {
  Add(asked_ms, queue_ms, answered_ms, kTool);
}

void EpisodeClock::Add(int64_t from_ms, double waited_ms, int64_t to_ms, Doing doing) {
  const auto from = static_cast<double>(from_ms), to = static_cast<double>(to_ms);
  if (to <= from) return;  // also where the wall clock was set back
  const double begin = std::clamp(from + waited_ms, from, to);
  if (begin > from) {
    edges_.push_back({from, kPlace, 1});
    edges_.push_back({begin, kPlace, -1});
  }
  if (to > begin) {
    edges_.push_back({begin, doing, 1});
    edges_.push_back({to, doing, -1});
  }
}

v1::EpisodeTime EpisodeClock::Split() const {
  std::vector<Edge> edges = edges_;
  std::sort(edges.begin(), edges.end(),
            [](const Edge& a, const Edge& b) { return a.at_ms < b.at_ms; });
  int open[3] = {};
  double sums[3] = {};
  double last = 0;
  for (const Edge& edge : edges) {
    // Of what goes on at once the first of these counts.
    for (const Doing doing : {kGenerating, kTool, kPlace}) {
      if (open[doing] == 0) continue;
      sums[doing] += edge.at_ms - last;
      break;
    }
    last = edge.at_ms;
    open[edge.doing] += edge.change;
  }
  v1::EpisodeTime time;
  time.set_generating_ms(sums[kGenerating]);
  time.set_tool_ms(sums[kTool]);
  time.set_place_ms(sums[kPlace]);
  return time;
}

}  // namespace tidemill
