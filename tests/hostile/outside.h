// What the hostile programs reach for: secrets, servers, descriptors and shared memory of the host,
// and a neighbour's box.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "core/fd.h"
#include "core/status.h"
#include "testing/test_kit.h"

namespace tidemill {

// None of the descriptors is close-on-exec, as if a library had opened them.
class Outside {
 public:
  Outside() {
    setenv("HOSTILE_VARIABLE", "ESCAPED the environment", 1);
    std::ofstream(secret_) << "ESCAPED the secret\n";
    planted_ = Fd(open("/", O_RDONLY | O_DIRECTORY));
    high_ = Fd(fcntl(planted_.get(), F_DUPFD, 700));
    server_ = Fd(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    TM_CHECK(bind(server_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0 &&
             listen(server_.get(), 8) == 0 &&
             getsockname(server_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
    by_path_ = Listening(socket_, false);
    abstract_ = Listening(socket_, true);
    int ends[2];
    TM_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    connection_ = Fd(ends[0]), peer_ = Fd(ends[1]);
    TM_CHECK(write(peer_.get(), "ESCAPED a request", 17) == 17);
    segment_ = shmget(0x7469646d, 4096, IPC_CREAT | 0666);
  }
  ~Outside() {
    if (segment_ >= 0) shmctl(segment_, IPC_RMID, nullptr);
    unsetenv("HOSTILE_VARIABLE");
  }
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;

  // As a program gets to know where they are.
  std::string Exports() const {
    return fmt::format("export HOST_PID={} HOST_PORT={} HOST_SECRET={} HOST_SOCKET={}; ", getpid(),
                       port_, secret_, socket_);
  }
  std::string Defines() const {
    return fmt::format("-DHOST_PID={} -DHOST_PORT={} -DHOST_SECRET={}", getpid(), port_, secret_);
  }

 private:
  static Fd Listening(const std::string& path, bool abstract) {
    Fd fd(socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    if (abstract) address.sun_path[0] = '\0';
    TM_CHECK(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
             listen(fd.get(), 8) == 0);
    return fd;
  }

  const TemporaryDirectory folder_;
  const std::string secret_ = folder_ / "secret.txt";
  const std::string socket_ = folder_ / "server.sock";
  Fd planted_, high_, server_, by_path_, abstract_, connection_, peer_;
  int port_ = 0;
  int segment_ = -1;
};

}  // namespace tidemill
