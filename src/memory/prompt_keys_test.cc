#include "memory/prompt_keys.h"

#include <gtest/gtest.h>

namespace tidemill {
namespace {

class CountingKeys final : public KeyPort {
 public:
  void Submit(KeyCall call) override {
    ++calls;
    events_.Post({call.tag, Ok(), {static_cast<float>(call.prompt.size()), 1.f}});
  }
  Mailbox<KeyDone>& events() override { return events_; }
  int calls = 0;

 private:
  Mailbox<KeyDone> events_{100};
};

TEST(PromptKeys, SeveralThatAskForOnePromptAreAnsweredByOneCall) {
  CountingKeys port;
  PromptKeys keys(port);
  EXPECT_EQ(keys.Ask("prompt", 7), nullptr);
  EXPECT_EQ(keys.Ask("prompt", 8), nullptr);
  EXPECT_EQ(port.calls, 1);
  const auto answers = keys.Take();
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].tag, 7u);
  EXPECT_EQ(answers[1].tag, 8u);
  EXPECT_EQ(answers[1].key, (std::vector<float>{6, 1}));
  const auto* known = keys.Ask("prompt", 9);
  ASSERT_NE(known, nullptr);
  EXPECT_EQ(*known, answers[0].key);
  EXPECT_EQ(port.calls, 1);
}

TEST(PromptKeys, KeepsAFixedNumberOfKeys) {
  CountingKeys port;
  PromptKeys keys(port);
  for (size_t i = 0; i <= PromptKeys::kKept; ++i) {
    keys.Ask("prompt " + std::to_string(i), i + 1);
    EXPECT_EQ(keys.Take().size(), 1u);
  }
  EXPECT_EQ(keys.Ask("prompt 0", 5000), nullptr) << "the first one went";
  EXPECT_NE(keys.Ask("prompt 1", 5001), nullptr);
}

}  // namespace
}  // namespace tidemill
