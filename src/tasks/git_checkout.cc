#include "tasks/git_checkout.h"

#include <sys/wait.h>

#include <cerrno>
#include <filesystem>

#include "core/child_process.h"
#include "core/files.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;

constexpr size_t kSmallFileMax = 1 << 20;

// In 512 bytes, KiB and seconds: small files in great number or size are a bomb.
constexpr const char* kLimits = "ulimit -f 2097152; ulimit -d 4194304; ulimit -t 600; exec \"$@\"";

std::string FirstLine(const std::string& path) {
  auto text = ReadFileBounded(path, kSmallFileMax);
  return text.ok() ? text->substr(0, text->find('\n')) : std::string();
}

// Where the repository keeps HEAD, and where its objects and names: a work tree added to another
// repository has a HEAD of its own.
struct GitFolders {
  fs::path head, common;
};

Result<GitFolders> FindFolders(const std::string& repository) {
  std::error_code error;
  GitFolders folders;
  folders.head = fs::absolute(repository, error).lexically_normal();
  if (fs::is_directory(folders.head / ".git", error)) {
    folders.head /= ".git";
  } else if (fs::is_regular_file(folders.head / ".git", error)) {
    constexpr std::string_view kPrefix = "gitdir: ";
    const std::string line = FirstLine(folders.head / ".git");
    if (line.starts_with(kPrefix)) folders.head /= line.substr(kPrefix.size());
  }
  folders.common = folders.head;
  const std::string common = FirstLine(folders.head / "commondir");
  if (!common.empty()) folders.common /= common;
  if (!fs::is_directory(folders.common / "objects", error)) {
    return NotFound(repository + ": no such repository on this machine; make a mirror with " +
                    "git clone --mirror");
  }
  if (folders.common.string().find('\n') != std::string::npos) {
    return Invalid("the path of a repository must be one line");
  }
  return folders;
}

// The only word of the configuration that counts: how objects are named.
bool HasSha256(const GitFolders& folders) {
  const auto config = ReadFileBounded(folders.common / "config", kSmallFileMax);
  if (!config.ok()) return false;
  for (size_t at = config->find("objectformat"); at != std::string::npos;
       at = config->find("objectformat", at + 1)) {
    const std::string line = config->substr(at, config->find('\n', at) - at);
    if (line.find("sha256") != std::string::npos) return true;
  }
  return false;
}

// A repository of our own that borrows the objects and the names.
Status MakeOwn(const GitFolders& folders, const fs::path& own) {
  std::error_code error;
  fs::create_directories(own / "objects" / "info", error);
  if (error) return Unavailable("cannot make a temporary folder");
  const std::string config =
      HasSha256(folders)
          ? "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha256\n"
          : "[core]\n\trepositoryformatversion = 0\n";
  TM_RETURN_IF_ERROR(WriteFileAtomically(own / "config", config));
  const std::string head = FirstLine(folders.head / "HEAD");
  TM_RETURN_IF_ERROR(WriteFileAtomically(own / "HEAD", head + "\n"));
  TM_RETURN_IF_ERROR(WriteFileAtomically(own / "objects" / "info" / "alternates",
                                         (folders.common / "objects").string() + "\n"));
  fs::create_directory_symlink(folders.common / "refs", own / "refs", error);
  // May lead nowhere: names that are not packed are files of their own.
  if (!error) fs::create_symlink(folders.common / "packed-refs", own / "packed-refs", error);
  return error ? Unavailable("cannot link to the names of " + folders.common.string()) : Ok();
}

Status Git(const std::string& scratch, const std::vector<std::string>& words) {
  std::vector<std::string> command = {"/usr/bin/env",
                                      "-i",
                                      "PATH=/usr/local/bin:/usr/bin:/bin",
                                      "HOME=" + scratch,
                                      "GIT_CONFIG_NOSYSTEM=1",
                                      "GIT_CONFIG_GLOBAL=/dev/null",
                                      "GIT_TERMINAL_PROMPT=0",
                                      "GIT_NO_REPLACE_OBJECTS=1",
                                      "GIT_DIR=" + scratch + "/git",
                                      "GIT_WORK_TREE=" + scratch + "/tree",
                                      "GIT_INDEX_FILE=" + scratch + "/index",
                                      "/bin/sh",
                                      "-c",
                                      kLimits,
                                      "sh",
                                      "git",
                                      "-c",
                                      "core.autocrlf=false"};
  command.insert(command.end(), words.begin(), words.end());
  TM_ASSIGN_OR_RETURN(const pid_t child, StartChild(command));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (status == 0) return Ok();
  return Unavailable("git " + words[0] + " " + HowItEnded(status));
}

}  // namespace

Status CheckOutCommit(const std::string& repository, const std::string& commit,
                      const std::string& scratch) {
  if (commit.starts_with('-')) return Invalid("the commit must not begin with \"-\"");
  TM_ASSIGN_OR_RETURN(const GitFolders folders, FindFolders(repository));
  std::error_code error;
  if (!fs::create_directory(fs::path(scratch) / "tree", error)) {
    return Unavailable("cannot make a temporary folder");
  }
  TM_RETURN_IF_ERROR(MakeOwn(folders, fs::path(scratch) / "git"));
  const std::string tree = commit.empty() ? "HEAD" : commit;
  if (!Git(scratch, {"read-tree", tree}).ok()) {
    return NotFound(repository + ": has no commit \"" + tree + "\"");
  }
  return Git(scratch, {"checkout-index", "--all", "--force", "-q"});
}

}  // namespace tidemill
