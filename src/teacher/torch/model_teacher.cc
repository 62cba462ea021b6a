#include "teacher/torch/model_teacher.h"

#include "model/torch/aten.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/text.h"
#include "core/work_queue.h"
#include "model/torch/catch.h"

namespace tidemill {
namespace {

// How much of the sequence the model can read.
size_t Readable(const ModelConfig& config, const std::vector<TokenId>& ids) {
  const auto context = static_cast<size_t>(config.max_position_embeddings);
  size_t length = 0;
  while (length < ids.size() && length < context && ids[length] >= 0 &&
         ids[length] < config.vocab_size) {
    ++length;
  }
  return length;
}

// One token to be scored: the row of the pack that predicts it, and where its score goes.
struct Wanted {
  int64_t row;
  int64_t id;
  size_t call;
  size_t place;
};

std::string Quoted(std::string_view bytes) {
  return "\"" + Beginning(bytes, 40) + "\"";
}

Status SameTokens(const std::string& dir, const Tokenizer& ours, const Tokenizer& theirs) {
  if (ours.vocab_size() != theirs.vocab_size()) {
    return Invalid(dir + ": its tokenizer has " + std::to_string(theirs.vocab_size()) +
                   " tokens, the policy's " + std::to_string(ours.vocab_size()) +
                   "; a teacher must have the policy's tokenizer");
  }
  for (TokenId id = 0; id < ours.vocab_size(); ++id) {
    if (ours.TokenBytes(id) == theirs.TokenBytes(id) && ours.IsSpecial(id) == theirs.IsSpecial(id))
      continue;
    return Invalid(dir + ": token " + std::to_string(id) + " is " + Quoted(theirs.TokenBytes(id)) +
                   ", the policy's is " + Quoted(ours.TokenBytes(id)) +
                   "; a teacher must have the policy's tokenizer");
  }
  return Ok();
}

}  // namespace

Result<std::shared_ptr<const PolicyWeights>> LoadTeacher(const std::string& dir,
                                                         const LoadOptions& load,
                                                         const Tokenizer& tokens, int64_t context) {
  TM_ASSIGN_OR_RETURN(const Tokenizer theirs, Tokenizer::Read(dir));
  TM_RETURN_IF_ERROR(SameTokens(dir, tokens, theirs));
  TM_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(dir));
  if (config.vocab_size < tokens.vocab_size()) {
    return Invalid(dir + ": its vocabulary of " + std::to_string(config.vocab_size) +
                   " is smaller than the tokenizer's " + std::to_string(tokens.vocab_size()));
  }
  if (config.max_position_embeddings < context) {
    return Invalid(dir + ": its context of " + std::to_string(config.max_position_embeddings) +
                   " tokens is smaller than the " + std::to_string(context) +
                   " that an episode can have; set rollout.max_context");
  }
  return PolicyWeights::Load(dir, load);
}

