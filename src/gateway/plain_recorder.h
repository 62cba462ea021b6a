// Renders every conversation anew and remembers nothing.
#pragma once

#include "gateway/served_policy.h"
#include "gateway/turn_recorder.h"

namespace tidemill {

// Thread-safe. `policy` must outlive it.
class PlainRecorder final : public TurnRecorder {
 public:
  explicit PlainRecorder(const ServedPolicy& policy) : policy_(policy) {}

  bool Continues() const override { return true; }
  Result<TurnPrompt> Prepare(const TurnQuestion& question) override;
  void Finished(RecordedTurn, std::function<void(Status)> stored) override { stored(Ok()); }
  void Abandoned(RecordedTurn, TurnLoss, const Status&) override {}

 private:
  const ServedPolicy& policy_;
};

// The prompts of /v1/completions: text is encoded with special tokens recognised, because the
// client writes the whole prompt, its turns too. Fills in `prompts` and `tokens_more`. kInvalid
// names the prompt that is empty or cannot be encoded.
Result<TurnPrompt> EncodeRawPrompts(const ServedPolicy& policy, const ChatRequest& request,
                                    size_t tokens_max);

}  // namespace tidemill
