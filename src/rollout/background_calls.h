// The background calls of one episode: which run, which have results that wait for delivery, and
// what bounds them. Pure: it sends nothing and knows no time but what it is told.
//
//   Start -> Of(request id) -> Finish -> Deliver (with the next turn)
//                           `- Cancel, CancelAll, Expire -> ids that nobody waits for any more
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "core/status.h"
#include "rollout/open_call.h"
#include "rollout/protocol.h"

namespace tidemill {

class BackgroundCalls {
 public:
  struct Job {
    size_t number = 0;  // of those started before it
    std::string handle;
    OpenCall call;
    bool keeps_files = false;
    enum class State : uint8_t {
      kRunning,
      kFinished,
      kDelivered,
      kCancelled
    } state = State::kRunning;
    int turn = 0;     // whose record it is in
    int index = 0;    // of that turn's calls
    v1::Tree before;  // the workspace it saw, where its files are kept
    size_t held_bytes = 0;
  };

  explicit BackgroundCalls(const BackgroundLimits& limits) : limits_(limits) {}

  // kFull: the episode may not start another now; in words for the agent.
  Status Room(int64_t now_ms) const;
  // A call that was sent, from then on in the background. `turn`, `index`: where its record will
  // be.
  Job& Start(OpenCall call, bool keeps_files, int turn, int index);
  // The running one with this id of its newest try; null: none.
  Job* Of(const std::string& request_id);
  bool Waits(const std::string& request_id) const;
  // Its result, which waits for delivery from now on.
  void Finish(Job& job, const v1::ToolResult& result, int64_t now_ms);

  // kInvalid names a handle that was never given out.
  Status Check(const std::vector<std::string>& handles) const;
  // Whether all of these, or with `any` one of them, run no more. Without handles: of those that
  // run, and what waits for delivery counts as one.
  bool Over(const std::vector<std::string>& handles, bool any) const;
  // A line for each of these, or of all that are not delivered.
  std::string Listing(const std::vector<std::string>& handles, int64_t now_ms) const;

  // Puts what has finished into `tree`, as far as it is kept, and gives the results in the order in
  // which they came.
  std::vector<DeliveredResult> Deliver(v1::Tree& tree);

  // Ends those that run; the ids of their requests. Their results will not be taken.
  std::vector<std::string> Cancel(const std::vector<std::string>& handles);
  std::vector<std::string> CancelAll();
  // The same for all, where their time is used up; the agent is told with the next delivery.
  std::vector<std::string> Expire(int64_t now_ms);
  // When that will be, if nothing ends before. Nothing: none runs.
  std::optional<int64_t> expires_ms(int64_t now_ms) const;

  size_t running() const { return running_; }
  // That wait for delivery.
  size_t finished() const { return finished_.size(); }
  // Puts into the records what became of the calls.
  void Record(v1::Trajectory& trajectory) const;

 private:
  const Job* Find(const std::string& handle) const;
  void End(Job& job, Job::State state);
  int64_t UsedMs(int64_t now_ms) const;
  // Keeps of the result what is delivered, within what may be held.
  void Hold(Job& job);

  const BackgroundLimits limits_;
  std::deque<Job> jobs_;          // in the order they were started
  std::vector<size_t> finished_;  // of jobs_, not delivered, in the order they ended
  size_t running_ = 0;
  size_t held_bytes_ = 0;
  int64_t used_ms_ = 0;  // by those that run no more
};

}  // namespace tidemill
