// Answers samples of one base: brings the weights a sampler names to the engine, draws, and scores
// prompts where that is asked.
//
//   Submit --> weights there? --no--> side thread reads them --> engine takes them
//                  | yes                                             |
//                  v                                                 v
//              sequences --> engine --> turns --> answer (on_done)  <-- side thread scores the
//              prompt
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/loop.h"
#include "core/mailbox.h"
#include "core/work_queue.h"
#include "engine/engine_port.h"
#include "tinker/models_port.h"
#include "tinker/sample_ask.h"

namespace tidemill {

// Weights that samplers share: a folder's, which never change, or a model's newest in-flight ones.
struct SampleWeights {
  std::string name{};    // the same for the same weights; empty: the base alone
  std::string folder{};  // where they are
};

struct SampleJob {
  std::string promise;
  uint64_t tenant = 0;  // as the engine knows it
  SampleWeights weights;
  SampleAsk ask;
};

struct SampleDeskOptions {
  size_t resident_max = 12;     // adapters that the engine has at once
  size_t sequences_max = 4096;  // under way at once
  // Any thread of the desk's. Not to block.
  std::function<void(const std::string& promise, Result<std::string> answer)> on_done;
};

// A loop; Submit and Renew are called by any thread. What is given by reference must outlive it.
class SampleDesk final : public Loop {
 public:
  SampleDesk(const BaseModel& base, EnginePort& engine, ModelsPort& models,
             SampleDeskOptions options);
  ~SampleDesk() override;

  void Submit(SampleJob job);
  // From here on these are the weights of that name; samples under way go on with them.
  void Renew(const SampleWeights& which, std::shared_ptr<const Weights> weights);

  std::string_view name() const override { return "samples"; }
  void Attach(Waker& waker) override;
  Time Step(Time now) override;

 private:
  // Weights that the engine has or is about to have.
  struct Resident {
    enum class State : uint8_t { kReading, kPublishing, kReady };
    State state = State::kReading;
    PolicyVersion policy;
    SampleWeights which;
    std::shared_ptr<const Weights> weights;  // what was published last
    std::shared_ptr<const Weights> newer;    // came while that was published
    std::deque<std::unique_ptr<SampleJob>> waiting;
    size_t running = 0;  // jobs
    uint64_t used = 0;   // the desk's count at its last use
  };
  struct Running {
    std::unique_ptr<SampleJob> job;
    Resident* resident = nullptr;  // null: the base alone
    SampleAnswer answer;
    size_t turns_left = 0;
    bool scores_left = false;
    Status failed;
  };
  // What others have done for the desk.
  struct Read {
    std::string name;
    Result<std::shared_ptr<const Weights>> weights;
  };
  struct Published {
    std::string name;
    Status status;
  };
  struct Scored {
    uint64_t running;
    Result<PromptScores> scores;
  };
  struct Renewed {
    SampleWeights which;
    std::shared_ptr<const Weights> weights;
  };
  struct Inbox;

  void TakeJob(std::unique_ptr<SampleJob> job);
  void TakeRead(Read read);
  void TakePublished(const Published& published);
  void TakeRenewed(Renewed renewed);
  void TakeScored(Scored scored);
  void TakeTurn(EngineEvent event);
  Resident* ResidentOf(const SampleWeights& which);
  bool MakeRoom();
  void Begin(std::unique_ptr<SampleJob> job, Resident* resident);
  void Publish(Resident& resident, std::shared_ptr<const Weights> weights);
  void EndIfOver(uint64_t id);
  void FailWaiting(Resident& resident, const Status& why);
  void Admit();
  Status Fits(SampleAsk& ask) const;

  const BaseModel base_;
  EnginePort& engine_;
  ModelsPort& models_;
  const SampleDeskOptions options_;
  const std::shared_ptr<Inbox> inbox_;  // shared with callbacks that may come late

  std::deque<std::unique_ptr<SampleJob>> arrived_;  // that found no room yet
  std::map<std::string, std::unique_ptr<Resident>> residents_;
  std::map<uint64_t, Running> running_;
  std::unordered_map<SequenceId, std::pair<uint64_t, size_t>> sequences_;  // whose, which of its
  uint64_t next_running_ = 1;
  SequenceId next_sequence_ = 1;
  uint32_t next_policy_ = 1;
  uint64_t uses_ = 0;
  WorkQueue<std::function<void()>> side_;  // last: its thread uses the inbox
};

}  // namespace tidemill
