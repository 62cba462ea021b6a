#include "tools/box/box.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>

#include "core/hash.h"
#include "core/paths.h"
#include "tools/box/box_host.h"
#include "tools/box/box_protocol.h"
#include "tools/box/cgroup.h"

namespace tidemill {
namespace {

constexpr int kHelloPatienceMs = 20'000;
constexpr size_t kFlushBytes = 256 * 1024;
// A file of the box's tmpfs for each so many bytes of its size: enough for any source tree.
constexpr uint64_t kBytesPerFile = 4096;

int PidfdOpen(pid_t pid) {
  return static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
}

std::string Complaints(const Fd& file) {
  char text[2048];
  const ssize_t got = pread(file.get(), text, sizeof text, 0);
  std::string words(text, got > 0 ? static_cast<size_t>(got) : 0);
  while (!words.empty() && words.back() == '\n') words.pop_back();
  return words;
}

}  // namespace

Box::Box(BoxHost& host) : host_(host) {}

Box::~Box() {
  if (outer_pid_ < 0) return;
  if (init_) {
    Kill();
  } else {
    kill(outer_pid_, SIGKILL);
  }
  socket_.Reset();
  host_.Close({outer_pid_, std::move(cgroup_)});
}

void Box::Kill() {
  if (init_) syscall(SYS_pidfd_send_signal, init_.get(), SIGKILL, nullptr, 0);
}

Status Box::Broken(Status status) {
  usable_ = false;
  return status;
}

// The first words of the init, from which the kernel tells us its pid.
Status Box::AwaitHello() {
  pollfd wait = {socket_.get(), POLLIN, 0};
  int ready;
  do {
    ready = poll(&wait, 1, kHelloPatienceMs);
  } while (ready < 0 && errno == EINTR);
  BoxFrame frame = {};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
  iovec part = {&frame, sizeof frame};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = ready > 0 ? recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC) : -1;
  if (got != sizeof frame) {
    const std::string words = Complaints(complaints_);
    return Broken(Unavailable(fmt::format("a box did not start: {}",
                                          !words.empty() ? words
                                          : ready == 0   ? "no answer in 20 s"
                                                         : "bubblewrap exited without a message")));
  }
  complaints_.Reset();
  const cmsghdr* c = CMSG_FIRSTHDR(&message);
  if (c != nullptr && c->cmsg_type == SCM_CREDENTIALS) {
    ucred sender = {};
    memcpy(&sender, CMSG_DATA(c), sizeof sender);
    init_pid_ = sender.pid;
    init_ = Fd(PidfdOpen(init_pid_));
  }
  if (frame.type == BOX_FAILED && frame.size < 1024) {
    std::string words(frame.size, '\0');
    (void)recv(socket_.get(), words.data(), words.size(), MSG_WAITALL);
    return Broken(Unavailable("a box did not start: " + words));
  }
  if (!init_ || frame.type != BOX_HELLO) {
    return Broken(Unavailable("a box did not start: its init gave an unexpected answer"));
  }
  const int no = 0;
  setsockopt(socket_.get(), SOL_SOCKET, SO_PASSCRED, &no, sizeof no);
  return Ok();
}

void Box::AddFrame(uint32_t type, const void* head, size_t head_size, std::string_view path,
                   std::string_view content) {
  const BoxFrame frame = {type, static_cast<uint32_t>(head_size + path.size() + content.size())};
  outbox_.append(reinterpret_cast<const char*>(&frame), sizeof frame);
  outbox_.append(static_cast<const char*>(head), head_size);
  outbox_.append(path);
  outbox_.append(content);
}

// Descriptors go with the first bytes; the init keeps them until the RUN they belong to.
Status Box::Flush(const int* fds, size_t fds_count) {
  TM_CHECK(fds_count <= 8 && (fds_count == 0 || !outbox_.empty()));
  std::string_view rest = outbox_;
  while (!rest.empty()) {
    iovec part = {const_cast<char*>(rest.data()), rest.size()};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))];
    if (fds_count > 0) {
      memset(control, 0, sizeof control);
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(fds_count * sizeof(int));
      cmsghdr* c = CMSG_FIRSTHDR(&message);
      c->cmsg_level = SOL_SOCKET;
      c->cmsg_type = SCM_RIGHTS;
      c->cmsg_len = CMSG_LEN(fds_count * sizeof(int));
      memcpy(CMSG_DATA(c), fds, fds_count * sizeof(int));
    }
    const ssize_t sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return Broken(Unavailable(fmt::format("the box has died: {}", strerror(errno))));
    rest.remove_prefix(static_cast<size_t>(sent));
    fds_count = 0;
  }
  outbox_.clear();
  return Ok();
}

void Box::AwaitReady() {
  if (init_pid_ < 0 && usable_) hello_ = AwaitHello();
}

