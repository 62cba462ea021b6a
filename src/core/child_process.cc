#include "core/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

extern char** environ;

namespace tidemill {

std::string ThisProgram() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "tidemill" : self.string();
}

Result<pid_t> StartChild(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, argv[0], &files, &attributes, argv.data(), environ);
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
