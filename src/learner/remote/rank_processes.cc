#include "learner/remote/rank_processes.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/child_process.h"
#include "core/log.h"

namespace tidemill {
namespace {

constexpr Duration kLook = milliseconds(200);  // at the processes while nothing comes
constexpr Duration kEndPatience = std::chrono::seconds(15);

std::string Replaced(std::string word, const std::string& what, const std::string& by) {
  if (const size_t at = word.find(what); at != std::string::npos) word.replace(at, what.size(), by);
  return word;
}

// Also of a zombie, which nobody has waited for yet.
bool ProcessEnded(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(stat, line)) return true;
  const size_t name = line.rfind(')');
  return name == std::string::npos || name + 2 >= line.size() || line[name + 2] == 'Z';
}

}  // namespace

Result<std::unique_ptr<RankProcesses>> RankProcesses::Start(RankCommand command,
                                                            const RankMessage& hello) {
  std::unique_ptr<RankProcesses> ranks(new RankProcesses(std::move(command)));
  const auto failed = [&](const Status& why) {
    return why.code() == Code::kInvalid
               ? why
               : Unavailable("the ranks of learner.command: " + why.message() + "; see " +
                             ranks->command_.log);
  };
  if (const Status opened = ranks->Open(); !opened.ok()) return failed(opened);
  auto answer = ranks->Exchange(hello, ranks->command_.join_patience);
  if (!answer.ok()) return failed(answer.status());
  ranks->about_ = std::move(*answer);
  const nlohmann::json& about = ranks->about_.words;
  const uint32_t came = about.value("ranks", 0u);
  if (came != ranks->command_.ranks) {
    return Invalid("learner.command starts " + std::to_string(came) +
                   " ranks, but learner.ranks is " + std::to_string(ranks->command_.ranks));
  }
  char here[256] = {};
  gethostname(here, sizeof here - 1);
  const auto pids = about.value("pids", std::vector<int64_t>());
  const auto hosts = about.value("hosts", std::vector<std::string>());
  for (size_t i = 0; i < std::min(pids.size(), hosts.size()); ++i) {
    ranks->pids_.push_back(hosts[i] == here ? static_cast<pid_t>(pids[i]) : 0);
  }
  return ranks;
}

Status RankProcesses::Open() {
  std::string pattern = std::filesystem::temp_directory_path() / "tidemill-ranks-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) {
    return Unavailable("cannot make " + pattern + ": " + std::strerror(errno));
  }
  folder_ = pattern;
  struct sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = folder_ + "/socket";
  if (path.size() >= sizeof address.sun_path) return Unavailable(path + " is too long a name");
  std::copy(path.begin(), path.end(), address.sun_path);
  listener_ = Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener_ ||
      bind(listener_.get(), reinterpret_cast<struct sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener_.get(), 1) != 0) {
    return Unavailable("cannot listen at " + path + ": " + std::strerror(errno));
  }
  std::vector<std::string> words;
  for (const std::string& word : command_.words) {
    words.push_back(
        Replaced(Replaced(word, "{ranks}", std::to_string(command_.ranks)), "{socket}", path));
  }
  TM_ASSIGN_OR_RETURN(pid_, StartLoggedChild(words, command_.log));
  return AcceptWithin(command_.join_patience);
}

Status RankProcesses::AcceptWithin(Duration patience) {
  const Time until = std::chrono::steady_clock::now() + patience;
  while (std::chrono::steady_clock::now() < until) {
    struct pollfd waits = {.fd = listener_.get(), .events = POLLIN, .revents = 0};
    const int ready =
        poll(&waits, 1, static_cast<int>(std::chrono::duration_cast<milliseconds>(kLook).count()));
    if (ready > 0) {
      link_ = Fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (link_) return Ok();
    }
    TM_RETURN_IF_ERROR(Alive());
  }
  return Unavailable("rank 0 did not come in time");
}

Status RankProcesses::Alive() {
  for (size_t rank = 0; rank < pids_.size(); ++rank) {
    if (pids_[rank] > 0 && ProcessEnded(pids_[rank])) {
      return Unavailable("rank " + std::to_string(rank) + " (process " +
                         std::to_string(pids_[rank]) + ") ended");
    }
  }
  int how = 0;
  if (pid_ > 0 && waitpid(pid_, &how, WNOHANG) == pid_) {
    pid_ = 0;
    return Unavailable("their launcher " + HowItEnded(how));
  }
  return Ok();
}

// Every rank counts its parts in a file beside the socket: the last one holds the others up.
std::string RankProcesses::WhoHangs() const {
  std::vector<uint64_t> counts;
  for (uint32_t rank = 0; rank < command_.ranks; ++rank) {
    std::ifstream file(folder_ + "/rank-" + std::to_string(rank));
    uint64_t count = 0;
    if (!(file >> count)) return "";
    counts.push_back(count);
  }
  if (counts.empty()) return "";
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  if (*least == *most) return "";
  const auto rank = static_cast<size_t>(least - counts.begin());
  std::string who = "rank " + std::to_string(rank);
  if (rank < pids_.size() && pids_[rank] > 0) {
    who += " (process " + std::to_string(pids_[rank]) + ")";
  }
  return who;
}

