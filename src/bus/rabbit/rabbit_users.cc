#include "bus/rabbit/rabbit_users.h"

#include <openssl/evp.h>

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "bus/bus.h"
#include "bus/rabbit/rabbit_names.h"
#include "bus/role_topics.h"
#include "core/secret.h"
#include "core/topics.h"

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kSaltBytes = 4;

// A '*' stands for anything, every other character for itself.
std::string Regex(std::string_view pattern) {
  std::string regex;
  for (const char c : pattern) {
    if (c == '*') {
      regex += ".*";
      continue;
    }
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '/' || c == '_' || c == '-';
    if (!plain) regex += '\\';
    regex += c;
  }
  return regex;
}

std::string AnyOf(const RabbitNames& names, const std::vector<std::string>& patterns,
                  std::string_view also = "") {
  std::string regex = "^(" + std::string(also);
  for (const std::string& pattern : patterns) {
    if (regex.back() != '(') regex += "|";
    regex += Regex(names.prefix + pattern);
  }
  return regex + ")$";
}

// Behind the salt, the SHA-256 of both, as RabbitMQ keeps them.
std::string PasswordHash(const std::string& password) {
  std::string bytes = NewSecret().substr(0, kSaltBytes);
  const std::string salted = bytes + password;
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  TM_CHECK(EVP_Digest(salted.data(), salted.size(), digest, &size, EVP_sha256(), nullptr) == 1,
           "no SHA-256");
  bytes.append(reinterpret_cast<const char*>(digest), size);
  std::string text(4 * ((bytes.size() + 2) / 3), '\0');
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                  reinterpret_cast<const unsigned char*>(bytes.data()),
                  static_cast<int>(bytes.size()));
  return text;
}

// What every member of the run needs to be one.
const std::vector<std::string> kMembers = {"book", "newcomers", "member/*"};

RabbitUser WorkerOf(std::string_view role, const RabbitNames& names) {
  std::vector<std::string> declared = kMembers, read = kMembers,
                           written = {"book", "member/*", "parking/*"};
  declared.insert(declared.end(), {"parking/*", "t/" + std::string(kDeadTopic)});
  read.push_back("parking/*");
  for (const TopicRow& row : kTopics) {
    if (row.inside || !TakesPart(row, role)) continue;
    declared.push_back("t/" + std::string(row.name));
    if (row.consumer == role) read.push_back("t/" + std::string(row.name));
  }
  // The loop of the judges is in the role of reward.
  if (role == "reward") {
    for (auto* list : {&declared, &read}) list->push_back("t/" + std::string(kJudgeTopic));
  }
  for (const std::string& own : RoleTopicsOf(role).own) {
    for (auto* list : {&declared, &read}) list->push_back("t/" + own);
  }
  if (role == "rollout") read.emplace_back("object/*");
  return {.role = std::string(role),
          .name = "",
          .password = "",
          .configure = AnyOf(names, declared),
          .write = AnyOf(names, written, "amq\\.default"),
          .read = AnyOf(names, read)};
}

}  // namespace

Result<std::vector<RabbitUser>> RabbitUsersOf(std::string_view run) {
  TM_RETURN_IF_ERROR(CheckRabbitRun(run));
  const RabbitNames names(run);
  std::vector<RabbitUser> users;
  const std::string all = AnyOf(names, {"*"});
  users.push_back({.role = "learner",
                   .name = "",
                   .password = "",
                   .configure = all,
                   .write = AnyOf(names, {"*"}, "amq\\.default"),
                   .read = all});
  for (const std::string_view role : {"rollout", "tools", "reward"}) {
    users.push_back(WorkerOf(role, names));
  }
  users.push_back({.role = "watch",
                   .name = "",
                   .password = "",
                   .configure = AnyOf(names, kMembers),
                   .write = AnyOf(names, {"member/*"}, "amq\\.default"),
                   .read = AnyOf(names, kMembers)});
  for (RabbitUser& user : users) {
    user.name = std::string(run) + "." + user.role;
    user.password = NewSecret();
  }
  return users;
}

std::string RabbitDefinitions(std::string_view run, const std::vector<RabbitUser>& users) {
  Json json;
  json["vhosts"] = Json::array({Json{{"name", std::string(run)}}});
  json["users"] = Json::array();
  json["permissions"] = Json::array();
  for (const RabbitUser& user : users) {
    json["users"].push_back(Json{{"name", user.name},
                                 {"password_hash", PasswordHash(user.password)},
                                 {"hashing_algorithm", "rabbit_password_hashing_sha256"},
                                 {"tags", ""}});
    json["permissions"].push_back(Json{{"user", user.name},
                                       {"vhost", std::string(run)},
                                       {"configure", user.configure},
                                       {"write", user.write},
                                       {"read", user.read}});
  }
  return json.dump(2) + "\n";
}

Status WriteRabbitUsers(std::string_view run, const std::vector<RabbitUser>& users,
                        const std::string& folder) {
  std::map<std::string, std::string> passwords;
  for (const RabbitUser& user : users) passwords[user.role] = user.password;
  return WriteRoleFiles(folder, "definitions.json", RabbitDefinitions(run, users), passwords);
}

}  // namespace tidemill
