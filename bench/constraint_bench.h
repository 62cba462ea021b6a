// What a constraint costs: compiling a schema of 40 fields, and each draw under it beside a draw
// without, in processor time of one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/status.h"

namespace tidemill {

struct ConstraintBenchOptions {
  std::string model_dir;  // its tokenizer is used; empty: a vocabulary is made up
  int32_t vocabulary = 151'936;
  int texts = 64;
  int tokens = 400;  // of a text
  uint64_t seed = 1;
  bool steps = false;  // an engine's steps are measured, too
};

struct ConstraintBenchReport {
  int32_t vocabulary = 0;
  double vocabulary_ms = 0;  // once for a model
  double compile_ms = 0;     // with the mask of the first token; at most kCompileMsMax
  double mask_us = 0;        // of a draw, where texts share an automaton that was new
  double worst_mask_ms = 0;
  double plain_draw_us = 0;  // without a constraint, from random logits
  double held_draw_us = 0;   // under the masks that the texts met
  size_t draws = 0;
  double plain_step_ms = 0, held_step_ms = 0;  // of 64 sequences; 0: not measured

  static constexpr double kCompileMsMax = 50;
  static constexpr double kStepMax = 1.05;  // under the constraint, of one without
  bool Holds() const {
    return compile_ms <= kCompileMsMax && held_step_ms <= kStepMax * plain_step_ms;
  }
  std::string ToText() const;
  std::string ToJson() const;  // one object
};

Result<ConstraintBenchReport> RunConstraintBench(const ConstraintBenchOptions& options);

}  // namespace tidemill
