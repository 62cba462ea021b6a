#include "run/live_options.h"

#include <memory>

namespace tidemill {

Result<LiveOptions> LiveOptionsFrom(const RunConfig& config) {
  LiveOptions options;
  options.idle = config.live.idle;
  TM_ASSIGN_OR_RETURN(Redaction redaction, Redaction::Make(config.live.redact));
  options.redaction = std::make_shared<const Redaction>(std::move(redaction));
  return options;
}

ReleaseOptions ReleaseOptionsFrom(const RunConfig& config) {
  const RunConfig::Live& live = config.live;
  return {.canary_share = live.canary_share,
          .canary_time = live.canary_time,
          .canary_answers = live.canary_answers,
          .gate_margin = live.gate_margin,
          .places = config.engine.versions,
          .entropy_min = live.alarm_entropy,
          .kl_max = live.alarm_kl,
          .malformed_max = live.alarm_malformed,
          .questions_max = live.alarm_questions};
}

}  // namespace tidemill
