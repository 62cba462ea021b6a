// Where an episode's time goes: spans of turns and calls in, the three sums of EpisodeTime out.
// Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/tidemill.pb.h"

namespace tidemill {

class EpisodeClock {
 public:
  // A turn was asked for, waited `place_ms` for room in the engine and was drawn then.
  void Turn(int64_t started_ms, double place_ms, int64_t finished_ms);
  // A call was sent, waited `queue_ms` for a tool worker and was at work then. One span for each
  // try. A call that nobody wanted to the end has none.
  void Call(int64_t asked_ms, double queue_ms, int64_t answered_ms);

  v1::EpisodeTime Split() const;

 private:
  enum Doing { kGenerating, kTool, kPlace };
  struct Edge {
    double at_ms = 0;
    Doing doing = kGenerating;
    int change = 0;  // 1: it begins, -1: it ends
  };
  // A span of waiting and one of what was waited for.
  void Add(int64_t from_ms, double waited_ms, int64_t to_ms, Doing doing);

  std::vector<Edge> edges_;
};

}  // namespace tidemill
