// The sessions of agents' episodes: what src/live makes of a conversation, bound to an episode,
// within its limits, drawn as the run draws, and kept in memory until the episode is over. What is
// durable of an episode is its trajectory; a worker that dies costs a repetition.
//
//   Open(name) -> requests with the episode's key -> LiveRecorder -> Close(name) -> branches
//
// Requests of other keys go to another recorder.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/loop.h"
#include "core/mutex.h"
#include "core/status.h"
#include "gateway/passing_recorder.h"
#include "gateway/served_policy.h"
#include "live/live_recorder.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

struct EpisodeTerms {
  TurnSampling sampling{};
  bool impose = true;  // `sampling`, whatever is asked for
  uint32_t max_turns = 1;
  uint64_t max_tokens = 0;  // drawn; 0: no bound
};

// How a session stands.
struct EpisodeLife {
  bool asking = false;    // a request is open
  Duration waited{0};     // with a request open, so far
  Time last{};            // when the last one ended; of the opening before any
  Time refused = kNever;  // since when it asks for more than its terms allow
  bool asked = false;     // at least once
  Status failed;          // not ok: a turn was lost through us
};

struct EpisodeSession {
  std::vector<v1::Trajectory> branches{};  // what is trained
  uint32_t turns = 0;                      // answers that were drawn, side turns as well
  bool out_of_turns = false, out_of_tokens = false, out_of_context = false;
  std::string refused{};    // status and message of the last request that was refused
  std::string untrained{};  // why its newest answer that is not trained is not, in words
  // Answers by the conversation that their request named (x-session-id), each with its
  // SessionTurn.turn.
  std::map<uint32_t, std::string> talks{};
  Status failed;
};

// Thread-safe, but for the calls of the one who steps it.
class EpisodeRecorder final : public PassingRecorder, public Loop {
 public:
  // `episodes`: how many are open at once, at most. `others` records requests without an episode.
  EpisodeRecorder(const ServedPolicy& policy, const Clock& clock, size_t episodes,
                  std::unique_ptr<TurnRecorder> others);
  ~EpisodeRecorder() override;

  std::string_view name() const override { return "episodes"; }
  void Attach(Waker& waker) override;
  Time Step(Time now) override;
  // Every episode is closed, or its requests do not end.
  bool Drained() const override;

  // `name` is Tenant::session of the episode's key; new each time.
  void Open(const std::string& name, const EpisodeTerms& terms);
  // A request of the episode that is no turn begins, and ends: meanwhile it waits for us.
  void Enter(const std::string& name);
  void Leave(const std::string& name);
  EpisodeLife Look(const std::string& name) const;
  // Whether any episode got an answer of the model, or waits for one.
  bool Answers() const;
  // Episodes whose programs do not wait for the model.
  size_t Working() const;
  // The program is gone. Waits for the end of requests that are under way. kUnavailable: they do
  // not end.
  Result<EpisodeSession> Close(const std::string& name);

  Result<TurnPrompt> Prepare(const TurnQuestion& question) override;
  void Finished(RecordedTurn turn, std::function<void(Status)> stored) override;
  // Our losses alone fail an episode. What is drawn for a client that hangs up was drawn.
  void Abandoned(RecordedTurn turn, TurnLoss loss, const Status& why) override;
  void Refused(const std::string& name, int status, const std::string& why) override;
  // Of requests without an episode alone: an episode is judged by its task.
  void TakeFeedback(const FeedbackPost& post,
                    std::function<void(Result<std::string>)> answered) override;

 private:
  class Memory;  // in the place of the run's database
  struct Underway {
    EpisodeTerms terms;
    EpisodeLife life;
    EpisodeSession session;
    Time asking_since{};
    uint64_t number = 0;  // of the session; 0: nothing was asked
    uint64_t tokens = 0;
    int open = 0;          // requests
    uint32_t drawing = 0;  // answers that were admitted and are not over
    uint32_t stored = 0;   // turns
    bool closing = false, settled = false;
    bool lost = false;                         // its requests did not end in time
    std::map<uint64_t, uint32_t> prompts;      // how often each was asked, by its hash
    std::map<std::string, std::string> talks;  // of requests, by their ids
  };
  struct Asked {
    std::string episode;
    int choices = 1;  // not reported yet
  };

  Status Admit(Underway& episode, uint32_t answers) TM_REQUIRES(mutex_);
  void LeaveOne(Underway& episode) TM_REQUIRES(mutex_);
  void ChoiceDone(uint64_t ticket);
  void TurnStored(const v1::SessionTurn& turn);
  void Settled(const PutSession& put);

  const Clock& clock_;
  TemplatePromptBuilder builder_;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<LiveRecorder> live_;

  mutable Mutex mutex_;  // never held while live_ is called
  CondVar changed_;
  Waker* waker_ TM_GUARDED_BY(mutex_) = nullptr;
  std::map<std::string, Underway> episodes_ TM_GUARDED_BY(mutex_);
  uint64_t turns_ TM_GUARDED_BY(mutex_) = 0;  // of all episodes that ever were
  std::map<uint64_t, std::string> by_number_ TM_GUARDED_BY(mutex_);
  std::map<uint64_t, Asked> asked_ TM_GUARDED_BY(mutex_);  // by live_'s ticket
};

}  // namespace tidemill