Status Box::Configure(const BoxLimits& limits) {
  TM_CHECK(!configured_, "a box is configured once");
  configured_ = true;
  AwaitReady();
  TM_RETURN_IF_ERROR(hello_);
  disk_bytes_ = limits.disk_bytes;
  const BoxConfig config = {limits.disk_bytes, limits.disk_bytes / kBytesPerFile + 64};
  AddFrame(BOX_CONFIG, &config, sizeof config, {}, host_.filter());
  return Ok();
}

Status Box::Put(std::string_view path, std::string_view content, bool executable) {
  return AddPut(path, content, executable, /*outside=*/false);
}

Status Box::PutOutside(std::string_view path, std::string_view content) {
  return AddPut(path, content, /*executable=*/false, /*outside=*/true);
}

Status Box::AddPut(std::string_view path, std::string_view content, bool executable, bool outside) {
  TM_RETURN_IF_ERROR(CheckPath(path));
  if (content.size() > BOX_FRAME_MAX - 4096) {
    return Full(
        fmt::format("{}: {} bytes are too many for a file of a workspace", path, content.size()));
  }
  const BoxPut put = {static_cast<uint32_t>(path.size()), executable ? 1u : 0u, outside ? 1u : 0u};
  AddFrame(BOX_PUT, &put, sizeof put, path, content);
  return outbox_.size() > kFlushBytes ? Flush(nullptr, 0) : Ok();
}

Status Box::Edit(const v1::File& file) {
  TM_RETURN_IF_ERROR(CheckPath(file.path()));
  const BoxEdit edit = {static_cast<uint32_t>(file.path().size()), file.executable() ? 1u : 0u,
                        file.has_content() ? 0u : 1u};
  if (file.content().size() > BOX_FRAME_MAX - 4096) {
    return Invalid(file.path() + ": too large for a file of a workspace");
  }
  AddFrame(BOX_EDIT, &edit, sizeof edit, file.path(), file.content());
  TM_RETURN_IF_ERROR(Flush(nullptr, 0));
  uint32_t type = 0;
  std::string payload;
  TM_RETURN_IF_ERROR(ReadAnswer(&type, &payload));
  BoxEdited edited = {};
  if (type != BOX_EDITED || payload.size() != sizeof edited) {
    return Broken(Unavailable("the box's init sent an invalid message"));
  }
  memcpy(&edited, payload.data(), sizeof edited);
  if (edited.error == 0) return Ok();
  return Invalid(fmt::format("{}: {}", file.path(), strerror(edited.error)));
}

Result<Fd> Box::Listen(uint16_t port) {
  const BoxListen wanted = {port};
  AddFrame(BOX_LISTEN, &wanted, sizeof wanted, {}, {});
  TM_RETURN_IF_ERROR(Flush(nullptr, 0));
  BoxFrame frame = {};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  iovec part = {&frame, sizeof frame};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got;
  do {
    got = recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC | MSG_WAITALL);
  } while (got < 0 && errno == EINTR);
  if (got != sizeof frame) return Broken(Unavailable("the box exited unexpectedly"));
  if (frame.type == BOX_FAILED && frame.size < 1024) {
    std::string words(frame.size, '\0');
    (void)recv(socket_.get(), words.data(), words.size(), MSG_WAITALL);
    return Broken(Unavailable(std::string(kBoxRefused) + words));
  }
  const cmsghdr* c = CMSG_FIRSTHDR(&message);
  if (frame.type != BOX_LISTENING || c == nullptr || c->cmsg_type != SCM_RIGHTS) {
    return Broken(Unavailable("the box's init sent an invalid message"));
  }
  int fd = -1;
  memcpy(&fd, CMSG_DATA(c), sizeof fd);
  return Fd(fd);
}

std::string Box::path() const {
  for (const std::string& variable : host_.environment()) {
    if (variable.starts_with("PATH=")) return variable.substr(5);
  }
  return std::string(kBoxPath);
}

const std::string& Box::root() const {
  return host_.root();
}

void Box::DrainLeftovers() {
  constexpr size_t kLeftoversMax =
      32;  // the oldest beyond are closed: who writes there gets SIGPIPE
  char bytes[16 * 1024];
  for (Fd& fd : leftovers_) {
    for (int round = 0; round < 8 && fd; ++round) {
      const ssize_t got = read(fd.get(), bytes, sizeof bytes);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) break;
      if (got <= 0) fd.Reset();
    }
  }
  std::erase_if(leftovers_, [](const Fd& fd) { return !fd; });
  if (leftovers_.size() > kLeftoversMax) {
    leftovers_.erase(leftovers_.begin(), leftovers_.end() - kLeftoversMax);
  }
}

Status Box::RemoveAll() {
  AddFrame(BOX_REMOVE_ALL, nullptr, 0, {}, {});
  return Ok();
}

