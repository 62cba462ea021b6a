// The program as tests use it: run to its end, or in the background, to be signalled, killed and
// started again.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "cli/machine.h"
#include "core/fd.h"
#include "testing/test_folders.h"
#include "testing/test_kit.h"

extern char** environ;

namespace tidemill {

// `words` as a shell reads them; `redirect` says which stream is kept.
inline ProcessOutput RunTidemill(const std::string& words, const std::string& redirect = "2>&1") {
  return RunProcess({"sh", "-c", BinaryDir() + "/tidemill " + words + " " + redirect},
                    std::chrono::seconds(240));
}

inline void MustRun(const std::string& words) {
  const ProcessOutput result = RunTidemill(words);
  ASSERT_EQ(result.exit_code, 0) << words << "\n" << result.output;
}

// A policy of random weights in FOLDER/model, small enough to train within seconds.
inline void MakeTinyModel(const std::string& folder) {
  MustRun("tasks model --family cfunc --width 32 --layers 2 --heads 2 --feed-forward 64 --out " +
          folder + "/shape");
  MustRun("model new --config " + folder + "/shape/config.json --tokenizer " + folder +
          "/shape --seed 1 --out " + folder + "/model");
}

// Whether something listens on the port of this machine.
inline bool Listens(int port) {
  const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

// A process of the program. It ends with this object: asked to first, so that it can end what it
// started, then killed. What it prints goes to files:
// standard output to `out`, everything else to `log`, added to what is there.
class BackgroundProgram {
 public:
  struct Files {
    std::string log;
    std::string out = {};  // empty: to the log as well
  };
  BackgroundProgram(std::string words, Files files)
      : words_(std::move(words)), files_(std::move(files)) {
    Start();
  }
  ~BackgroundProgram() {
    Signal(SIGTERM);
    if (!Eventually([&] { return Ended() || pid_ <= 0; }, std::chrono::seconds(5))) Stop(SIGKILL);
  }
  BackgroundProgram(const BackgroundProgram&) = delete;
  BackgroundProgram& operator=(const BackgroundProgram&) = delete;

  // Again, after it ended.
  void Start() {
    const std::string streams = files_.out.empty() ? " >>" + files_.log + " 2>&1"
                                                   : " >>" + files_.out + " 2>>" + files_.log;
    const std::string command = "exec " + BinaryDir() + "/tidemill " + words_ + streams;
    const char* argv[] = {"sh", "-c", command.c_str(), nullptr};
    ASSERT_EQ(posix_spawnp(&pid_, "sh", nullptr, nullptr, const_cast<char**>(argv), environ), 0);
  }
  void Signal(int signal) {
    if (pid_ > 0) kill(pid_, signal);
  }
  // Signals and waits for the end; the exit status, or 128 and the signal that ended it.
  int Stop(int signal) {
    Signal(signal);
    if (signal == SIGKILL) Signal(SIGCONT);
    return Wait();
  }
  // -1: it had ended before.
  int Wait() {
    if (pid_ <= 0) return -1;
    int status = 0;
    waitpid(pid_, &status, 0);
    return Reaped(status);
  }
  // The exit status of one that ended by itself.
  std::optional<int> Ended() {
    int status = 0;
    if (pid_ <= 0 || waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
    return Reaped(status);
  }

  // -1: it does not run.
  pid_t pid() const { return pid_; }
  std::string Log() const { return TextOf(files_.log); }

 private:
  int Reaped(int status) {
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  std::string words_;
  Files files_;
  pid_t pid_ = -1;
};

}  // namespace tidemill
