// A recorder in front of another. What a class derived from it does not take for itself reaches the
// next one as it came, calls that are added to TurnRecorder later too.
//
//   gateway -> watched -> released -> episodes -> sessions, or plain
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "gateway/turn_recorder.h"

namespace tidemill {

class PassingRecorder : public TurnRecorder {
 public:
  Result<TurnPrompt> Prepare(const TurnQuestion& question) override {
    return next_->Prepare(question);
  }
  void Finished(RecordedTurn turn, std::function<void(Status)> stored) override {
    next_->Finished(std::move(turn), std::move(stored));
  }
  void Abandoned(RecordedTurn turn, TurnLoss loss, const Status& why) override {
    next_->Abandoned(std::move(turn), loss, why);
  }
  void Refused(const std::string& session, int status, const std::string& why) override {
    next_->Refused(session, status, why);
  }
  void TakeFeedback(const FeedbackPost& post,
                    std::function<void(Result<std::string>)> answered) override {
    next_->TakeFeedback(post, std::move(answered));
  }

 protected:
  explicit PassingRecorder(std::unique_ptr<TurnRecorder> next) : next_(std::move(next)) {}
  TurnRecorder& next() { return *next_; }

 private:
  const std::unique_ptr<TurnRecorder> next_;
};

}  // namespace tidemill
