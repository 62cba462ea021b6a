// A RabbitMQ broker of a test's own: on a free port, with its own epmd, cookie and data in a
// directory that goes with it. It takes seconds to start, so a test program shares one; tests tell
// themselves apart by the names of their runs.
#pragma once

#include <arpa/inet.h>
#include <glob.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bus/rabbit/rabbit_connection.h"
#include "testing/test_kit.h"

namespace tidemill {

class RabbitTestServer {
 public:
  // Where Debian's package put it; empty: it is not installed.
  static std::string Home() {
    glob_t found{};
    std::string home;
    if (glob("/usr/lib/rabbitmq/lib/rabbitmq_server-*", 0, nullptr, &found) == 0) {
      home = found.gl_pathv[0];
    }
    globfree(&found);
    return home;
  }

  // `config` is added to rabbitmq.conf.
  explicit RabbitTestServer(std::string config = "") : config_(std::move(config)) {
    // Another process may take a port between finding and using it.
    for (int attempt = 0; attempt < 3 && pid_ < 0; ++attempt) {
      port_ = FreePort();
      distribution_port_ = FreePort();
      epmd_port_ = FreePort();
      Start();
    }
    if (pid_ < 0) ADD_FAILURE() << "rabbitmq-server did not start, see " << directory_ / "log";
  }
  ~RabbitTestServer() { Stop(); }
  RabbitTestServer(const RabbitTestServer&) = delete;

  std::string url() const { return "amqp://127.0.0.1:" + std::to_string(port_) + "/"; }
  int port() const { return port_; }

  // On the same ports and with the same data as before.
  void Start() {
    std::ofstream(directory_ / "plugins") << "[].\n";
    std::ofstream(directory_ / "rabbitmq.conf") << "listeners.tcp.1 = 127.0.0.1:" << port_ << "\n"
                                                << config_;
    const std::vector<std::string> environment = Environment();
    epmd_ = Spawn({"epmd", "-port", std::to_string(epmd_port_), "-address", "127.0.0.1"},
                  environment, "epmd.log");
    pid_ = Spawn({"erl",
                  "+S",
                  "1:1",
                  "+sbwt",
                  "none",
                  "-noshell",
                  "-noinput",
                  "-s",
                  "rabbit",
                  "boot",
                  "-boot",
                  "start_sasl",
                  "-syslog",
                  "logger",
                  "[]",
                  "-syslog",
                  "syslog_error_logger",
                  "false",
                  "-kernel",
                  "prevent_overlapping_partitions",
                  "false",
                  "-kernel",
                  "inet_dist_use_interface",
                  "{127,0,0,1}"},
                 environment, "log");
    WaitUntilItAnswers();
  }

  void Stop(int how = SIGTERM) {
    End(pid_, how);
    End(epmd_, SIGTERM);
  }

 private:
  static constexpr Duration kTimeout = std::chrono::seconds(150);  // a busy machine

  std::vector<std::string> Environment() const {
    const std::string base = directory_.path(), home = Home();
    std::vector<std::string> environment = {
        "HOME=" + base,
        "ERL_EPMD_PORT=" + std::to_string(epmd_port_),
        "ERL_EPMD_ADDRESS=127.0.0.1",
        "ERL_LIBS=" + home + "/plugins",
        "ERL_CRASH_DUMP_SECONDS=0",
        "RABBITMQ_HOME=" + home,
        "RABBITMQ_NODENAME=test" + std::to_string(port_) + "@localhost",
        "RABBITMQ_NODE_PORT=" + std::to_string(port_),
        "RABBITMQ_DIST_PORT=" + std::to_string(distribution_port_),
        "RABBITMQ_BASE=" + base,
        "RABBITMQ_MNESIA_BASE=" + base + "/data",
        "RABBITMQ_LOG_BASE=" + base + "/logs",
        "RABBITMQ_LOGS=-",
        "RABBITMQ_ENABLED_PLUGINS_FILE=" + base + "/plugins",
        "RABBITMQ_CONF_ENV_FILE=" + base + "/none",
        "RABBITMQ_CONFIG_FILE=" + base + "/rabbitmq",
        "RABBITMQ_PID_FILE=" + base + "/pid",
        "RABBITMQ_GENERATED_CONFIG_DIR=" + base + "/generated"};
    if (const char* path = std::getenv("PATH")) environment.push_back(std::string("PATH=") + path);
    return environment;
  }

  pid_t Spawn(std::vector<std::string> words, std::vector<std::string> environment,
              const std::string& log) {
    std::vector<char*> argv, envp;
    for (std::string& word : words) argv.push_back(word.data());
    for (std::string& one : environment) envp.push_back(one.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    const std::string log_file = directory_ / log;
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid != 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    if (freopen(log_file.c_str(), "a", stdout) == nullptr) _exit(126);
    dup2(STDOUT_FILENO, STDERR_FILENO);
    execvpe(argv[0], argv.data(), envp.data());
    _exit(127);
  }

  static void End(pid_t& pid, int how) {
    if (pid <= 0) return;
    kill(pid, how);
    waitpid(pid, nullptr, 0);
    pid = -1;
  }

  void WaitUntilItAnswers() {
    RabbitAddress address;
    address.host = "127.0.0.1";
    address.port = port_;
    const Time until = std::chrono::steady_clock::now() + kTimeout;
    while (std::chrono::steady_clock::now() < until) {
      if (waitpid(pid_, nullptr, WNOHANG) == pid_) break;  // it ended: a port was taken
      auto connection = RabbitConnection::Connect(address, std::chrono::seconds(10), 0);
      // One that wants another user answers as well.
      if (connection.ok() || connection.status().code() == Code::kInvalid) return;
      std::this_thread::sleep_for(milliseconds(50));
    }
    Stop(SIGKILL);
    pid_ = -1;
  }

  const std::string config_;
  TemporaryDirectory directory_;
  int port_ = 0, distribution_port_ = 0, epmd_port_ = 0;
  pid_t pid_ = -1, epmd_ = -1;
};

// The one of this test program; null: RabbitMQ is not installed.
inline RabbitTestServer* SharedRabbit() {
  static const auto server = [] {
    return RabbitTestServer::Home().empty() ? nullptr : std::make_unique<RabbitTestServer>();
  }();
  return server.get();
}

}  // namespace tidemill
