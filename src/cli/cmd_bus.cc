// tidemill bus: keys and users for a broker that others can reach.
#include <cstdio>
#include <memory>

#include "bus/rabbit/rabbit_users.h"
#include "bus/redis/redis_acl.h"
#include "cli/commands.h"
#include "core/signature.h"

namespace tidemill {
namespace {

int RunBusKey(const std::string& path) {
  const Status made = MakeSigningKey(path);
  if (!made.ok()) return Fail(made);
  std::printf("%s: for the learner (--sign-key); nobody else may read it\n", path.c_str());
  std::printf("%s.pub: for the workers (--verify-key)\n", path.c_str());
  return 0;
}

int RunBusAcl(const std::string& run, const std::string& folder) {
  const Result<std::vector<RedisUser>> users = RedisUsersOf(run);
  if (!users.ok()) return Fail(users.status());
  if (folder.empty()) {
    std::fputs(RedisAclFile(*users).c_str(), stdout);
    for (const RedisUser& user : *users) {
      std::fprintf(stderr, "password of user %s: %s\n", user.name.c_str(), user.password.c_str());
    }
    return 0;
  }
  const Status written = WriteRedisUsers(*users, folder);
  if (!written.ok()) return Fail(written);
  std::printf("%s/users.acl: for redis.conf (aclfile) or ACL SETUSER\n", folder.c_str());
  for (const RedisUser& user : *users) {
    std::printf("%s/%s.password: of user %s\n", folder.c_str(), user.name.c_str(),
                user.name.c_str());
  }
  return 0;
}

int RunBusUsers(const std::string& run, const std::string& folder) {
  const Result<std::vector<RabbitUser>> users = RabbitUsersOf(run);
  if (!users.ok()) return Fail(users.status());
  const Status written = WriteRabbitUsers(run, *users, folder);
  if (!written.ok()) return Fail(written);
  std::printf("%s/definitions.json: for rabbitmq.conf (load_definitions) or rabbitmqctl\n",
              folder.c_str());
  for (const RabbitUser& user : *users) {
    std::printf("%s/%s.password: of user %s\n", folder.c_str(), user.role.c_str(),
                user.name.c_str());
  }
  return 0;
}

}  // namespace

void AddBusCommand(CLI::App& app, Exit& exit) {
  CLI::App* bus = app.add_subcommand("bus", "Keys and users for a broker that others can reach");
  bus->require_subcommand(1);
  auto path = std::make_shared<std::string>();
  CLI::App* key =
      bus->add_subcommand("key", "Make the key that signs a run's sheet: FILE and FILE.pub");
  key->add_option("file", *path, "Where the private key goes")->required();
  key->callback([path, &exit] { exit.code = RunBusKey(*path); });
  auto run = std::make_shared<std::string>();
  auto folder = std::make_shared<std::string>();
  CLI::App* acl = bus->add_subcommand(
      "acl", "Redis users for the roles of a run, with the least each needs and new passwords");
  acl->add_option("--run", *run, "Name of the run, or TIDEMILL_RUN")
      ->envname(kRunVariable)
      ->required();
  acl->add_option("--out", *folder,
                  "Folder for users.acl and ROLE.password; without it all is printed");
  acl->callback([run, folder, &exit] { exit.code = RunBusAcl(*run, *folder); });
  CLI::App* rabbit = bus->add_subcommand(
      "rabbitmq-users",
      "RabbitMQ users for the roles of a run, in a virtual host named like it, and new passwords");
  rabbit->add_option("--run", *run, "Name of the run, or TIDEMILL_RUN")
      ->envname(kRunVariable)
      ->required();
  rabbit->add_option("--out", *folder, "Folder for definitions.json and ROLE.password")->required();
  rabbit->callback([run, folder, &exit] { exit.code = RunBusUsers(*run, *folder); });
}

}  // namespace tidemill
