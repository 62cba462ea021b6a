#include "learner/objective_config.h"

#include <charconv>
#include <cmath>
#include <functional>
#include <map>

namespace tidemill {
namespace {

template <typename Kind>
struct Named {
  std::string_view name;
  Kind kind;
};

constexpr Named<RatioKind> kRatios[] = {{"token", RatioKind::kToken},
                                        {"sequence", RatioKind::kSequence}};
constexpr Named<SurrogateKind> kSurrogates[] = {{"clip", SurrogateKind::kClip},
                                                {"cispo", SurrogateKind::kCispo},
                                                {"reinforce", SurrogateKind::kReinforce}};
constexpr Named<CorrectionKind> kCorrections[] = {
    {"none", CorrectionKind::kNone},
    {"decoupled", CorrectionKind::kDecoupled},
    {"truncated", CorrectionKind::kTruncated},
    {"masked_token", CorrectionKind::kMaskedToken},
    {"masked_sequence", CorrectionKind::kMaskedSequence}};
constexpr Named<KlKind> kKls[] = {
    {"none", KlKind::kNone}, {"k1", KlKind::kK1}, {"k2", KlKind::kK2}, {"k3", KlKind::kK3}};
constexpr Named<AggregateKind> kAggregates[] = {{"sequence_mean", AggregateKind::kSequenceMean},
                                                {"token_mean", AggregateKind::kTokenMean},
                                                {"fixed_length", AggregateKind::kFixedLength}};
constexpr Named<ProximalKind> kProximals[] = {{"behaviour", ProximalKind::kBehaviour},
                                              {"recompute", ProximalKind::kRecompute},
                                              {"interpolate", ProximalKind::kInterpolate}};
constexpr Named<AdvantageKind> kAdvantages[] = {
    {"group_normalized", AdvantageKind::kGroupNormalized},
    {"group_centered", AdvantageKind::kGroupCentered},
    {"leave_one_out", AdvantageKind::kLeaveOneOut},
    {"batch_whitened", AdvantageKind::kBatchWhitened},
    {"vtrace", AdvantageKind::kVtrace}};

template <typename Kind, size_t N>
std::string_view NameOf(const Named<Kind> (&table)[N], Kind kind) {
  for (const auto& row : table) {
    if (row.kind == kind) return row.name;
  }
  return "unknown";
}

std::string Join(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

using OptionValue = std::variant<double, std::string>;
using Setter = std::function<Status(ObjectiveConfig&, const std::string& key, const OptionValue&)>;

template <typename Kind, size_t N>
Setter Choice(const Named<Kind> (&table)[N], Kind ObjectiveConfig::*field) {
  return
      [&table, field](ObjectiveConfig& config, const std::string& key, const OptionValue& value) {
        std::vector<std::string> names;
        const auto* word = std::get_if<std::string>(&value);
        for (const auto& row : table) {
          if (word != nullptr && row.name == *word) {
            config.*field = row.kind;
            return Ok();
          }
          names.emplace_back(row.name);
        }
        const std::string got = word != nullptr ? *word : std::to_string(std::get<double>(value));
        return Invalid("\"" + key + "\" must be one of " + Join(names) + ", got \"" + got + "\"");
      };
}

// The limits of a number.
enum class Range { kAny, kNotNegative, kPositive };

Setter Number(std::function<double&(ObjectiveConfig&)> field, Range range) {
  return [field, range](ObjectiveConfig& config, const std::string& key, const OptionValue& value) {
    const double* number = std::get_if<double>(&value);
    const bool fits = number != nullptr && std::isfinite(*number) &&
                      (range == Range::kAny || (range == Range::kNotNegative && *number >= 0) ||
                       (range == Range::kPositive && *number > 0));
    if (!fits) {
      const char* expected = range == Range::kAny           ? "a number"
                             : range == Range::kNotNegative ? "a number of at least 0"
                                                            : "a number above 0";
      const std::string got =
          number != nullptr ? std::to_string(*number) : "\"" + std::get<std::string>(value) + "\"";
      return Invalid("\"" + key + "\" must be " + expected + ", got " + got);
    }
    field(config) = *number;
    return Ok();
  };
}

Setter Number(double ObjectiveConfig::*field, Range range) {
  return Number([field](ObjectiveConfig& c) -> double& { return c.*field; }, range);
}

Setter Cap(double VtraceCaps::*field) {
  return Number([field](ObjectiveConfig& c) -> double& { return c.vtrace.*field; },
                Range::kPositive);
}

Setter Distill(double DistillConfig::*field, Range range) {
  return Number([field](ObjectiveConfig& c) -> double& { return c.distill.*field; }, range);
}

const std::map<std::string, Setter, std::less<>>& Setters() {
  static const std::map<std::string, Setter, std::less<>> setters = {
      {"advantage", Choice(kAdvantages, &ObjectiveConfig::advantage)},
      {"ratio", Choice(kRatios, &ObjectiveConfig::ratio)},
      {"surrogate", Choice(kSurrogates, &ObjectiveConfig::surrogate)},
      {"correction", Choice(kCorrections, &ObjectiveConfig::correction)},
      {"kl", Choice(kKls, &ObjectiveConfig::kl)},
      {"aggregate", Choice(kAggregates, &ObjectiveConfig::aggregate)},
      {"proximal", Choice(kProximals, &ObjectiveConfig::proximal)},
      {"clip_low", Number(&ObjectiveConfig::clip_low, Range::kNotNegative)},
      {"clip_high", Number(&ObjectiveConfig::clip_high, Range::kNotNegative)},
      {"cap", Number(&ObjectiveConfig::cap, Range::kPositive)},
      {"low", Number(&ObjectiveConfig::low, Range::kNotNegative)},
      {"high", Number(&ObjectiveConfig::high, Range::kPositive)},
      {"length", Number(&ObjectiveConfig::length, Range::kPositive)},
      {"kl_coefficient", Number(&ObjectiveConfig::kl_coefficient, Range::kNotNegative)},
      {"entropy_coefficient", Number(&ObjectiveConfig::entropy_coefficient, Range::kAny)},
      {"rho_cap", Cap(&VtraceCaps::rho_cap)},
      {"c_cap", Cap(&VtraceCaps::c_cap)},
      {"pg_rho_cap", Cap(&VtraceCaps::pg_rho_cap)},
      {"discount", Number(&ObjectiveConfig::discount, Range::kNotNegative)},
      {"value_coefficient", Number(&ObjectiveConfig::value_coefficient, Range::kNotNegative)},
      {"reward_coefficient", Distill(&DistillConfig::reward, Range::kNotNegative)},
      {"distill_coefficient", Distill(&DistillConfig::coefficient, Range::kNotNegative)},
      {"distill_clip", Distill(&DistillConfig::clip, Range::kPositive)},
  };
  return setters;
}

// The presets, in the order in which they are listed. Each begins as GRPO and says how it differs.
struct Preset {
  std::string_view name;
  void (*change)(ObjectiveConfig&);
};

void Corrected(ObjectiveConfig& c, CorrectionKind correction) {
  c.correction = correction;
  c.proximal = ProximalKind::kRecompute;
  c.aggregate = AggregateKind::kTokenMean;
}

constexpr Preset kPresets[] = {
    {"grpo", [](ObjectiveConfig& c) { c.kl = KlKind::kK3; }},
    {"dr_grpo",
     [](ObjectiveConfig& c) {
       c.advantage = AdvantageKind::kGroupCentered;
       c.aggregate = AggregateKind::kFixedLength;
     }},
    {"dapo",
     [](ObjectiveConfig& c) {
       c.aggregate = AggregateKind::kTokenMean;
       c.clip_high = 0.28;
     }},
    {"gspo",
     [](ObjectiveConfig& c) {
       c.ratio = RatioKind::kSequence;
       c.clip_low = 3e-4;
       c.clip_high = 4e-4;
     }},
    {"cispo",
     [](ObjectiveConfig& c) {
       c.surrogate = SurrogateKind::kCispo;
       c.aggregate = AggregateKind::kTokenMean;
       c.clip_high = 4.0;
     }},
    {"rloo",
     [](ObjectiveConfig& c) {
       c.advantage = AdvantageKind::kLeaveOneOut;
       c.surrogate = SurrogateKind::kReinforce;
       c.aggregate = AggregateKind::kFixedLength;
     }},
    {"reinforce++",
     [](ObjectiveConfig& c) {
       c.advantage = AdvantageKind::kBatchWhitened;
       c.aggregate = AggregateKind::kTokenMean;
       c.kl = KlKind::kK2;
     }},
    {"decoupled_ppo", [](ObjectiveConfig& c) { Corrected(c, CorrectionKind::kDecoupled); }},
    {"tis", [](ObjectiveConfig& c) { Corrected(c, CorrectionKind::kTruncated); }},
    {"icepop", [](ObjectiveConfig& c) { Corrected(c, CorrectionKind::kMaskedToken); }},
    {"vtrace",
     [](ObjectiveConfig& c) {
       // The correction is inside the advantages, which are taken under p.
       c.advantage = AdvantageKind::kVtrace;
       c.surrogate = SurrogateKind::kReinforce;
       c.aggregate = AggregateKind::kTokenMean;
       c.proximal = ProximalKind::kRecompute;
       c.entropy_coefficient = 0.001;
     }},
    {"distill",
     [](ObjectiveConfig& c) {
       Corrected(c, CorrectionKind::kTruncated);
       c.distill.reward = 0;
       c.distill.coefficient = 1;
     }},
};

}  // namespace

std::string_view CorrectionName(CorrectionKind kind) {
  return NameOf(kCorrections, kind);
}

ObjectiveWords WordsOf(const ObjectiveConfig& config) {
  const auto text = [](std::string_view name) { return std::string(name); };
  return {text(NameOf(kRatios, config.ratio)), text(NameOf(kSurrogates, config.surrogate)),
          text(NameOf(kCorrections, config.correction)), text(NameOf(kKls, config.kl)),
          text(NameOf(kAggregates, config.aggregate))};
}

std::vector<std::string> ObjectivePresetNames() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

Result<ObjectiveConfig> ObjectivePreset(std::string_view name) {
  for (const Preset& preset : kPresets) {
    if (preset.name != name) continue;
    ObjectiveConfig config;
    config.name = name;
    preset.change(config);
    return config;
  }
  return Invalid("unknown objective \"" + std::string(name) + "\"; known are " +
                 Join(ObjectivePresetNames()));
}

std::vector<std::string> ObjectiveOptionKeys() {
  std::vector<std::string> keys;
  for (const auto& [key, setter] : Setters()) keys.push_back(key);
  return keys;
}

Status SetObjectiveOption(ObjectiveConfig& config, std::string_view key,
                          const std::variant<double, std::string>& value) {
  const auto found = Setters().find(key);
  if (found == Setters().end()) {
    return Invalid("unknown objective option \"" + std::string(key) + "\"; known are " +
                   Join(ObjectiveOptionKeys()));
  }
  return found->second(config, found->first, value);
}

Result<ObjectiveConfig> ParseObjective(std::string_view preset,
                                       const std::vector<std::string>& options) {
  Result<ObjectiveConfig> objective = ObjectivePreset(preset);
  if (!objective.ok()) return objective.status().WithContext("learner.objective");
  for (const std::string& option : options) {
    const size_t equals = option.find('=');
    if (equals == std::string::npos) {
      return Invalid("learner.options: \"" + option + "\" must be of the form key=value");
    }
    const std::string key = option.substr(0, equals), value = option.substr(equals + 1);
    double number = 0;
    const char* end = value.data() + value.size();
    const bool numeric = !value.empty() && std::from_chars(value.data(), end, number).ptr == end;
    const Status status = numeric ? SetObjectiveOption(*objective, key, number)
                                  : SetObjectiveOption(*objective, key, value);
    TM_RETURN_IF_ERROR(status.WithContext("learner.options"));
  }
  return objective;
}

Status ValidateObjective(const ObjectiveConfig& c) {
  if (c.surrogate == SurrogateKind::kClip && c.clip_low >= 1) {
    return Invalid("\"clip_low\" must be below 1, got " + std::to_string(c.clip_low));
  }
  const bool masks = c.correction == CorrectionKind::kMaskedToken ||
                     c.correction == CorrectionKind::kMaskedSequence;
  if (masks && c.low >= c.high) {
    return Invalid("\"low\" (" + std::to_string(c.low) + ") must be below \"high\" (" +
                   std::to_string(c.high) + ")");
  }
  if (c.correction != CorrectionKind::kNone && c.proximal == ProximalKind::kBehaviour) {
    return Invalid(
        "the correction \"" + std::string(CorrectionName(c.correction)) +
        "\" has no effect with proximal = \"behaviour\"; use \"recompute\" or \"interpolate\"");
  }
  if (c.kl_coefficient != 0 && c.kl == KlKind::kNone) {
    return Invalid("\"kl_coefficient\" is set but \"kl\" is \"none\"; use k1, k2 or k3");
  }
  if (c.NeedsValues() && c.discount > 1) {
    return Invalid("\"discount\" must be at most 1, got " + std::to_string(c.discount));
  }
  if (c.NeedsValues() && c.NeedsTeacher()) {
    return Invalid("\"distill_coefficient\" is set, but V-trace makes its own advantages");
  }
  if (c.distill.reward == 0 && !c.NeedsTeacher()) {
    return Invalid("\"reward_coefficient\" and \"distill_coefficient\" are both 0");
  }
  if (c.NeedsValues() && c.correction != CorrectionKind::kNone) {
    return Invalid("V-trace corrects inside its advantages; \"correction\" must be \"none\"");
  }
  return Ok();
}

}  // namespace tidemill
