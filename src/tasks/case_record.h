// A finished episode as memory keeps it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "proto/tidemill.pb.h"

namespace tidemill {

// The name in the task's tag "scope:NAME"; empty without one. Never one of a tenant.
std::string ScopeOf(const v1::Task& task);

// Of what a tenant's sessions were about: "tenant:NAME".
std::string TenantScope(std::string_view tenant);
// Whether the record is in the scope that it belongs to: a session's in that of its tenant, a
// task's in no tenant's.
bool InItsScope(const v1::CaseRecord& record);

// Nothing for what never becomes a case: an evaluation, an episode that failed through us or that
// no scorer could score, one without an answer.
std::optional<v1::CaseRecord> MakeCase(const v1::Task& task, const v1::Trajectory& trajectory,
                                       const v1::Verdict& verdict);

}  // namespace tidemill
