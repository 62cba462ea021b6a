#include "memory/prompt_keys.h"

#include <utility>

namespace tidemill {

const std::vector<float>* PromptKeys::Ask(const std::string& prompt, uint64_t tag) {
  if (const auto known = kept_.find(prompt); known != kept_.end()) return &known->second;
  const auto [call, first] = calls_.try_emplace(prompt, next_call_);
  Asked& asked = asked_[call->second];
  asked.tags.push_back(tag);
  if (!first) return nullptr;
  asked.prompt = prompt;
  port_.Submit({next_call_++, prompt});
  return nullptr;
}

std::vector<PromptKeys::Answer> PromptKeys::Take() {
  std::vector<Answer> answers;
  for (KeyDone& done : port_.events().TakeAll()) {
    auto node = asked_.extract(done.tag);
    TM_CHECK(!node.empty(), "a key came that was not asked for");
    Asked& asked = node.mapped();
    calls_.erase(asked.prompt);
    if (!done.status.ok()) {
      ++failed_;
      done.key.clear();
    }
    for (const uint64_t tag : asked.tags) answers.push_back({tag, done.key});
    if (done.key.empty()) continue;  // the next that asks tries again
    order_.push_back(asked.prompt);
    kept_[std::move(asked.prompt)] = std::move(done.key);
    if (order_.size() <= kKept) continue;
    kept_.erase(order_.front());
    order_.pop_front();
  }
  return answers;
}

}  // namespace tidemill