Status Box::ReadFrame(uint32_t* type, std::string* payload) {
  const auto read = [this](void* bytes, size_t size) {
    ssize_t got;
    do {
      got = recv(socket_.get(), bytes, size, MSG_WAITALL);
    } while (got < 0 && errno == EINTR);
    return got == static_cast<ssize_t>(size);
  };
  BoxFrame frame = {};
  if (!read(&frame, sizeof frame)) return Broken(Unavailable("the box exited unexpectedly"));
  if (frame.size > BOX_FRAME_MAX)
    return Broken(Unavailable("the box's init sent an invalid message"));
  payload->resize(frame.size);
  if (frame.size > 0 && !read(payload->data(), frame.size)) {
    return Broken(Unavailable("the box exited unexpectedly"));
  }
  *type = frame.type;
  if (frame.type == BOX_FAILED) return Broken(Unavailable(std::string(kBoxRefused) + *payload));
  return Ok();
}

Status Box::ReadAnswer(uint32_t* type, std::string* payload) {
  TM_RETURN_IF_ERROR(ReadFrame(type, payload));
  if (*type != BOX_DONE) return Ok();
  done_early_ = std::move(*payload);
  return ReadFrame(type, payload);
}

// FILE frames up to END. The bound is the init's to keep; here it is checked again.
Status Box::ReadFiles(v1::Tree* tree, uint64_t bytes_max) {
  uint64_t bytes = 0;
  for (;;) {
    uint32_t type = 0;
    std::string payload;
    TM_RETURN_IF_ERROR(ReadAnswer(&type, &payload));
    if (type == BOX_END && payload.size() == sizeof(BoxEnd)) {
      BoxEnd end = {};
      memcpy(&end, payload.data(), sizeof end);
      switch (end.reason) {
        case BOX_END_WHOLE:
          return Ok();
        case BOX_END_MISSING:
          return NotFound("no regular file of that name");
        case BOX_END_TOO_LARGE:
          return Full(fmt::format("more than {} bytes", bytes_max));
        case BOX_END_TOO_MANY:
          return Full("too many files");
        default:
          return Full("folders too deep or names too long");
      }
    }
    BoxPut put = {};
    if (type != BOX_FILE || payload.size() < sizeof put) {
      return Broken(Unavailable("the box's init sent an invalid message"));
    }
    memcpy(&put, payload.data(), sizeof put);
    if (put.path_size > payload.size() - sizeof put) {
      return Broken(Unavailable("the box's init sent an invalid message"));
    }
    bytes += payload.size() - sizeof put - put.path_size;
    if (bytes > bytes_max) return Broken(Full(fmt::format("more than {} bytes", bytes_max)));
    v1::File* file = tree->add_files();
    file->set_path(payload.substr(sizeof put, put.path_size));
    file->set_content(payload.substr(sizeof put + put.path_size));
    file->set_has_content(true);
    file->set_executable(put.executable != 0);
  }
}

Result<std::string> Box::Get(std::string_view path, uint64_t bytes_max) {
  TM_RETURN_IF_ERROR(CheckPath(path));
  const BoxGet get = {bytes_max};
  AddFrame(BOX_GET, &get, sizeof get, path, {});
  TM_RETURN_IF_ERROR(Flush(nullptr, 0));
  v1::Tree tree;
  const Status status = ReadFiles(&tree, bytes_max);
  if (!status.ok()) return status.WithContext(path);
  if (tree.files_size() != 1) return Broken(Unavailable("the box's init sent an invalid message"));
  return tree.files(0).content();
}

Result<v1::Tree> Box::Collect(const CollectLimits& limits) {
  const BoxCollect collect = {limits.bytes_max, limits.files_max};
  AddFrame(BOX_COLLECT, &collect, sizeof collect, {}, {});
  TM_RETURN_IF_ERROR(Flush(nullptr, 0));
  v1::Tree tree;
  const Status status = ReadFiles(&tree, limits.bytes_max);
  if (!status.ok()) return status.WithContext("collecting the workspace");
  // Names are bytes in the box and text in messages; one that is no text cannot leave.
  auto* files = tree.mutable_files();
  for (int i = files->size() - 1; i >= 0; --i) {
    if (!CheckPath(files->Get(i).path()).ok()) files->DeleteSubrange(i, 1);
  }
  NormalizeTree(tree);
  return tree;
}

BoxErrands::BoxErrands() : wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  TM_CHECK(static_cast<bool>(wake_), "eventfd");
}

void BoxErrands::Add(Errand errand) {
  MutexLock lock(mutex_);
  errands_.push_back(std::move(errand));
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);
}

std::vector<BoxErrands::Errand> BoxErrands::TakeAll() {
  MutexLock lock(mutex_);
  uint64_t count = 0;
  (void)!read(wake_.get(), &count, sizeof count);
  return std::exchange(errands_, {});
}

}  // namespace tidemill
