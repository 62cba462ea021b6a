// One command in a box, from the start to the last byte of its output: drains the pipes all the
// time, watches the limits, and says in the end what happened and whose doing it was.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>

#include "tools/box/box.h"
#include "tools/box/box_host.h"
#include "tools/box/box_protocol.h"
#include "tools/box/capture.h"
#include "tools/box/cgroup.h"

namespace tidemill {
namespace {

using SteadyClock = std::chrono::steady_clock;

// How long the init may take to end everything before the box is killed from outside.
constexpr Duration kStopPatience = milliseconds(500);
// The same where the files are kept: a box that is killed takes them with it, and on a busy machine
// its end takes long.
constexpr Duration kKeepPatience = std::chrono::seconds(20);
constexpr Duration kDrainPatience = std::chrono::seconds(2);
// Bubblewrap and the init are in the cgroup too.
constexpr uint64_t kOwnProcesses = 2;

// Commands that run in boxes of this process.
std::atomic<size_t> running_commands{0};

class CountedCommand {
 public:
  CountedCommand() { running_commands.fetch_add(1); }
  ~CountedCommand() { running_commands.fetch_sub(1); }
  CountedCommand(const CountedCommand&) = delete;
  CountedCommand& operator=(const CountedCommand&) = delete;
};

// Writing to a command that ended raises SIGPIPE, which would end the executor.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutSigpipe() {
    if (sigismember(&before_, SIGPIPE) == 0) {
      const timespec now = {0, 0};
      while (sigtimedwait(&pipe_, nullptr, &now) > 0) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t pipe_, before_;
};

}  // namespace

class BoxRunner {
 public:
  BoxRunner(Box& box, const RunSpec& spec)
      : box_(box),
        spec_(spec),
        out_(spec.keep_bytes),
        err_(spec.keep_bytes),
        log_(0, spec.log_bytes) {}

  RunReport Run() {
    report_.degraded = box_.cgroup_ == nullptr;
    const Status started = Start();
    if (!started.ok()) return Ours(started.message());
    while (!ended_) Wait();
    DrainAll();
    Finish();
    return std::move(report_);
  }

 private:
  RunReport Ours(const std::string& cause) {
    box_.usable_ = false;
    report_.outcome = v1::OUTCOME_UNAVAILABLE;
    report_.cause = cause;
    return std::move(report_);
  }

  Status Start();
  Status OpenPipes(std::array<Fd, 3>* theirs);
  std::string Strings(BoxRun* run) const;
  void Wait();
  void ReadFrom(Fd& fd, Capture& capture, bool is_output);
  void WriteInput();
  void TakeDone();
  void CheckTime(Time now);
  void CheckCgroup();
  void Stop(v1::Outcome outcome);
  void DrainAll();
  void KeepPipes();
  void Finish();
  void Classify();

