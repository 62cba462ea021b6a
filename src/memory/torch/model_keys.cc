#include "memory/torch/model_keys.h"

#include "model/torch/aten.h"

#include <ATen/Parallel.h>

#include <utility>

#include "core/log.h"
#include "core/work_queue.h"

namespace tidemill {

class ModelKeys::Impl {
 public:
  Impl(PromptEncoder encoder, Tokenizer tokenizer, const Clock& clock, ModelKeysOptions options)
      : encoder_(std::move(encoder)),
        tokenizer_(std::move(tokenizer)),
        clock_(clock),
        options_(options),
        events_(options.max_outstanding),
        queue_(options.max_outstanding) {
    queue_.Start([this](const KeyCall& call) { Answer(call); });
  }

  void Submit(KeyCall call) { queue_.Put(std::move(call)); }
  Mailbox<KeyDone>& events() { return events_; }
  const BusyMeter& busy() const { return busy_; }

 private:
  void Answer(const KeyCall& call) {
    at::set_num_threads(options_.threads);  // of this thread
    busy_.Begin(clock_.Now());
    // A prompt is outside text: none of its words is a special token.
    auto key = encoder_.Encode(tokenizer_.Encode(call.prompt, SpecialTokens::kAsText));
    busy_.End(clock_.Now());
    // Once: the rest is counted, and the cause is seldom another.
    if (!key.ok() && !std::exchange(warned_, true)) {
      LogWarn("a prompt has no key; memory searches by its words",
              {{"cause", key.status().message()}});
    }
    KeyDone done{call.tag, key.status(), {}};
    if (key.ok()) done.key = std::move(*key);
    events_.Post(std::move(done));
  }

  const PromptEncoder encoder_;
  const Tokenizer tokenizer_;
  const Clock& clock_;
  const ModelKeysOptions options_;
  Mailbox<KeyDone> events_;
  BusyMeter busy_;
  bool warned_ = false;       // of the thread
  WorkQueue<KeyCall> queue_;  // last: its thread uses all of the above
};

ModelKeys::ModelKeys(PromptEncoder encoder, Tokenizer tokenizer, const Clock& clock,
                     ModelKeysOptions options)
    : impl_(std::make_unique<Impl>(std::move(encoder), std::move(tokenizer), clock, options)) {}

ModelKeys::~ModelKeys() = default;

void ModelKeys::Submit(KeyCall call) {
  impl_->Submit(std::move(call));
}

Mailbox<KeyDone>& ModelKeys::events() {
  return impl_->events();
}

const BusyMeter& ModelKeys::busy() const {
  return impl_->busy();
}

}  // namespace tidemill
