#include "reward/staying_command.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/log.h"
#include "core/text.h"

namespace tidemill {
namespace {

using LineJson = nlohmann::ordered_json;

constexpr size_t kComplaintBytes = 2048;
constexpr size_t kUnknownShown = 200;
constexpr std::chrono::milliseconds kLeaveTime{1000};

// The question with its id in front, as one line.
std::string WithId(const std::string& question, uint64_t id) {
  LineJson json = {{"id", id}};
  const LineJson rest = LineJson::parse(question, nullptr, /*allow_exceptions=*/false);
  if (rest.is_object()) json.update(rest);
  return json.dump(-1, ' ', false, LineJson::error_handler_t::replace) + "\n";
}

}  // namespace

StayingCommand::StayingCommand(Options options, std::function<void(StayingAnswer)> done)
    : options_(std::move(options)),
      done_(std::move(done)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  TM_CHECK(wake_.get() >= 0, "no eventfd");
  thread_ = std::thread([this] { Run(); });
}

StayingCommand::~StayingCommand() {
  {
    MutexLock lock(mutex_);
    closing_ = true;
  }
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);
  thread_.join();
}

void StayingCommand::Ask(std::string question, uint64_t tag) {
  {
    MutexLock lock(mutex_);
    asked_.push_back({std::move(question), tag});
  }
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);
}

void StayingCommand::Run() {
  PipeSignalBlocked blocked;
  while (TakeNew()) {
    SendMore();
    Exchange();
    GiveUpLate();
  }
  Leave();
}

bool StayingCommand::TakeNew() {
  uint64_t count = 0;
  (void)!read(wake_.get(), &count, sizeof count);
  MutexLock lock(mutex_);
  for (Question& question : asked_) waiting_.push_back(std::move(question));
  asked_.clear();
  return !closing_;
}

// Questions that were open when the program ended go first, and alone.
void StayingCommand::SendMore() {
  while (!waiting_.empty()) {
    const bool alone = waiting_.front().alone;
    const bool other_alone = !open_.empty() && open_.begin()->second.question.alone;
    if (open_.size() >= options_.open_max || other_alone || (alone && !open_.empty())) return;
    if (!process_) {
      Result<CommandProcess> started = CommandProcess::Start(options_.command);
      if (!started.ok()) {
        Fail(waiting_.front(), started.status());
        waiting_.pop_front();
        continue;
      }
      process_.emplace(std::move(*started));
      to_write_.clear(), line_.clear(), errors_.clear();
    }
    const Moment now = std::chrono::steady_clock::now();
    if (open_.empty()) heard_ = now;
    const uint64_t id = next_id_++;
    to_write_ += WithId(waiting_.front().text, id);
    open_.emplace(id, Open{std::move(waiting_.front()), now + options_.limits.time});
    waiting_.pop_front();
  }
}

// Waits for the program, for a new question or for the next deadline.
void StayingCommand::Exchange() {
  int wait_ms = -1;
  const Moment now = std::chrono::steady_clock::now();
  for (const auto& [id, open] : open_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(open.deadline - now).count();
    const int ms = static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
    wait_ms = wait_ms < 0 ? ms : std::min(wait_ms, ms);
  }
  std::array<pollfd, 4> ready = {
      {{wake_.get(), POLLIN, 0},
       {process_ && !to_write_.empty() ? process_->in.get() : -1, POLLOUT, 0},
       {process_ ? process_->out.get() : -1, POLLIN, 0},
       {process_ ? process_->err.get() : -1, POLLIN, 0}}};
  if (poll(ready.data(), ready.size(), wait_ms) <= 0) return;
  if (ready[1].revents != 0) WriteSome();
  if (ready[3].revents != 0) {
    char buffer[4096];
    const ssize_t n = read(process_->err.get(), buffer, sizeof buffer);
    if (n > 0) errors_.append(buffer, static_cast<size_t>(n));
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) process_->err.Reset();
    if (errors_.size() > kComplaintBytes) errors_.erase(0, errors_.size() - kComplaintBytes);
  }
  if (ready[2].revents != 0) ReadAnswers();
}

// A program that reads no further has ended, or will: its output tells.
void StayingCommand::WriteSome() {
  const ssize_t n = write(process_->in.get(), to_write_.data(), to_write_.size());
  if (n > 0) to_write_.erase(0, static_cast<size_t>(n));
  if (n < 0 && errno != EAGAIN && errno != EINTR) to_write_.clear();
}

