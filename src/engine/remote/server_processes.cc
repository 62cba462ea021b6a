#include "engine/remote/server_processes.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <thread>

#include "core/child_process.h"
#include "core/fd.h"
#include "core/log.h"

namespace tidemill {
namespace {

constexpr Duration kFirstPause = std::chrono::seconds(1);
constexpr Duration kLongestPause = std::chrono::minutes(2);
constexpr Duration kEndPatience = std::chrono::seconds(15);

Result<uint16_t> FreeLoopbackPort() {
  const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  struct sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* at = reinterpret_cast<struct sockaddr*>(&address);
  if (!fd || bind(fd.get(), at, size) != 0 || getsockname(fd.get(), at, &size) != 0) {
    return Unavailable("no port of loopback is free");
  }
  return ntohs(address.sin_port);
}

}  // namespace

Result<ServerProcesses> ServerProcesses::Start(ServerCommand command, size_t count) {
  ServerProcesses servers(std::move(command));
  for (size_t i = 0; i < count; ++i) TM_RETURN_IF_ERROR(servers.Add());
  return servers;
}

Status ServerProcesses::Add() {
  TM_ASSIGN_OR_RETURN(const uint16_t port, FreeLoopbackPort());
  urls_.push_back({.tls = false, .host = "127.0.0.1", .port = std::to_string(port), .path = "/"});
  processes_.push_back({.pid = 0, .start_at = Time::min(), .pause = kFirstPause});
  return StartOne(processes_.size() - 1);
}

ServerProcesses::ServerProcesses(ServerProcesses&& other) noexcept
    : command_(std::move(other.command_)),
      urls_(std::move(other.urls_)),
      processes_(std::exchange(other.processes_, {})) {}

ServerProcesses::~ServerProcesses() {
  for (const Process& process : processes_) {
    if (process.pid > 0) kill(-process.pid, SIGTERM);
  }
  const Time until = std::chrono::steady_clock::now() + kEndPatience;
  for (const Process& process : processes_) {
    if (process.pid <= 0) continue;
    while (waitpid(process.pid, nullptr, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() >= until) kill(-process.pid, SIGKILL);
      std::this_thread::sleep_for(milliseconds(20));
    }
    kill(-process.pid, SIGKILL);  // what it started itself
  }
}

Status ServerProcesses::StartOne(size_t i) {
  const std::string log =
      command_.log_folder + "/" + command_.name + "-" + std::to_string(i) + ".log";
  std::vector<std::string> words;
  for (std::string word : command_.words) {
    if (const size_t at = word.find("{port}"); at != std::string::npos) {
      word.replace(at, 6, urls_[i].port);
    }
    if (const size_t at = word.find("{server}"); at != std::string::npos) {
      word.replace(at, 8, std::to_string(i));
    }
    words.push_back(std::move(word));
  }
  TM_ASSIGN_OR_RETURN(processes_[i].pid, StartLoggedChild(words, log));
  LogInfo("a server starts", {{"server", urls_[i].Authority()}, {"log", log}});
  return Ok();
}

std::vector<size_t> ServerProcesses::Watch(Time now) {
  std::vector<size_t> others;
  for (size_t i = 0; i < processes_.size(); ++i) {
    Process& process = processes_[i];
    int how = 0;
    if (process.pid > 0 && waitpid(process.pid, &how, WNOHANG) == process.pid) {
      kill(-process.pid, SIGKILL);  // what it started itself
      process.pid = 0;
      process.start_at = now + process.pause;
      LogWarn("a server ended", {{"server", urls_[i].Authority()}, {"how", HowItEnded(how)}});
      process.pause = std::min(2 * process.pause, kLongestPause);
      others.push_back(i);
    }
    if (process.pid != 0 || now < process.start_at) continue;
    if (const Status started = StartOne(i); !started.ok()) process.start_at = now + kLongestPause;
  }
  return others;
}

void ServerProcesses::Kill(size_t server) {
  if (processes_[server].pid > 0) kill(-processes_[server].pid, SIGKILL);
}

}  // namespace tidemill
