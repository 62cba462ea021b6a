#include "core/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string_view>

extern char** environ;

namespace tidemill {

std::string ThisProgram() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "tidemill" : self.string();
}

namespace {

// Ours with `more` instead of what has the same names.
std::vector<std::string> EnvironmentWith(
    const std::vector<std::pair<std::string, std::string>>& more) {
  std::vector<std::string> entries;
  for (const auto& [name, value] : more) entries.push_back(name + "=" + value);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view theirs(*entry);
    const std::string_view name = theirs.substr(0, theirs.find('='));
    const bool replaced =
        std::any_of(more.begin(), more.end(), [&](const auto& one) { return one.first == name; });
    if (!replaced) entries.emplace_back(theirs);
  }
  return entries;
}

// As execve takes them; borrowed from `words`.
std::vector<char*> Pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Result<pid_t> StartChild(const std::vector<std::string>& words, const ChildOptions& options) {
  const std::vector<std::string> environment = EnvironmentWith(options.environment);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (!options.log.empty()) {
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, options.log.c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND, 0600);
  }
  posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           options.outlives_us ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, words[0].c_str(), &files, &attributes,
                                 Pointers(words).data(), Pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) return Unavailable(words[0] + ": " + std::strerror(error));
  return pid;
}

Result<pid_t> StartLoggedChild(const std::vector<std::string>& words, const std::string& log) {
  // Runs "$@" with its output in the file $0, and ends it when this process dies.
  constexpr char kShell[] = "exec setpriv --pdeathsig TERM -- \"$@\" >>\"$0\" 2>&1";
  std::vector<std::string> all = {"/bin/sh", "-c", kShell, log};
  all.insert(all.end(), words.begin(), words.end());
  return StartChild(all);
}

std::string HowItEnded(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    return "was killed by signal " + std::to_string(WTERMSIG(wait_status));
  }
  return "exited with status " + std::to_string(WEXITSTATUS(wait_status));
}

}  // namespace tidemill
