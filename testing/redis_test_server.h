// A redis-server of a test's own: on a free port, in a directory that goes with it.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bus/redis/redis_connection.h"
#include "testing/test_kit.h"

namespace tidemill {

class RedisTestServer {
 public:
  explicit RedisTestServer(std::vector<std::string> settings = {})
      : settings_(std::move(settings)) {
    // Another process may take the port between finding and using it.
    for (int attempt = 0; attempt < 5 && pid_ < 0; ++attempt) {
      port_ = FreePort();
      Start();
    }
    if (pid_ < 0) ADD_FAILURE() << "redis-server did not start";
  }
  ~RedisTestServer() { Stop(); }
  RedisTestServer(const RedisTestServer&) = delete;

  std::string url() const { return "redis://127.0.0.1:" + std::to_string(port_) + "/0"; }
  int port() const { return port_; }

  // On the same port and with the same directory as before.
  void Start() {
    std::vector<std::string> args = {"redis-server",    "--port",          std::to_string(port_),
                                     "--bind",          "127.0.0.1",       "--dir",
                                     directory_.path(), "--save",          "",
                                     "--logfile",       directory_ / "log"};
    args.insert(args.end(), settings_.begin(), settings_.end());
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      execvp(argv[0], argv.data());
      _exit(127);
    }
    WaitUntilItAnswers();
  }

  void Stop(int how = SIGTERM) {
    if (pid_ <= 0) return;
    kill(pid_, how);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

  void Signal(int signal) {
    if (pid_ > 0) kill(pid_, signal);
  }

  // A command, as a person would give it.
  ReplyPtr Do(std::initializer_list<std::string_view> args) {
    RedisAddress address;
    address.host = "127.0.0.1";
    address.port = port_;
    auto connection = RedisConnection::Connect(address, kTimeout);
    EXPECT_TRUE(connection.ok()) << connection.status().ToString();
    auto reply = (*connection)->Call(args, kTimeout);
    EXPECT_TRUE(reply.ok()) << reply.status().ToString();
    EXPECT_FALSE(IsReplyError(**reply)) << ReplyText(**reply);
    return std::move(*reply);
  }

 private:
  static constexpr Duration kTimeout = std::chrono::seconds(20);

  void WaitUntilItAnswers() {
    RedisAddress address;
    address.host = "127.0.0.1";
    address.port = port_;
    const Time until = std::chrono::steady_clock::now() + kTimeout;
    while (std::chrono::steady_clock::now() < until) {
      if (waitpid(pid_, nullptr, WNOHANG) == pid_) break;  // it ended: the port was taken
      auto connection = RedisConnection::Connect(address, std::chrono::seconds(1));
      // A server that wants a password answers as well.
      if (connection.ok() || connection.status().code() == Code::kInvalid) return;
      std::this_thread::sleep_for(milliseconds(2));
    }
    Stop(SIGKILL);
    pid_ = -1;
  }

  std::vector<std::string> settings_;
  TemporaryDirectory directory_;
  int port_ = 0;
  pid_t pid_ = -1;
};

}  // namespace tidemill
