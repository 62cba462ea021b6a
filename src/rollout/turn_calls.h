// The calls of one turn: some begin while it is drawn, the others when it is over, wave by wave.
//
// A call that changes files is a wave alone, behind those before it and before those behind it; the
// others run side by side. Calls of the first wave that change nothing may begin early: they see
// the workspace they would see later. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "rollout/open_call.h"

namespace tidemill {

struct TurnCall : OpenCall {
  bool background = false;  // the agent wishes it, or the tool always does
  std::string handle{};     // of one that went on in the background
  std::string failed{};     // an early one that was given up: why
  bool sent = false;
};

class TurnCalls {
 public:
  explicit TurnCalls(const EpisodeLimits& limits) : limits_(limits) {}

  // Whether the turn's next call may begin before the turn is over.
  bool MayBeginEarly(const TurnCall& call) const;
  // A call that is complete while the turn is drawn. Null: it begins with the others.
  TurnCall* FoundEarly(TurnCall call);
  // The turn is over and these are its calls. What began early goes on where it is one of them; the
  // ids of the requests that are none: they are to be cancelled, and cost nothing.
  std::vector<std::string> Settle(std::vector<TurnCall> calls);
  // Nothing of the turn counts, or it is over: the ids of all that run.
  std::vector<std::string> TakeBack();
  void Clear();

  // The next wave becomes the one that runs. False: there is none.
  bool NextWave();
  std::span<TurnCall> wave() { return std::span(calls_).subspan(begin_, end_ - begin_); }
  bool WaveDone() const;

  // That waits for this result; null: none.
  TurnCall* Of(const std::string& request_id);
  std::vector<TurnCall>& all() { return calls_; }
  // The turn is being drawn.
  bool open() const { return open_; }
  void Open();

 private:
  bool Alone(const TurnCall& call) const;
  std::vector<std::string> IdsOfRunning(size_t from) const;

  const EpisodeLimits limits_;
  std::vector<TurnCall> calls_;
  size_t begin_ = 0, end_ = 0;  // of the wave that runs
  bool open_ = false;
  bool closed_early_ = false;  // a call that has to wait was found: those behind it wait, too
};

}  // namespace tidemill
