// The policies of a run: which there are, their numbers, and what each is told.
//
//   [policy.NAME], [learner], .. -> PoliciesOf -> RunPolicy: the run's config as it is for one
//   policy
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "core/policy_names.h"
#include "run/run_config.h"

namespace tidemill {

struct RunPolicy {
  PolicyId id = PolicyId::kMain;
  std::string name{};  // as in messages: the default policy has none
  bool trained = true;
  // The run's, with what its table says in the places of [model], [learner], [rollout] and
  // [staleness].
  RunConfig config{};
};

// Those of the config, the default one first where it is among them. Without tables: the default
// one alone, with the config as it is.
std::vector<RunPolicy> PoliciesOf(const RunConfig& config);
// Of all of them.
PolicyNames PolicyNamesOf(const RunConfig& config);
// What the engine is started with: the default policy or, where a run has other policies alone, the
// base without an adapter, which nobody trains.
RunConfig MainPolicyConfig(const RunConfig& config);
// The learner's steps in a whole run: run.steps of each policy that is trained.
uint64_t RunStepsOf(const RunConfig& config);

// What [policy.NAME] cannot be together with. Messages name the key and its place.
Status CheckPolicies(const RunConfig& config, const Binder& binder);

}  // namespace tidemill
