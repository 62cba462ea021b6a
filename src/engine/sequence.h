// One sequence as the engine keeps it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/control_state.h"
#include "engine/decode_backend.h"
#include "engine/engine.h"
#include "engine/prefix_cache.h"

namespace tidemill {

enum class SequenceState : uint8_t { kWaiting, kRunning, kParked };

struct Sequence {
  SequenceId id = 0;
  SequenceState state = SequenceState::kWaiting;
  std::vector<TokenId> tokens;  // all of them: prompt, generated, appended
  int32_t prompt_length = 0;
  uint64_t share_group = 0;   // 0: none
  std::vector<PageId> pages;  // hold positions [0, cached)
  int32_t cached = 0;
  int32_t computed_before = 0;  // positions below were computed once already
  uint64_t parked_at = 0;       // the scheduler's count when it was parked
  SequenceClass service = SequenceClass::kTraining;

  CacheOwner owner;
  PolicyVersion weights;  // its next rows are computed under
  bool pinned = false;    // to that version
  bool clean = true;      // all of [0, cached) was computed under `weights`
  bool trusted = true;    // the steps that computed it did not fail
  size_t published = 0;   // the first so many pages are known to the cache

  // Of the steps under way:
  int32_t drawing = 0;   // tokens they draw for this sequence
  size_t segment = 0;    // whose in the last of them
  bool closing = false;  // the last of these tokens ends the turn, whichever it is

  TurnParams turn;
  ControlState controls;
  bool stream = false;
  bool interrupted = false;                             // the turn ends with the next token
  std::chrono::steady_clock::time_point waits_since{};  // while it waits
  TurnOutput output;   // of the turn under way; of a streamed one what was not told yet
  int32_t turned = 0;  // tokens of the turn, forced and drawn
  int32_t routed = 0;  // rows whose experts were told
  int32_t scored = 0;  // rows of the prompt whose scores were asked for
  std::string tail;    // the last bytes of the turn, while stop strings are looked for
  std::vector<uint32_t> tail_tokens;  // which token each of them is of
  uint32_t bytes = 0;                 // of the turn

  void BeginWaiting() {
    state = SequenceState::kWaiting;
    waits_since = std::chrono::steady_clock::now();
  }
  void EndWaiting() {
    state = SequenceState::kRunning;
    const auto waited = std::chrono::steady_clock::now() - waits_since;
    output.place_ms += std::chrono::duration<double, std::milli>(waited).count();
  }

  // Tokens whose keys and values are still to be computed. One: the next step draws from it.
  int32_t Pending() const { return static_cast<int32_t>(tokens.size()) + drawing - cached; }
  // A draw that depends on the tokens before it waits until they are known.
  bool Decodes() const {
    return Pending() == 1 && !closing && !(drawing > 0 && turn.controls.Any());
  }
  bool Fills() const { return Pending() > 1 && drawing == 0; }
};

}  // namespace tidemill
