// For tests: a backend that computes nothing and forgets nothing. What it writes to a page at a
// position is a hash of what stands at the position before, of the token and of the weights, and a
// draw follows from the last of them: one wrong page, token or set of weights, and the tokens are
// others than PlainDraws says.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "engine/cpu/cpu_kernels.h"
#include "engine/decode_backend.h"

namespace tidemill {

struct LedgerWeights final : Weights {
  explicit LedgerWeights(uint64_t number) : number(number) {}
  uint64_t number;
};

inline constexpr TokenId kLedgerVocabulary = 50;

inline uint64_t LedgerMix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9e3779b97f4a7c15ULL + b + 0x632be59bd9b4e019ULL;
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9ULL;
  return x ^ (x >> 32);
}

inline Drawn LedgerDraw(uint64_t last, uint64_t seed, int64_t position) {
  const uint64_t hash = LedgerMix(LedgerMix(last, seed), static_cast<uint64_t>(position));
  Drawn drawn;
  drawn.id = static_cast<TokenId>(hash % static_cast<uint64_t>(kLedgerVocabulary));
  drawn.logprob = -static_cast<float>(hash >> 40) / static_cast<float>(1 << 24);
  drawn.full_logprob = drawn.logprob;
  drawn.model_logprob = 2 * drawn.logprob;
  return drawn;
}

// What is drawn behind `tokens` where weights `number` computed all of it.
inline Drawn PlainDraw(std::span<const TokenId> tokens, uint64_t number, uint64_t seed) {
  uint64_t last = 0;
  for (const TokenId token : tokens) {
    last = LedgerMix(LedgerMix(last, static_cast<uint64_t>(token)), number);
  }
  return LedgerDraw(last, seed, static_cast<int64_t>(tokens.size()));
}

class LedgerBackend final : public DecodeBackend {
 public:
  struct Ready final : ReadyWeights {
    uint64_t number = 0;
  };

  LedgerBackend(int32_t pages, int32_t places, uint64_t number)
      : pages_(static_cast<size_t>(pages)), weights_(static_cast<size_t>(places)) {
    weights_[0] = number;
  }

  Result<std::shared_ptr<ReadyWeights>> Prepare(
      std::shared_ptr<const Weights> weights) const override {
    auto ready = std::make_shared<Ready>();
    ready->number = static_cast<const LedgerWeights&>(*weights).number;
    return std::shared_ptr<ReadyWeights>(std::move(ready));
  }
  Status Take(ReadyWeights& ready, int32_t place) override {
    weights_.at(static_cast<size_t>(place)) = static_cast<Ready&>(ready).number;
    return Ok();
  }
  void CopyPage(PageId from, PageId to) override { At(to) = At(from); }

  Status Start(std::span<const StepSegment> segments) override {
    std::vector<Drawn> drawn(segments.size());
    for (size_t i = 0; i < segments.size(); ++i) {
      const StepSegment& s = segments[i];
      rows += s.tokens.size();
      uint64_t last = s.first == 0 ? 0 : Read(s, s.first - 1);
      int32_t position = s.first;
      for (TokenId token : s.tokens) {
        if (s.after >= 0) token = last_.at(static_cast<size_t>(s.after));
        last = LedgerMix(LedgerMix(last, static_cast<uint64_t>(token)),
                         weights_.at(static_cast<size_t>(s.weights)));
        At(s.pages[static_cast<size_t>(position / kPageSlots)])[position % kPageSlots] = last;
        ++position;
      }
      if (!s.draw) continue;
      drawn[i] = LedgerDraw(last, s.seed, position);
      if (fail_next) drawn[i].id = -1;
    }
    fail_next = false;
    last_.clear();
    for (const Drawn& one : drawn) last_.push_back(one.id);
    done_.push_back(std::move(drawn));
    return Ok();
  }
  Status Finish(std::span<Drawn> drawn) override {
    std::copy(done_.front().begin(), done_.front().end(), drawn.begin());
    done_.pop_front();
    return Ok();
  }
  bool Foresees(const SamplingParams&) const override { return true; }

  size_t rows = 0;         // computed so far
  bool fail_next = false;  // the next step draws what no model would

 private:
  using Page = std::array<uint64_t, kPageSlots>;
  Page& At(PageId page) { return pages_.at(static_cast<size_t>(page)); }
  uint64_t Read(const StepSegment& s, int32_t position) {
    return At(s.pages[static_cast<size_t>(position / kPageSlots)])[position % kPageSlots];
  }

  std::vector<Page> pages_;
  std::vector<uint64_t> weights_;
  std::vector<TokenId> last_;
  std::deque<std::vector<Drawn>> done_;
};

}  // namespace tidemill
