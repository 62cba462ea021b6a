// The arms of `tidemill bench memory`: each plays every project as a stream of groups, all of them
// at once over one engine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "memory/case_bank.h"
#include "model/token_id.h"
#include "testbeds/project.h"

namespace tidemill {

// Draws an answer to each prompt; a seed decides a draw. Texts without their end.
struct AskedPrompt {
  v1::Task task;
  v1::CaseSet cases;
  uint64_t seed = 0;
};
using AskPolicy = std::function<Result<std::vector<std::string>>(const std::vector<AskedPrompt>&)>;
using KeyOf = std::function<Result<std::vector<float>>(const std::string& prompt)>;

struct StreamPlan {
  uint64_t seed = 0;
  uint32_t before = 0, after = 0, held_out = 0, members = 0, cases = 0;
};

// The outcome of one arm on one project.
struct StreamResult {
  std::vector<double> episodes;  // passed or not, in order
  std::vector<double> held_out;
  uint64_t cases = 0;
  uint64_t itself = 0;
};

// By arm, then project. kInvalid: an unknown arm.
Result<std::vector<std::vector<StreamResult>>> PlayStreams(const std::vector<std::string>& arms,
                                                           uint32_t projects,
                                                           const StreamPlan& plan,
                                                           const AskPolicy& ask, const KeyOf& key);
// The same of the ideal learner, without held-out tasks.
std::vector<StreamResult> PlayIdeal(uint32_t projects, const StreamPlan& plan);

}  // namespace tidemill
