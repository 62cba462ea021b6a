// Redis users for the roles of a run, each with the least it needs: the keys of the topics its
// loops take part in (core/topics.h), its own inboxes and heartbeats, and the commands the bus
// uses. Only the learner can write the run's sheet.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace tidemill {

struct RedisUser {
  std::string name;      // the role: learner, rollout, tools, reward; and watch, which only looks
  std::string password;  // new
  std::string rules;     // as ACL SETUSER takes them, without the password
};

// kInvalid: a run on Redis cannot have this name.
Result<std::vector<RedisUser>> RedisUsersOf(std::string_view run);

// A file for redis.conf's aclfile. Passwords are in it as hashes; the default user is off.
std::string RedisAclFile(const std::vector<RedisUser>& users);

// users.acl, and NAME.password for each user, readable by the owner alone. kExists: one is there
// already; nothing is written over.
Status WriteRedisUsers(const std::vector<RedisUser>& users, const std::string& folder);

}  // namespace tidemill
