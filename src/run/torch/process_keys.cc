// The keys of memory: prompts as the policy reads them that the run began with.
#include <algorithm>

#include "run/torch/make_trainer.h"
#include "run/torch/process_ports.h"

namespace tidemill {
namespace {

constexpr double kKeyTolerance = 0.02;  // of a key's length: another machine rounds otherwise

}  // namespace

// Before the trainer, which lets go of the weights.
Status ProcessPorts::OpenKeys() {
  if (!config_.memory.on || config_.memory.retrieval != "hidden") return Ok();
  // Keys in the database are of these weights, also when the run goes on from others.
  std::shared_ptr<const PolicyWeights> weights = weights_;
  if (!checkpoint_.empty()) {
    TM_ASSIGN_OR_RETURN(weights, LoadStartWeights(config_, "", weights_));
  }
  auto encoder = PromptEncoder::Make(weights, static_cast<int>(config_.memory.key_layers));
  if (!encoder.ok()) return encoder.status().WithContext("memory.key_layers");
  TM_RETURN_IF_ERROR(CheckKeys(*encoder));
  keys_ = std::make_unique<ModelKeys>(std::move(*encoder), *tokenizer_, clock_, ModelKeysOptions{});
  ports_.keys = keys_.get();
  return Ok();
}

// Keys of other weights or layers do not compare, and nothing would say so.
Status ProcessPorts::CheckKeys(const PromptEncoder& encoder) const {
  const auto keyed = std::find_if(cases_.cases.rbegin(), cases_.cases.rend(),
                                  [](const auto& one) { return !one.record.key().empty(); });
  if (keyed == cases_.cases.rend()) return Ok();
  const v1::CaseRecord& record = keyed->record;
  TM_ASSIGN_OR_RETURN(const std::vector<float> key,
                      encoder.Encode(tokenizer_->Encode(record.prompt(), SpecialTokens::kAsText)));
  double difference = 0, length = 0;
  for (size_t i = 0; i < key.size(); ++i) {
    const bool there = i < static_cast<size_t>(record.key_size());
    const double known = there ? double{record.key(static_cast<int>(i))} : 0;
    difference += (key[i] - known) * (key[i] - known);
    length += known * known;
  }
  const bool same = static_cast<size_t>(record.key_size()) == key.size() &&
                    difference <= kKeyTolerance * kKeyTolerance * length;
  if (same) return Ok();
  return Invalid("memory.key_layers: the run's cases have keys of other layers or of another " +
                 std::string("model; go on with memory.key_layers, model.path and model.adapter ") +
                 "as they were, or with memory.retrieval = \"lexical\"");
}

}  // namespace tidemill
