#include "reward/command_port.h"

#include <algorithm>

namespace tidemill {
namespace {

constexpr size_t kEventsMax = 1 << 20;

}  // namespace

CommandPort::CommandPort(CommandPortOptions options)
    : options_(std::move(options)), events_(kEventsMax) {
  if (options_.commands.empty()) return;
  for (size_t i = 0; i < std::max<size_t>(1, options_.slots); ++i)
    threads_.emplace_back([this] { Work(); });
}

CommandPort::~CommandPort() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
    queue_.clear();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void CommandPort::Submit(const std::string& command, std::string question, uint64_t tag) {
  if (!Knows(command)) {
    events_.Post({tag, Invalid("no command \"" + command + "\" is configured"), {}});
    return;
  }
  {
    std::lock_guard lock(mutex_);
    queue_.push_back({command, std::move(question), tag});
  }
  changed_.notify_one();
}

void CommandPort::Work() {
  while (true) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return closing_ || !queue_.empty(); });
      if (closing_) return;
      job = std::move(queue_.front());
      queue_.pop_front();
    }
    events_.Post(Answer(job));
  }
}

ScorerDone CommandPort::Answer(const Job& job) const {
  ScorerDone done;
  done.tag = job.tag;
  const std::vector<std::string>& command = options_.commands.at(job.command);
  Result<std::string> text = RunCommand(command, job.question, options_.limits);
  if (!text.ok()) {
    done.status = text.status();
    return done;
  }
  Result<CommandAnswer> answer = ParseAnswer(*text);
  if (answer.ok())
    done.answer = std::move(*answer);
  else
    done.status = answer.status();
  return done;
}

}  // namespace tidemill
