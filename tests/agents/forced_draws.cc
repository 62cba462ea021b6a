#include "tests/agents/forced_draws.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

namespace tidemill {
namespace {

class ForcedBackend final : public DecodeBackend {
 public:
  ForcedBackend(std::unique_ptr<DecodeBackend> inner, ScriptedDraws draws)
      : inner_(std::move(inner)), draws_(std::move(draws)) {}

  Result<std::shared_ptr<ReadyWeights>> Prepare(
      std::shared_ptr<const Weights> weights) const override {
    return inner_->Prepare(std::move(weights));
  }
  Status Take(ReadyWeights& ready, int32_t place) override { return inner_->Take(ready, place); }
  void CopyPage(PageId from, PageId to) override {
    inner_->CopyPage(from, to);
    draws_.CopyPage(from, to);
  }
  // What is drawn is known only here.
  bool Foresees(const SamplingParams&) const override { return false; }

  Status Start(std::span<const StepSegment> given) override {
    std::vector<StepSegment> segments(given.begin(), given.end());
    std::vector<Wanted> wanted(segments.size());
    for (size_t i = 0; i < segments.size(); ++i) {
      StepSegment& s = segments[i];
      draws_.Write(s);
      if (!s.draw) continue;
      wanted[i] = {draws_.Next(s), s.sampling};
      s.sampling = {.top_logprobs = INT32_MAX};  // of all tokens there are
    }
    under_way_.push_back(std::move(wanted));
    return inner_->Start(segments);
  }

  Status Finish(std::span<Drawn> drawn) override {
    TM_RETURN_IF_ERROR(inner_->Finish(drawn));
    for (size_t i = 0; i < drawn.size(); ++i) {
      const Wanted& wanted = under_way_.front()[i];
      if (wanted.id >= 0 && drawn[i].id >= 0) Force(wanted, drawn[i]);
    }
    under_way_.pop_front();
    return Ok();
  }

 private:
  struct Wanted {
    TokenId id = -1;  // negative: nothing is drawn
    SamplingParams sampling{};
  };

  // `drawn.top` has every token with its log-probability at temperature 1.
  static void Force(const Wanted& wanted, Drawn& drawn) {
    const double scale = wanted.sampling.temperature > 0
                             ? 1.0 / static_cast<double>(wanted.sampling.temperature)
                             : 1.0;
    double sum = 0, own = 0;
    for (const TokenLogprob& token : drawn.top) {
      sum += std::exp(static_cast<double>(token.logprob) * scale);
      if (token.id == wanted.id) own = token.logprob;
    }
    drawn.id = wanted.id;
    drawn.model_logprob = static_cast<float>(own);
    drawn.full_logprob = static_cast<float>(own * scale - std::log(sum));
    drawn.logprob = drawn.full_logprob;
    const auto most = static_cast<size_t>(std::max(0, wanted.sampling.top_logprobs));
    drawn.top.resize(std::min(drawn.top.size(), most));
  }

  const std::unique_ptr<DecodeBackend> inner_;
  ScriptedDraws draws_;
  std::deque<std::vector<Wanted>> under_way_;
};

}  // namespace

std::unique_ptr<DecodeBackend> NewForcedBackend(std::unique_ptr<DecodeBackend> inner,
                                                ScriptedDraws draws) {
  return std::make_unique<ForcedBackend>(std::move(inner), std::move(draws));
}

}  // namespace tidemill
