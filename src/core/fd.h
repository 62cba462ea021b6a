// A file descriptor with an owner, and who inherits descriptors: nobody.
#pragma once

#include <unistd.h>

#include <utility>

namespace tidemill {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { Reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

// Programs started from here do not inherit this one. False: it is no descriptor.
bool CloseOnExec(int fd);

// The same for all but the standard streams: what the program was started with, and what libraries
// opened that do not say so themselves.
void SealDescriptors();

// Opens /dev/null where a standard stream is missing, so that no file or socket takes its number
// and is written to by whoever prints.
void FillStandardStreams();

}  // namespace tidemill