void StayingCommand::ReadAnswers() {
  char buffer[16384];
  const ssize_t n = read(process_->out.get(), buffer, sizeof buffer);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) return Over("it closed its output", /*by_itself=*/true);
  line_.append(buffer, static_cast<size_t>(n));
  for (size_t end; process_ && (end = line_.find('\n')) != std::string::npos;) {
    const std::string line = line_.substr(0, end);
    line_.erase(0, end + 1);
    if (line.size() <= options_.limits.output_bytes) OnLine(line);
  }
  if (line_.size() > options_.limits.output_bytes) {
    Over("it wrote more than " + std::to_string(options_.limits.output_bytes) +
             " bytes without the end of a line",
         /*by_itself=*/false);
  }
}

void StayingCommand::OnLine(const std::string& line) {
  heard_ = std::chrono::steady_clock::now();
  const LineJson json = LineJson::parse(line, nullptr, /*allow_exceptions=*/false);
  const bool has_id = json.is_object() && json.contains("id") && json["id"].is_number_unsigned();
  const auto open = has_id ? open_.find(json["id"].get<uint64_t>()) : open_.end();
  if (open == open_.end()) {
    LogEvery(std::chrono::minutes(1), "staying " + options_.command[0], LogLevel::kWarn,
             "a program wrote a line that answers no open question (each answer needs the "
             "question's \"id\")",
             {{"line", Beginning(line, kUnknownShown)}});
    return;
  }
  const uint64_t tag = open->second.question.tag;
  open_.erase(open);
  done_({tag, Ok(), line});
}

// One late answer is a failure of that question; one that says nothing at all hangs.
void StayingCommand::GiveUpLate() {
  const Moment now = std::chrono::steady_clock::now();
  const std::string late =
      "no answer within " + std::to_string(options_.limits.time.count()) + " ms";
  if (!open_.empty() && now - heard_ >= options_.limits.time)
    return Over(late, /*by_itself=*/false);
  for (auto it = open_.begin(); it != open_.end();) {
    if (it->second.deadline > now) {
      ++it;
      continue;
    }
    Fail(it->second.question, Timeout(late));
    it = open_.erase(it);
  }
}

void StayingCommand::Over(const std::string& why, bool by_itself) {
  // Whoever closes its output ends most likely: its own exit status says more than our signal.
  const bool ended = by_itself && Ended(std::chrono::milliseconds(200));
  char buffer[4096];
  for (ssize_t n; process_->err && (n = read(process_->err.get(), buffer, sizeof buffer)) > 0;)
    errors_.append(buffer, static_cast<size_t>(n));
  if (errors_.size() > kComplaintBytes) errors_.erase(0, errors_.size() - kComplaintBytes);
  const int status = process_->End();
  const std::string how =
      (ended ? HowCommandEnded(status) : why) + (errors_.empty() ? "" : ": " + errors_);
  process_.reset();
  // In the order they were asked, before those that were not asked yet.
  std::deque<Question> again;
  for (auto& [id, open] : open_) {
    if (open.question.alone || open_.size() == 1) {
      Fail(open.question, Unavailable(how));
    } else {
      open.question.alone = true;
      again.push_back(std::move(open.question));
    }
  }
  open_.clear();
  waiting_.insert(waiting_.begin(), std::make_move_iterator(again.begin()),
                  std::make_move_iterator(again.end()));
}

void StayingCommand::Fail(const Question& question, Status status) {
  done_({question.tag, std::move(status), {}});
}

void StayingCommand::Leave() {
  if (!process_) return;
  process_->in.Reset();
  (void)Ended(kLeaveTime);
  process_.reset();
}

bool StayingCommand::Ended(std::chrono::milliseconds limit) const {
  const Moment end = std::chrono::steady_clock::now() + limit;
  siginfo_t info = {};
  while (waitid(P_PID, static_cast<id_t>(process_->pid()), &info, WEXITED | WNOHANG | WNOWAIT) ==
             0 &&
         info.si_pid == 0) {
    if (std::chrono::steady_clock::now() >= end) return false;
    poll(nullptr, 0, 2);
  }
  return true;
}

}  // namespace tidemill
