// What each role of a run needs of its broker, for the users that a broker is told of.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace tidemill {

// Names of topics; a '*' stands for anything.
struct RoleTopics {
  std::vector<std::string> shared;  // of other workers and of everybody
  std::vector<std::string> own;     // of the role's own workers
};
RoleTopics RoleTopicsOf(std::string_view role);

// `users` with what the broker reads, and NAME.password for each user, readable by the owner alone.
// kExists: one is there already; nothing is written over.
Status WriteRoleFiles(const std::string& folder, const std::string& users, std::string_view text,
                      const std::map<std::string, std::string>& passwords);

}  // namespace tidemill
