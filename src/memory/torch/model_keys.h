// Keys of prompts on a thread of their own, beside generation and training.
#pragma once

#include <memory>

#include "core/clock.h"
#include "core/metrics.h"
#include "memory/key_port.h"
#include "memory/torch/prompt_encoder.h"
#include "model/tokenizer.h"

namespace tidemill {

struct ModelKeysOptions {
  int threads = 1;                // libtorch's, in this thread
  size_t max_outstanding = 8192;  // calls not yet answered
};

class ModelKeys final : public KeyPort {
 public:
  // `clock` must outlive it.
  ModelKeys(PromptEncoder encoder, Tokenizer tokenizer, const Clock& clock,
            ModelKeysOptions options);
  // Ends the thread after the prompt under way; what is queued behind is not answered.
  ~ModelKeys() override;

  void Submit(KeyCall call) override;
  Mailbox<KeyDone>& events() override;
  const BusyMeter& busy() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tidemill
