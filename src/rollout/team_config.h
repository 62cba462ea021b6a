// The keys of [team] and [role.NAME]: episodes of several roles.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/section.h"

namespace tidemill {

struct TeamConfig {
  TM_SECTION("team");
  TM_KEY(std::string, kind, "none",
         {.doc = "Who works on an episode: none: one agent; chain: the roles in order; review: the "
                 "first works, the second comments; vote: all but the last work, the last chooses; "
                 "see teams.md",
          .choices = {"none", "chain", "review", "vote"}});
  TM_KEY(std::vector<std::string>, roles, {}, {.doc = "Roles in the order in which they work"});
  TM_KEY(uint32_t, rounds, 1,
         {.doc = "Comments of a review, at most; the first role works once more after each",
          .min = 1,
          .max = 100});
  TM_KEY(std::string, accept, "",
         {.doc = "A comment that begins with it ends the review; empty: none does"});

  bool used() const { return kind != "none"; }
};

// [role.NAME]: a role of the team.
struct RoleTable {
  std::string name{};
  TM_SECTION("");
  TM_KEY(std::string, policy, "default", {.doc = "Policy that draws its turns (policies.md)"});
  TM_KEY(std::string, prompt, "",
         {.doc = "What it is shown first; {task} is the task's prompt, {given} what the role "
                 "before it gave; empty: both"});
  TM_KEY(bool, files, true, {.doc = "Whether its prompt shows files of the workspace"});
};

}  // namespace tidemill