Status RankProcesses::WaitFor(short events, Time until) {
  while (true) {
    struct pollfd waits = {.fd = link_.get(), .events = events, .revents = 0};
    const int ready =
        poll(&waits, 1, static_cast<int>(std::chrono::duration_cast<milliseconds>(kLook).count()));
    if (ready > 0) return Ok();
    TM_RETURN_IF_ERROR(Alive());
    if (std::chrono::steady_clock::now() >= until) {
      const std::string who = WhoHangs();
      return Unavailable((who.empty() ? "the ranks hang" : who + " hangs") +
                         ": no sign of life in time (learner.rank_timeout)");
    }
  }
}

Status RankProcesses::Send(std::string_view bytes, Duration patience) {
  while (!bytes.empty()) {
    const ssize_t sent = send(link_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      TM_RETURN_IF_ERROR(WaitFor(POLLOUT, std::chrono::steady_clock::now() + patience));
    } else if (errno != EINTR) {
      return Unavailable("the socket of rank 0 is closed");
    }
  }
  return Ok();
}

Result<std::string> RankProcesses::Receive(size_t bytes, Time& until, Duration patience) {
  std::string got(bytes, '\0');
  size_t at = 0;
  while (at < bytes) {
    const ssize_t n = recv(link_.get(), got.data() + at, bytes - at, 0);
    if (n > 0) {
      at += static_cast<size_t>(n);
      until = std::chrono::steady_clock::now() + patience;
    } else if (n < 0 && errno == EAGAIN) {
      TM_RETURN_IF_ERROR(WaitFor(POLLIN, until));
    } else if (n == 0 || errno != EINTR) {
      return Unavailable("rank 0 closed its socket");
    }
  }
  return got;
}

Result<RankMessage> RankProcesses::Exchange(const RankMessage& message, Duration patience) {
  TM_RETURN_IF_ERROR(Send(EncodeRankMessage(message), patience));
  Time until = std::chrono::steady_clock::now() + patience;
  while (true) {
    TM_ASSIGN_OR_RETURN(const std::string head, Receive(RankFrame::kBytes, until, patience));
    const auto malformed = [](const Status& why) {
      return Unavailable("rank 0 answers what is no message: " + why.message());
    };
    const auto frame = DecodeRankFrame(head);
    if (!frame.ok()) return malformed(frame.status());
    TM_ASSIGN_OR_RETURN(const std::string words, Receive(frame->words, until, patience));
    TM_ASSIGN_OR_RETURN(const std::string arrays, Receive(frame->arrays, until, patience));
    auto answer = DecodeRankMessage(words, arrays);
    if (!answer.ok()) return malformed(answer.status());
    if (answer->words.contains("progress")) continue;
    if (!answer->words.contains("refused")) return answer;
    return Invalid("the ranks refuse: " + answer->words["refused"].dump());
  }
}

Result<RankMessage> RankProcesses::Ask(const RankMessage& message) {
  if (lost_) return Unavailable("the ranks of fsdp2 are gone");
  auto answer = Exchange(message, command_.answer_patience);
  if (!answer.ok() && answer.status().code() == Code::kUnavailable) return Gone(answer.status());
  return answer;
}

// A closed socket is told before it is known whose process ended.
Status RankProcesses::Gone(const Status& why) {
  lost_ = true;
  Status reason = why;
  for (int i = 0; i < 10; ++i) {
    if (const Status alive = Alive(); !alive.ok()) {
      reason = alive;
      break;
    }
    std::this_thread::sleep_for(milliseconds(50));
  }
  End();
  return Unavailable("fsdp2: " + reason.message() + "; see " + command_.log);
}

void RankProcesses::End() {
  link_.Reset();
  if (pid_ > 0) kill(-pid_, SIGTERM);
  const Time until = std::chrono::steady_clock::now() + (lost_ ? milliseconds(500) : kEndPatience);
  while (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() >= until) {
      kill(-pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
      break;
    }
    std::this_thread::sleep_for(milliseconds(20));
  }
  pid_ = 0;
  // They are sessions of their own, which the launcher's group does not reach.
  for (const pid_t rank : pids_) {
    if (rank > 0 && !ProcessEnded(rank)) kill(rank, SIGKILL);
  }
  pids_.clear();
}

RankProcesses::~RankProcesses() {
  if (link_ && !lost_) (void)Send(EncodeRankMessage({.words = {{"verb", "bye"}}}), kLook);
  // By themselves, once they heard it.
  const Time until = std::chrono::steady_clock::now() + kEndPatience;
  while (link_ && !lost_ && Alive().ok() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(milliseconds(20));
  }
  End();
  std::error_code error;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, error);
}

}  // namespace tidemill
