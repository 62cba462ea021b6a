// A finished episode as memory keeps it.
#pragma once

#include <optional>
#include <string>

#include "proto/tidemill.pb.h"

namespace tidemill {

// What the task's tag "scope:NAME" names; empty without one.
std::string ScopeOf(const v1::Task& task);

// Nothing for what never becomes a case: an evaluation, an episode that failed through us or that
// no scorer could score, one without an answer.
std::optional<v1::CaseRecord> MakeCase(const v1::Task& task, const v1::Trajectory& trajectory,
                                       const v1::Verdict& verdict);

}  // namespace tidemill
