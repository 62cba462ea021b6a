#include "bus/redis/redis_acl.h"

#include <map>

#include "bus/redis/redis_scripts.h"
#include "bus/role_topics.h"
#include "core/hash.h"
#include "core/secret.h"
#include "core/topics.h"

namespace tidemill {
namespace {

constexpr std::string_view kConnection =
    " +ping +select +info +time +client|setname +client|id +client|unblock";

// On every key of the run.
constexpr std::string_view kLearner =
    " +fcall +fcall_ro +function|load +function|kill +script|kill +scan +exists +type +strlen +get "
    "+set +del +unlink +pexpire +hget +hgetall +hset +hsetnx +hdel +hincrby +hincrbyfloat +xadd "
    "+xack "
    "+xdel +xlen +xrange +xrevrange +xpending +xclaim +xautoclaim +xreadgroup +xgroup|create "
    "+xgroup|delconsumer "
    "+xinfo|groups +xinfo|consumers +xinfo|stream +zadd +zcard +zrange +zrangebyscore +zrem "
    "+zremrangebyscore";

// Each part of a topic with the commands that RedisBus uses on it. None of them deletes a key or
// changes its type: what a worker shares with others it can fill and empty, but not break.
struct Part {
  std::string_view key;
  std::string_view commands;
};
constexpr Part kParts[] = {
    {":stream",
     "+fcall +xadd +xack +xdel +xlen +xrange +xpending +xclaim +xautoclaim +xreadgroup "
     "+xgroup|create +xgroup|delconsumer +xinfo|groups +xinfo|consumers"},
    {":delayed", "+zadd +zcard +zrange +zrangebyscore +zrem"},
    {":state", "+hget +hset +hincrby"},
    {":sweep", "+set"},
};

// A selector of an ACL: the commands on the keys, and on no others.
std::string Selector(std::string_view commands, const std::vector<std::string>& keys) {
  std::string text = " (" + std::string(commands);
  for (const std::string& key : keys) text += " " + key;
  return text + ")";
}

// The permissions of a worker of the role. {RUN} in the patterns has no character that means
// something there.
std::string RulesOf(std::string_view role, const RedisKeys& keys) {
  const std::string all = "~" + keys.prefix, read = "%R~" + keys.prefix;
  const std::string own = std::string(role) + "-*";
  const RoleTopics topics = RoleTopicsOf(role);
  std::string rules(kConnection);
  for (const Part& part : kParts) {
    std::vector<std::string> patterns;
    for (const auto* names : {&topics.shared, &topics.own}) {
      for (const std::string& name : *names) {
        patterns.push_back(all + "t:" + name + std::string(part.key));
      }
    }
    rules += Selector(part.commands, patterns);
  }
  std::vector<std::string> removable = {all + "body:*", all + "client:" + own,
                                        all + "worker:" + own};
  for (const std::string& name : topics.own) removable.push_back(all + "t:" + name);
  rules += Selector("+unlink", removable);
  rules += Selector("+hget +hset +hsetnx +hdel", {all + "topics:" + std::string(role)});
  rules += Selector(
      "+get +hget +hgetall +fcall_ro +exists",
      {read + "epoch", read + "sheet", read + "topics", read + "topics:*", read + "worker:*"});
  rules += Selector("+fcall +get +set", {all + "client:" + own});
  // A body is written by its publisher alone: another role's would be a message in its name.
  rules += Selector("+get", {read + "body:*"});
  rules += Selector("+set", {all + "body:" + own});
  rules += Selector("+set", {all + "worker:" + own});
  rules += Selector("+fcall +fcall_ro +zadd +zrange +zrem +zremrangebyscore +pexpire",
                    {all + "workers"});
  rules += Selector("+hincrbyfloat", {all + "totals"});
  rules += Selector("+hgetall +hset +pexpire", {all + "told:" + own});
  if (role == "rollout") {
    rules += Selector("+set", {all + "wanted:*"});
    rules += Selector("+get", {read + "object:*"});
  }
  return rules;
}

}  // namespace

Result<std::vector<RedisUser>> RedisUsersOf(std::string_view run) {
  TM_RETURN_IF_ERROR(CheckRedisRun(run));
  const RedisKeys keys(run);
  const std::string none = "on resetpass resetchannels resetkeys -@all";
  std::vector<RedisUser> users;
  const std::string connection(kConnection);
  users.push_back({"learner", NewSecret(),
                   none + connection + " ~" + keys.prefix + "*" + std::string(kLearner)});
  for (const std::string_view role : {"rollout", "tools", "reward"}) {
    users.push_back({std::string(role), NewSecret(), none + RulesOf(role, keys)});
  }
  users.push_back(
      {"watch", NewSecret(), none + connection + " %R~" + keys.prefix + "* +@read +fcall_ro"});
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
  std::map<std::string, std::string> passwords;
  for (const RedisUser& user : users) passwords[user.name] = user.password;
  return WriteRoleFiles(folder, "users.acl", RedisAclFile(users), passwords);
}

}  // namespace tidemill
