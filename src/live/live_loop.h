// The loop of recorded sessions: takes what the database and judges answer and what became of
// siblings, closes idle sessions and sends what follows.
#pragma once

#include <string_view>

#include "core/loop.h"
#include "live/live_books.h"

namespace tidemill {

class LiveLoop final : public Loop {
 public:
  // The books must outlive it.
  explicit LiveLoop(LiveBooks& books) : books_(books) {}

  std::string_view name() const override { return "live"; }
  void Attach(Waker& waker) override;
  Time Step(Time now) override;
  bool Drained() const override;

 private:
  void TakeSiblings() TM_REQUIRES(books_.mutex);
  void TakeJudged(Time now) TM_REQUIRES(books_.mutex);
  // Asks judges what an earlier process did not come to ask, or got no answer to.
  void AskAgain() TM_REQUIRES(books_.mutex);

  LiveBooks& books_;
  Time next_sweep_{};
};

}  // namespace tidemill
