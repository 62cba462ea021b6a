#include "bus/redis/redis_acl.h"

#include <fcntl.h>

#include <cerrno>

#include "bus/bus.h"
#include "bus/redis/redis_scripts.h"
#include "core/fd.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/secret.h"
#include "core/topics.h"

namespace tidemill {
namespace {

constexpr std::string_view kConnection =
    " +ping +select +info +time +client|setname +client|id +client|unblock +script|load +eval "
    "+evalsha";
// What RedisBus calls, in its scripts and beside them, and what heartbeats and sheets need.
constexpr std::string_view kBus =
    " +get +set +del +exists +unlink +pexpire +hget +hgetall +hset +hsetnx +hdel +hincrby "
    "+hincrbyfloat +xadd +xack +xdel +xlen +xrange +xpending +xclaim +xautoclaim +xreadgroup "
    "+xgroup|create +xgroup|delconsumer +xinfo|groups +xinfo|consumers +zadd +zcard +zrange "
    "+zrangebyscore +zrem +zremrangebyscore";

// Key patterns of one role. {RUN} in them has no character that means something in a pattern.
std::string KeysOf(std::string_view role, const RedisKeys& keys) {
  const std::string all = " ~" + keys.prefix, read = " %R~" + keys.prefix;
  const std::string own = std::string(role) + "-*";  // a worker's name begins with its role
  std::string rules = all + "epoch" + all + "topics" + all + "client:" + own + all + "body:*" +
                      read + "sheet" + all + "workers" + all + "totals" + all + "worker:" + own +
                      read + "worker:*" + all + "told:" + own;
  rules += all + "t:" + std::string(kDeadTopic) + ":*";
  for (const TopicRow& row : kTopics) {
    if (!row.inside && TakesPart(row, role)) rules += all + "t:" + std::string(row.name) + ":*";
  }
  if (role == "rollout") {
    rules += all + "t:inbox.rollout-*" + all + "t:" + ToolCancelTopic("tools-*") + all +
             "t:" + ToolBoxTopic("tools-*") + all + "files";
  }
  if (role == "tools") {
    rules += all + "t:inbox.rollout-*" + all + "t:inbox.reward-*" + all +
             "t:" + ToolCancelTopic("tools-*") + all + "t:" + ToolBoxTopic("tools-*");
  }
  if (role == "reward") rules += all + "t:inbox.reward-*" + all + "t:inbox.learner.*";
  return rules;
}

Status WriteOwned(const std::string& path, std::string_view text) {
  const Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd && errno == EEXIST) return Exists(path + " is there already");
  if (!fd) return FileFailure(path, "cannot create", errno);
  return WriteAll(fd, text, path);
}

}  // namespace

Result<std::vector<RedisUser>> RedisUsersOf(std::string_view run) {
  TM_RETURN_IF_ERROR(CheckRedisRun(run));
  const RedisKeys keys(run);
  const std::string none = "on resetpass resetchannels resetkeys -@all";
  std::vector<RedisUser> users;
  const std::string everything = " ~" + keys.prefix + "*" + std::string(kConnection);
  users.push_back({"learner", NewSecret(), none + everything + std::string(kBus) + " +scan"});
  for (const std::string_view role : {"rollout", "tools", "reward"}) {
    users.push_back({std::string(role), NewSecret(),
                     none + KeysOf(role, keys) + std::string(kConnection) + std::string(kBus)});
  }
  users.push_back({"watch", NewSecret(), none + everything + " +@read"});
  return users;
}

std::string RedisAclFile(const std::vector<RedisUser>& users) {
  std::string text = "user default off\n";
  for (const RedisUser& user : users) {
    text += "user " + user.name + " " + user.rules + " #" + Sha256Hex(user.password) + "\n";
  }
  return text;
}

Status WriteRedisUsers(const std::vector<RedisUser>& users, const std::string& folder) {
  TM_RETURN_IF_ERROR(MakeDirectories(folder));
  TM_RETURN_IF_ERROR(WriteOwned(folder + "/users.acl", RedisAclFile(users)));
  for (const RedisUser& user : users) {
    TM_RETURN_IF_ERROR(WriteOwned(folder + "/" + user.name + ".password", user.password + "\n"));
  }
  return Ok();
}

}  // namespace tidemill