Result<std::vector<TokenLogprobsOf>> ScoreCalls(const PolicyWeights& weights,
                                                const std::vector<TeacherCall>& calls,
                                                bool bfloat16) {
  std::vector<TokenLogprobsOf> scores(calls.size());
  std::vector<std::vector<int32_t>> sequences;
  std::vector<Wanted> wanted;
  int64_t first = 0;
  for (size_t c = 0; c < calls.size(); ++c) {
    const size_t readable = Readable(weights.config(), calls[c].ids);
    size_t place = 0, last = 0;
    for (const TokenSpan& span : calls[c].spans) {
      for (size_t i = span.begin; i < span.begin + span.tokens; ++i, ++place) {
        if (i >= readable) continue;
        wanted.push_back({first + static_cast<int64_t>(i) - 1, calls[c].ids[i], c, place});
        last = i;
      }
    }
    scores[c].logprobs.resize(place), scores[c].known.resize(place);
    if (last == 0) continue;
    // What follows the last one that is wanted changes nothing.
    sequences.emplace_back(calls[c].ids.begin(),
                           calls[c].ids.begin() + static_cast<std::ptrdiff_t>(last));
    first += static_cast<int64_t>(last);
  }
  if (wanted.empty()) return scores;
  const double temperature = calls.front().temperature;
  using Scores = std::vector<TokenLogprobsOf>;
  return CatchTorch<Scores>("the teacher", [&]() -> Result<Scores> {
    const at::NoGradGuard no_grad;
    const at::Device device = weights.view().embed.device();
    std::vector<int64_t> rows, targets;
    for (const Wanted& one : wanted) rows.push_back(one.row), targets.push_back(one.id);
    const auto compute =
        bfloat16 ? std::optional(at::ScalarType::BFloat16) : std::optional<at::ScalarType>();
    const at::Tensor hidden =
        ForwardHidden(weights.config(), weights.view(), Pack(sequences, device.str()), compute)
            .index_select(0, at::tensor(rows, at::kLong).to(device));
    const at::Tensor logprobs =
        TokenLogprobs(weights.view(), hidden, at::tensor(targets, at::kLong).to(device),
                      temperature, /*chunk=*/1024, /*recompute=*/true)
            .logprobs.to(at::kCPU)
            .contiguous();
    const float* data = logprobs.data_ptr<float>();
    for (size_t i = 0; i < wanted.size(); ++i) {
      scores[wanted[i].call].logprobs[wanted[i].place] = data[i];
      scores[wanted[i].call].known[wanted[i].place] = 1;
    }
    return std::move(scores);
  });
}

class ModelTeacher::Impl {
 public:
  Impl(TeacherWeights weights, const Clock& clock, ModelTeacherOptions options)
      : weights_(std::move(weights)),
        clock_(clock),
        options_(options),
        events_(options.max_outstanding),
        queue_(options.max_outstanding) {
    queue_.StartBatches(
        [this](const Calls& calls) { Score(calls); },
        [this](const Calls& calls, const TeacherCall& next) { return Joins(calls, next); });
  }

  void Submit(TeacherCall call) { queue_.Put(std::move(call)); }
  Mailbox<TeacherDone>& events() { return events_; }
  const BusyMeter& busy() const { return busy_; }

 private:
  using Calls = std::vector<TeacherCall>;

  void Score(const Calls& calls) {
    at::set_num_threads(options_.threads);  // of this thread
    const Time began = clock_.Now();
    busy_.Begin(began);
    const auto scores = ScoreCalls(*weights_(), calls, options_.bfloat16);
    const Time ended = clock_.Now();
    busy_.End(ended);
    for (size_t i = 0; i < calls.size(); ++i) {
      TeacherDone done{calls[i].tag, scores.status(), {}, ended - began};
      if (scores.ok()) done.scores = (*scores)[i];
      events_.Post(std::move(done));
    }
  }

  // As many as fit, of one temperature.
  bool Joins(const Calls& calls, const TeacherCall& next) const {
    size_t tokens = next.ids.size();
    for (const TeacherCall& call : calls) tokens += call.ids.size();
    return static_cast<int64_t>(tokens) <= options_.batch_tokens &&
           next.temperature == calls.front().temperature;
  }

  TeacherWeights weights_;
  const Clock& clock_;
  const ModelTeacherOptions options_;
  Mailbox<TeacherDone> events_;
  BusyMeter busy_;
  WorkQueue<TeacherCall> queue_;  // last: its thread uses all of the above
};

ModelTeacher::ModelTeacher(TeacherWeights weights, const Clock& clock, ModelTeacherOptions options)
    : impl_(std::make_unique<Impl>(std::move(weights), clock, options)) {}
ModelTeacher::~ModelTeacher() = default;
void ModelTeacher::Submit(TeacherCall call) {
  impl_->Submit(std::move(call));
}
Mailbox<TeacherDone>& ModelTeacher::events() {
  return impl_->events();
}
const BusyMeter& ModelTeacher::busy() const {
  return impl_->busy();
}

}  // namespace tidemill
