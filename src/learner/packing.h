// From samples to what the model is run on: each episode as one row of ids, rows of the same prompt
// together in microbatches under a token budget.
//
//   v1::Sample --Flatten--> TrainSequence --PackMicrobatches--> Microbatch
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/status.h"
#include "core/token_support.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

// One episode as the learner sees it. Every vector but `ids` is about the token at the same place,
// and counts only where `mask` is 1: the model wrote it and replay did not mark it as too old. What
// follows the last turn's own tokens is cut off, as it cannot change the loss.
struct TrainSequence {
  std::vector<int32_t> ids;
  std::vector<uint8_t> mask;
  std::vector<float> behaviour;    // log-probability under the distribution it was drawn from
  std::vector<uint64_t> versions;  // policy that drew it
  std::vector<uint32_t> lags;      // steps since that policy was the learner's
  std::vector<int32_t> turns;      // which turn it belongs to; -1 for the prompt
  std::vector<uint8_t> turn_ends;  // 1 at the last token of a turn
  std::vector<float> teacher;      // log-probability under the teacher, where it is known
  std::vector<uint8_t> taught;     // 1: it is known
  std::vector<int32_t>
      support_of;  // what it was drawn from, in `supports`; -1: the whole vocabulary
  // The experts that tokens were given to, [token][ExpertChoices::of_token], and of which tokens
  // they are known; empty: of none.
  std::vector<uint16_t> experts;
  std::vector<uint8_t> routed;
  std::vector<double> extra;  // added to the advantage of its turn; empty: nothing is
  std::vector<std::vector<TokenRun>> supports;
  float temperature = 1;  // of the sampling; the learner divides its logits by it as well
  size_t prompt_tokens = 0;
  size_t trained_tokens = 0;       // sum of mask
  size_t too_old_tokens = 0;       // written by the model but over the staleness bound
  size_t unnormalised_tokens = 0;  // left out for their support (FlattenOptions::supports)
};

// Steps between the policy version that drew a token and the step that trains on it.
using LagOfVersion = std::function<uint64_t(uint64_t version)>;

// What a model's routers decide; a dense one has none.
struct ExpertChoices {
  uint32_t of_token = 0;  // DecoderPlan::ChoicesOfToken()
  int64_t experts = 0;    // they are below it
};

struct FlattenOptions {
  LagOfVersion lag_of;     // for the lags alone; empty: every token is fresh
  int64_t vocabulary = 0;  // ids must be below it; 0: not checked
  ExpertChoices choices{};
  // false: who trains does not normalise over supports, and tokens that have one are left out.
  bool supports = true;
};

// kInvalid names the trajectory and what does not fit: counts that differ, an id outside the
// vocabulary, a log-probability that is none, greedy sampling (nothing to learn from), an empty
// prompt, branches.
Result<TrainSequence> Flatten(const v1::Sample& sample, const FlattenOptions& options);
// The same for an episode with branches (Turn.prompt_ids): one sequence for each, the first with
// the trajectory's prompt. The turns keep their numbers. Without turns there is no sequence.
Result<std::vector<TrainSequence>> FlattenBranches(const v1::Sample& sample,
                                                   const FlattenOptions& options);

// Rows laid end to end: row r is [offsets[r], offsets[r+1]). Per token as in TrainSequence.
struct Microbatch {
  std::vector<int32_t> ids;
  std::vector<int32_t> positions;
  std::vector<int32_t> offsets;  // rows + 1
  std::vector<uint8_t> mask;
  std::vector<float> behaviour;
  std::vector<uint64_t> versions;
  std::vector<uint32_t> lags;
  std::vector<double> advantages;
  std::vector<int32_t> support_of;
  std::vector<uint16_t> experts;     // as in TrainSequence; empty: none of any row is known
  std::vector<uint8_t> routed;       // likewise
  std::vector<int32_t> sequence_of;  // per token: index of its sequence among those given
  std::vector<int32_t> sequences;    // per row: the same
  std::vector<float> temperatures;   // per row
  std::vector<int32_t> prompts;      // per row: tokens of its prompt
  std::vector<std::vector<TokenRun>> supports;  // of all rows
  int32_t longest = 0;
  size_t trained_tokens = 0;

  size_t rows() const { return sequences.size(); }
};

// `chosen` (indices into `sequences`) with rows of the same prompt next to each other, the prompts
// in order of appearance.
std::vector<int32_t> OrderByPrompt(std::span<const TrainSequence> sequences,
                                   std::span<const int32_t> chosen);

// Every sequence of `chosen` lands in exactly one microbatch, rows of one prompt next to each
// other; the same input gives the same output. A prompt that rows of a microbatch have in common
// counts once towards `token_budget`; a row over it gets a microbatch of its own. advantages[s][t]
// belongs to turn t of sequence s. Sequences with nothing to train on are left out.
std::vector<Microbatch> PackMicrobatches(std::span<const TrainSequence> sequences,
                                         std::span<const std::vector<double>> advantages,
                                         std::span<const int32_t> chosen, int64_t token_budget);

// `chosen` in `shares` parts of about the same number of tokens, rows of one prompt next to each
// other. Parts may be empty.
std::vector<std::vector<int32_t>> ShareOut(std::span<const TrainSequence> sequences,
                                           std::span<const int32_t> chosen, uint32_t shares);

}  // namespace tidemill