  Box& box_;
  const RunSpec& spec_;
  RunReport report_;
  Capture out_, err_;
  Capture log_;  // both, where somebody reads it
  Fd input_fd_, out_fd_, err_fd_;
  std::string input_;
  size_t input_at_ = 0;
  bool input_open_ = false;  // more may come; the pipe stays open when all is written
  Time started_, deadline_, next_tick_, kill_at_ = kNever;
  CgroupReading before_;
  v1::Outcome limit_ = v1::OUTCOME_UNSPECIFIED;  // why it was stopped
  bool ended_ = false;
  bool have_done_ = false;
  BoxDone done_ = {};
};

Status BoxRunner::OpenPipes(std::array<Fd, 3>* theirs) {
  const auto open_pipe = [](Fd* read_end, Fd* write_end) -> Status {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return Unavailable(fmt::format("pipe: {}", strerror(errno)));
    *read_end = Fd(ends[0]);
    *write_end = Fd(ends[1]);
    return Ok();
  };
  if (spec_.pipes != nullptr) {
    (*theirs)[0] = std::move(spec_.pipes->input);
    (*theirs)[1] = std::move(spec_.pipes->output);
    TM_RETURN_IF_ERROR(open_pipe(&err_fd_, &(*theirs)[2]));
    fcntl(err_fd_.get(), F_SETFL, O_NONBLOCK);
    return Ok();
  }
  const bool has_input = spec_.conversation != nullptr || !spec_.input.empty();
  if (has_input) {
    TM_RETURN_IF_ERROR(open_pipe(&(*theirs)[0], &input_fd_));
    fcntl(input_fd_.get(), F_SETFL, O_NONBLOCK);
  } else {
    (*theirs)[0] = Fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  TM_RETURN_IF_ERROR(open_pipe(&out_fd_, &(*theirs)[1]));
  TM_RETURN_IF_ERROR(open_pipe(&err_fd_, &(*theirs)[2]));
  fcntl(out_fd_.get(), F_SETFL, O_NONBLOCK);
  fcntl(err_fd_.get(), F_SETFL, O_NONBLOCK);
  return Ok();
}

std::string BoxRunner::Strings(BoxRun* run) const {
  std::string strings;
  const auto add = [&strings](const std::string& word) { strings.append(word.c_str()) += '\0'; };
  for (const std::string& word : spec_.command) add(word);
  std::vector<std::string> environment = box_.host_.environment();
  for (const std::string& word : spec_.environment) {  // the later one of a name counts
    const std::string name = word.substr(0, word.find('=') + 1);
    std::erase_if(environment, [&](const std::string& one) { return one.starts_with(name); });
    environment.push_back(word);
  }
  for (const std::string& word : environment) add(word);
  add(spec_.folder);
  add(spec_.last_file);
  run->argc = static_cast<uint32_t>(spec_.command.size());
  run->envc = static_cast<uint32_t>(environment.size());
  return strings;
}

Status BoxRunner::Start() {
  if (!box_.usable_ || !box_.configured_) return Unavailable("the box cannot be used again");
  if (spec_.command.empty()) return Unavailable("no command was given");
  std::array<Fd, 3> theirs;
  TM_RETURN_IF_ERROR(OpenPipes(&theirs));
  const BoxLimits& limits = spec_.limits;
  if (box_.cgroup_ != nullptr) {
    TM_RETURN_IF_ERROR(
        box_.cgroup_->SetLimits({limits.memory_bytes, limits.processes + kOwnProcesses}));
    box_.cgroup_->ResetPeak();
    before_ = box_.cgroup_->Read();
  }
  BoxRun run = {};
  if (box_.cgroup_ == nullptr) {
    run.watch = BOX_WATCH_ALL;
  } else if (!box_.cgroup_->counts_cpu()) {
    run.watch = BOX_WATCH_CPU;
  }
  run.cpu_us = static_cast<uint64_t>(limits.cpu.count() / 1000);
  run.memory_bytes = limits.memory_bytes;
  run.processes = limits.processes;
  run.file_bytes = box_.disk_bytes_;
  run.keep = spec_.leave_running ? 1 : 0;
  run.tick_ms = static_cast<uint32_t>(std::max<int64_t>(1, spec_.tick / milliseconds(1)));
  const std::string strings = Strings(&run);
  if (strings.size() > BOX_ARGS_MAX || run.argc + run.envc > 4000) {
    return Unavailable("the command line is too long");
  }
  box_.DrainLeftovers();
  box_.AddFrame(BOX_RUN, &run, sizeof run, {}, strings);
  const int fds[3] = {theirs[0].get(), theirs[1].get(), theirs[2].get()};
  TM_RETURN_IF_ERROR(box_.Flush(fds, 3));
  started_ = SteadyClock::now();
  deadline_ = started_ + limits.wall;
  next_tick_ = started_ + spec_.tick;
  if (spec_.conversation != nullptr) {
    input_open_ = spec_.conversation->Begin(&input_);
  } else {
    input_ = spec_.input;
  }
  WriteInput();
  return Ok();
}

void BoxRunner::WriteInput() {
  if (!input_fd_) return;
  const WithoutSigpipe guard;
  while (input_at_ < input_.size()) {
    const ssize_t wrote =
        write(input_fd_.get(), input_.data() + input_at_, input_.size() - input_at_);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0 && errno == EAGAIN) return;
    if (wrote <= 0) {  // nobody reads it any more
      input_fd_.Reset();
      return;
    }
    input_at_ += static_cast<size_t>(wrote);
  }
  input_.clear();
  input_at_ = 0;
  if (!input_open_) input_fd_.Reset();
}

// The output that is there now, up to a bound, so that a torrent cannot keep us from looking at the
// clock.
void BoxRunner::ReadFrom(Fd& fd, Capture& capture, bool is_output) {
  char bytes[64 * 1024];
  for (int round = 0; round < 8 && fd; ++round) {
    const ssize_t got = read(fd.get(), bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
      fd.Reset();
      return;
    }
    const std::string_view chunk(bytes, static_cast<size_t>(got));
    capture.Add(chunk);
    if (spec_.log_bytes > 0) log_.Add(chunk);
    if (out_.total() + err_.total() > spec_.limits.output_bytes) {
      if (!ended_) Stop(v1::OUTCOME_OUTPUT_LIMIT);
      if (limit_ == v1::OUTCOME_UNSPECIFIED) limit_ = v1::OUTCOME_OUTPUT_LIMIT;
    } else if (is_output && spec_.conversation != nullptr && !ended_) {
      input_open_ = spec_.conversation->Heard(chunk, &input_);
      WriteInput();
    }
    if (chunk.size() < sizeof bytes) return;
  }
}

void BoxRunner::TakeDone() {
  uint32_t type = BOX_DONE;
  std::string payload = std::exchange(box_.done_early_, {});
  const Status status = payload.empty() ? box_.ReadFrame(&type, &payload) : Ok();
  ended_ = true;
  if (!status.ok()) {
    report_.cause = status.message();
    return;
  }
  if (type != BOX_DONE || payload.size() != sizeof done_) {
    box_.usable_ = false;
    report_.cause = "the box's init sent an invalid message";
    return;
  }
  memcpy(&done_, payload.data(), sizeof done_);
  have_done_ = true;
}

// Everything in the box ends: asked for first, because the init then says how the CPU was shared;
// by force if that takes too long.
void BoxRunner::Stop(v1::Outcome outcome) {
  if (limit_ != v1::OUTCOME_UNSPECIFIED) return;
  limit_ = outcome;
  box_.AddFrame(BOX_STOP, nullptr, 0, {}, {});
  (void)box_.Flush(nullptr, 0);
  kill_at_ = SteadyClock::now() + (spec_.keep_files ? kKeepPatience : kStopPatience);
}

void BoxRunner::CheckCgroup() {
  if (box_.cgroup_ == nullptr) return;
  const CgroupReading now = box_.cgroup_->Read();
  if (now.oom_kills > before_.oom_kills) return Stop(v1::OUTCOME_MEMORY_LIMIT);
  if (now.refused_processes > before_.refused_processes) {
    return Stop(v1::OUTCOME_PROCESS_LIMIT);
  }
  if (now.cpu_ns - before_.cpu_ns > static_cast<uint64_t>(spec_.limits.cpu.count())) {
    Stop(v1::OUTCOME_CPU_LIMIT);
  }
}

void BoxRunner::CheckTime(Time now) {
  if (now >= kill_at_) {
    box_.Kill();
    kill_at_ = kNever;
  }
  if (limit_ != v1::OUTCOME_UNSPECIFIED) return;
  if (now >= deadline_) return Stop(v1::OUTCOME_TIMEOUT);
  if (now >= next_tick_) {
    next_tick_ = now + spec_.tick;
    box_.DrainLeftovers();
    CheckCgroup();
    const v1::Outcome wanted = spec_.watch ? spec_.watch() : v1::OUTCOME_UNSPECIFIED;
    if (wanted != v1::OUTCOME_UNSPECIFIED) Stop(wanted);
  }
}

void BoxRunner::Wait() {
  pollfd waits[5] = {{box_.socket_.get(), POLLIN, 0},
                     {out_fd_.get(), POLLIN, 0},
                     {err_fd_.get(), POLLIN, 0},
                     {input_at_ < input_.size() ? input_fd_.get() : -1, POLLOUT, 0},
                     {spec_.errands != nullptr ? spec_.errands->fd() : -1, POLLIN, 0}};
  Time until = kill_at_;
  if (limit_ == v1::OUTCOME_UNSPECIFIED) {
    const bool ticks = box_.cgroup_ != nullptr || spec_.watch;
    until = ticks ? std::min(deadline_, next_tick_) : deadline_;
  }
  const Duration left = until == kNever ? Duration(std::chrono::seconds(1))
                                        : std::max(until - SteadyClock::now(), Duration(0));
  const timespec timeout = {left.count() / 1'000'000'000, left.count() % 1'000'000'000};
  const int ready = ppoll(waits, 5, &timeout, nullptr);
  if (ready > 0) {
    if (waits[1].revents != 0) ReadFrom(out_fd_, out_, true);
    if (waits[2].revents != 0) ReadFrom(err_fd_, err_, false);
    if (waits[3].revents != 0) WriteInput();
    if (waits[0].revents != 0) return TakeDone();
    if (waits[4].revents != 0) {
      for (const BoxErrands::Errand& errand : spec_.errands->TakeAll()) errand(box_);
      if (!box_.done_early_.empty()) return TakeDone();
    }
  }
  CheckTime(SteadyClock::now());
}

// The writers are dead; what is left in the pipes ends. Where the init died with them the kernel
// may still be at it, so this waits a little.
void BoxRunner::DrainAll() {
  report_.wall_ms = Milliseconds(SteadyClock::now() - started_);
  input_fd_.Reset();
  if (spec_.leave_running && have_done_) return KeepPipes();
  const Time give_up = SteadyClock::now() + kDrainPatience;
  while ((out_fd_ || err_fd_) && SteadyClock::now() < give_up) {
    ReadFrom(out_fd_, out_, true);
    ReadFrom(err_fd_, err_, false);
    if (!out_fd_ && !err_fd_) break;
    pollfd waits[2] = {{out_fd_.get(), POLLIN, 0}, {err_fd_.get(), POLLIN, 0}};
    (void)poll(waits, 2, 100);
  }
}

// The command has ended, so what it wrote is in the pipes. Others may hold them open for long.
void BoxRunner::KeepPipes() {
  ReadFrom(out_fd_, out_, true);
  ReadFrom(err_fd_, err_, false);
  if (out_fd_) box_.leftovers_.push_back(std::move(out_fd_));
  if (err_fd_) box_.leftovers_.push_back(std::move(err_fd_));
}

void BoxRunner::Classify() {
  const CgroupReading now = box_.cgroup_ != nullptr ? box_.cgroup_->Read() : CgroupReading();
  const bool oom = now.oom_kills > before_.oom_kills;
  if (!have_done_ && limit_ == v1::OUTCOME_UNSPECIFIED && !oom) {
    report_.outcome = v1::OUTCOME_UNAVAILABLE;
    return;
  }
  report_.cause.clear();
  if (limit_ != v1::OUTCOME_UNSPECIFIED) {
    report_.outcome = limit_;
  } else if (oom || done_.limit == BOX_LIMIT_MEMORY) {
    report_.outcome = v1::OUTCOME_MEMORY_LIMIT;
  } else if (now.refused_processes > before_.refused_processes ||
             done_.limit == BOX_LIMIT_PROCESSES) {
    report_.outcome = v1::OUTCOME_PROCESS_LIMIT;
  } else if (done_.limit == BOX_LIMIT_DISK || (done_.signalled != 0 && done_.code == SIGXFSZ)) {
    report_.outcome = v1::OUTCOME_DISK_LIMIT;
  } else if (done_.stopped == 2) {
    report_.outcome = v1::OUTCOME_OK;
  } else if (done_.limit == BOX_LIMIT_CPU || (done_.signalled != 0 && done_.code == SIGXCPU) ||
             report_.cpu_ms > Milliseconds(spec_.limits.cpu)) {
    report_.outcome = v1::OUTCOME_CPU_LIMIT;
  } else if (done_.signalled != 0) {
    report_.outcome = v1::OUTCOME_SIGNAL;
  } else {
    report_.outcome = done_.code == 0 ? v1::OUTCOME_OK : v1::OUTCOME_FAILED;
  }
  report_.exit_code = done_.code;
  if (!have_done_) report_.exit_code = 128 + SIGKILL;
  if (have_done_ && done_.signalled != 0 && report_.outcome != v1::OUTCOME_SIGNAL) {
    report_.exit_code = 128 + done_.code;
  }
}

void BoxRunner::Finish() {
  report_.cpu_ms = static_cast<double>(done_.cpu_us) / 1000;
  report_.peak_memory_kb = done_.peak_rss_kb;
  if (box_.cgroup_ != nullptr) {
    const CgroupReading now = box_.cgroup_->Read();
    report_.peak_memory_kb = now.peak_memory_bytes / 1024;
    if (box_.cgroup_->counts_cpu()) {
      report_.cpu_ms = static_cast<double>(now.cpu_ns - before_.cpu_ns) / 1e6;
    }
  }
  report_.truncated = out_.truncated() || err_.truncated();
  report_.out = out_.Text();
  report_.err = err_.Text();
  report_.log = log_.Text();
  report_.log_total = log_.total();
  Classify();
  if (report_.outcome == v1::OUTCOME_OUTPUT_LIMIT) report_.truncated = true;
  const bool finished = report_.outcome == v1::OUTCOME_OK ||
                        report_.outcome == v1::OUTCOME_FAILED ||
                        report_.outcome == v1::OUTCOME_SIGNAL;
  const bool interrupted =
      spec_.leave_running && have_done_ &&
      (report_.outcome == v1::OUTCOME_TIMEOUT || report_.outcome == v1::OUTCOME_OUTPUT_LIMIT);
  const bool kept = spec_.keep_files && have_done_;
  if (!finished && !interrupted && !kept) box_.usable_ = false;
  const Duration wall = std::min<Duration>(spec_.limits.wall, SteadyClock::now() - started_);
  report_.starved =
      report_.outcome == v1::OUTCOME_TIMEOUT &&
      WasStarved({.cpu_us = done_.stop_cpu_us,
                  .waited_us = done_.stop_waited_us,
                  .wall = wall,
                  .cores = box_.host_.cores(),
                  .sharing = spec_.sharing ? spec_.sharing() : running_commands.load()});
}

RunReport Box::Run(const RunSpec& spec) {
  const CountedCommand counted;
  return BoxRunner(*this, spec).Run();
}

}  // namespace tidemill
