#include "run/teams.h"

#include <algorithm>
#include <set>

#include "run/policies.h"

namespace tidemill {
namespace {

constexpr std::string_view kDefaultPolicy = "default";

RoleTable TableOf(const RunConfig& config, const std::string& role) {
  for (const RoleTable& table : config.roles) {
    if (table.name == role) return table;
  }
  return {.name = role};
}

// As in messages.
std::string PolicyOfRole(const RoleTable& table) {
  return table.policy == kDefaultPolicy ? "" : table.policy;
}

Status CheckNumberOfRoles(const RunConfig& config, const Binder& binder) {
  const std::vector<std::string>& roles = config.team.roles;
  const std::set<std::string> names(roles.begin(), roles.end());
  if (roles.empty()) return binder.Error("team.roles", "is empty; name the roles in their order");
  if (names.contains("")) return binder.Error("team.roles", "has a role without a name");
  if (config.team.kind == "review" && (roles.size() != 2 || names.size() != 2)) {
    return binder.Error("team.roles", "must be two for a review: who works, and who comments");
  }
  if (config.team.kind == "vote" && roles.size() < 3) {
    return binder.Error("team.roles", "must be three or more for a vote: the last chooses");
  }
  for (const RoleTable& table : config.roles) {
    if (names.contains(table.name)) continue;
    return binder.Error("role", table.name + " is not in team.roles");
  }
  return Ok();
}

Status CheckPoliciesOfRoles(const RunConfig& config, const Binder& binder) {
  const PolicyNames names = PolicyNamesOf(config);
  const std::vector<RunPolicy> policies = PoliciesOf(config);
  std::set<PolicyId> drawing;
  for (const std::string& role : config.team.roles) {
    const RoleTable table = TableOf(config, role);
    const auto policy = names.Find(PolicyOfRole(table));
    const bool there = policy.ok() && std::any_of(policies.begin(), policies.end(),
                                                  [&](const auto& p) { return p.id == *policy; });
    if (!there) {
      return binder.Error("role", role + ".policy is \"" + table.policy +
                                      "\", which has no [policy." + table.policy + "]");
    }
    drawing.insert(*policy);
  }
  for (const RunPolicy& policy : policies) {
    if (!policy.trained || drawing.contains(policy.id)) continue;
    return binder.Error("policy", names.Shown(policy.id) +
                                      " draws no role of the team and would never learn: set "
                                      "policy of a [role.NAME]");
  }
  return Ok();
}

Status CheckBesideTeam(const RunConfig& config, const Binder& binder) {
  const auto wrong = [&](bool is, std::string_view key, std::string_view why) {
    return is ? binder.Error("team.kind", "cannot be together with " + std::string(key) + ": " +
                                              std::string(why))
              : Ok();
  };
  TM_RETURN_IF_ERROR(wrong(config.asks_gateway(),
                           config.agent.used() ? "[agent]" : "[[environment]]",
                           "their episodes have one role"));
  TM_RETURN_IF_ERROR(wrong(config.live.on, "live.on", "sessions have one role"));
  TM_RETURN_IF_ERROR(wrong(config.memory.on, "memory.on", "cases are shown to one agent"));
  TM_RETURN_IF_ERROR(wrong(config.teacher.used(), "[teacher]", "it reads what one role was shown"));
  return wrong(!config.background.allowed.empty() || !config.background.always.empty(),
               "[background]", "a result would come to another role than the one that asked");
}

}  // namespace

std::optional<TeamPlan> TeamPlanFrom(const RunConfig& config) {
  if (!config.team.used()) return std::nullopt;
  TeamPlan plan{
      .seats = {}, .order = {}, .rounds = config.team.rounds, .accept = config.team.accept};
  if (config.team.kind == "review") plan.kind = TeamKind::kReview;
  if (config.team.kind == "vote") plan.kind = TeamKind::kVote;
  const PolicyNames names = PolicyNamesOf(config);
  for (const std::string& role : config.team.roles) {
    const auto before = std::find_if(plan.seats.begin(), plan.seats.end(),
                                     [&](const TeamSeat& seat) { return seat.role == role; });
    if (plan.kind == TeamKind::kChain && before != plan.seats.end()) {
      plan.order.push_back(static_cast<size_t>(before - plan.seats.begin()));
      continue;
    }
    const RoleTable table = TableOf(config, role);
    const std::string policy = PolicyOfRole(table);
    plan.order.push_back(plan.seats.size());
    plan.seats.push_back({.role = role,
                          .policy = RolePolicy{names.Find(policy).value(), policy},
                          .prompt = table.prompt,
                          .shows_files = table.files});
  }
  return plan;
}

std::map<std::string, PolicyId> TeamRoles(const RunConfig& config) {
  std::map<std::string, PolicyId> roles;
  if (!config.team.used()) return roles;
  const PolicyNames names = PolicyNamesOf(config);
  for (const std::string& role : config.team.roles) {
    roles[role] = names.Find(PolicyOfRole(TableOf(config, role))).value();
  }
  return roles;
}

uint32_t UsesOfAll(const RunConfig& config) {
  if (!config.team.used()) return config.replay.max_uses;
  std::set<PolicyId> drawing;
  for (const auto& [role, policy] : TeamRoles(config)) drawing.insert(policy);
  return config.replay.max_uses * static_cast<uint32_t>(drawing.size());
}

Status CheckTeam(const RunConfig& config, const Binder& binder) {
  if (!config.team.used()) {
    return config.roles.empty() ? Ok() : binder.Error("role", "needs a team: set team.kind");
  }
  TM_RETURN_IF_ERROR(CheckNumberOfRoles(config, binder));
  TM_RETURN_IF_ERROR(CheckPoliciesOfRoles(config, binder));
  return CheckBesideTeam(config, binder);
}

}  // namespace tidemill
