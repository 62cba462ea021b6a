// RabbitMQ users for the roles of a run, in a virtual host of its own: each may declare and read
// the queues of the topics its loops take part in, and nothing outside the virtual host. Whoever
// may publish to one queue may publish to every queue there, which is how AMQP names them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace tidemill {

struct RabbitUser {
  std::string role;      // learner, rollout, tools, reward; and watch, for tidemill status
  std::string name;      // RUN.ROLE
  std::string password;  // new
  std::string configure, write, read;  // the queues and exchanges it may, as regular expressions
};

// kInvalid: a run on RabbitMQ cannot have this name.
Result<std::vector<RabbitUser>> RabbitUsersOf(std::string_view run);

// A file for rabbitmq.conf's load_definitions: the virtual host named like the run, and its users,
// with hashes of their passwords.
std::string RabbitDefinitions(std::string_view run, const std::vector<RabbitUser>& users);

// definitions.json, and ROLE.password for each user, readable by the owner alone. kExists: one is
// there already; nothing is written over.
Status WriteRabbitUsers(std::string_view run, const std::vector<RabbitUser>& users,
                        const std::string& folder);

}  // namespace tidemill
