// The learner's objective, put together from five choices (ratio, surrogate, correction, KL,
// aggregate) and an advantage. The common names are presets. docs/objectives.md has the formulas.
//
// b: log-probability under the policy that sampled; p: under the learner's before this step; c:
// under the learner's now; f: under the reference.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/status.h"
#include "learner/advantages.h"
#include "learner/vtrace.h"

namespace tidemill {

enum class RatioKind : uint8_t { kToken, kSequence };
enum class SurrogateKind : uint8_t { kClip, kCispo, kReinforce };
enum class CorrectionKind : uint8_t {
  kNone,
  kDecoupled,
  kTruncated,
  kMaskedToken,
  kMaskedSequence
};
enum class KlKind : uint8_t { kNone, kK1, kK2, kK3 };
enum class AggregateKind : uint8_t { kSequenceMean, kTokenMean, kFixedLength };

// Where p comes from.
enum class ProximalKind : uint8_t {
  kBehaviour,    // p = b: ratios are taken against the policy that sampled
  kRecompute,    // computed under the learner's weights before the step's first update
  kInterpolate,  // b + a (c - b), a from the token's lag, without another pass through the model
};

// What a teacher adds to the advantage of a token, and what is left of the rewards':
// reward * A + coefficient * clip(log pi_teacher - b, -clip, clip).
struct DistillConfig {
  double reward = 1;
  double coefficient = 0;  // 0: there is no teacher
  double clip = 5;
};

struct ObjectiveConfig {
  std::string name = "custom";
  AdvantageKind advantage = AdvantageKind::kGroupNormalized;
  RatioKind ratio = RatioKind::kToken;
  SurrogateKind surrogate = SurrogateKind::kClip;
  CorrectionKind correction = CorrectionKind::kNone;
  KlKind kl = KlKind::kNone;
  AggregateKind aggregate = AggregateKind::kSequenceMean;
  ProximalKind proximal = ProximalKind::kBehaviour;
  double clip_low = 0.2;
  double clip_high = 0.2;
  double cap = 2.0;     // of `truncated`
  double low = 0.5;     // of the masked corrections
  double high = 5.0;    // of the masked corrections
  double length = 256;  // of `fixed_length`
  double kl_coefficient = 0.0;
  double entropy_coefficient = 0.0;
  // V-trace only.
  VtraceCaps vtrace;
  double discount = 1.0;
  double value_coefficient = 0.5;
  DistillConfig distill;

  bool NeedsReference() const { return kl != KlKind::kNone && kl_coefficient != 0; }
  bool NeedsTeacher() const { return distill.coefficient != 0; }
  bool NeedsValues() const { return advantage == AdvantageKind::kVtrace; }
};

std::string_view CorrectionName(CorrectionKind kind);

// The choices by the names they have in a config.
struct ObjectiveWords {
  std::string ratio, surrogate, correction, kl, aggregate;
};
ObjectiveWords WordsOf(const ObjectiveConfig& config);

// In the order in which people should meet them.
std::vector<std::string> ObjectivePresetNames();

// kInvalid: no such preset; the message lists the known ones.
Result<ObjectiveConfig> ObjectivePreset(std::string_view name);

// Changes one choice or number by its key in the config ("ratio", "clip_high", ..;
// docs/objectives.md). kInvalid, with nothing changed: no such key, or a value it cannot have; the
// message says which can.
Status SetObjectiveOption(ObjectiveConfig& config, std::string_view key,
                          const std::variant<double, std::string>& value);
std::vector<std::string> ObjectiveOptionKeys();

// A preset with changes to it, "clip_high=0.28" each. kInvalid names what is wrong.
Result<ObjectiveConfig> ParseObjective(std::string_view preset,
                                       const std::vector<std::string>& options);

// kInvalid: numbers or choices that do not go together.
Status ValidateObjective(const ObjectiveConfig& config);

}  // namespace tidemill
