#include "bus/role_topics.h"

#include <fcntl.h>

#include <cerrno>

#include "bus/bus.h"
#include "core/fd.h"
#include "core/files.h"
#include "core/topics.h"

namespace tidemill {
namespace {

Status WriteOwned(const std::string& path, std::string_view text) {
  const Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd && errno == EEXIST) return Exists(path + " is there already");
  if (!fd) return FileFailure(path, "cannot create", errno);
  return WriteAll(fd, text, path);
}

}  // namespace

RoleTopics RoleTopicsOf(std::string_view role) {
  RoleTopics topics;
  topics.shared.emplace_back(kDeadTopic);
  for (const TopicRow& row : kTopics) {
    if (!row.inside && TakesPart(row, role)) topics.shared.emplace_back(row.name);
  }
  const std::string worker = std::string(role) + "-*";  // a worker's name begins with its role
  topics.own.push_back("inbox." + worker);
  if (role == "reward") topics.shared.emplace_back("inbox.learner.*");
  if (role == "tools") {
    topics.shared.insert(topics.shared.end(), {"inbox.rollout-*", "inbox.reward-*"});
    topics.own.insert(topics.own.end(), {ToolCancelTopic(worker), ToolBoxTopic(worker)});
  }
  if (role == "rollout") {
    topics.shared.insert(topics.shared.end(),
                         {ToolCancelTopic("tools-*"), ToolBoxTopic("tools-*")});
  }
  return topics;
}

Status WriteRoleFiles(const std::string& folder, const std::string& users, std::string_view text,
                      const std::map<std::string, std::string>& passwords) {
  TM_RETURN_IF_ERROR(MakeDirectories(folder));
  TM_RETURN_IF_ERROR(WriteOwned(folder + "/" + users, text));
  for (const auto& [name, password] : passwords) {
    TM_RETURN_IF_ERROR(WriteOwned(folder + "/" + name + ".password", password + "\n"));
  }
  return Ok();
}

}  // namespace tidemill
