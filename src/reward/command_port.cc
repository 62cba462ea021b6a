#include "reward/command_port.h"

#include <algorithm>
#include <chrono>

#include "core/log.h"

namespace tidemill {
namespace {

constexpr size_t kEventsMax = 1 << 20;

ScorerDone DoneOf(uint64_t tag, const Result<std::string>& text) {
  ScorerDone done;
  done.tag = tag;
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

Result<std::string> LineOf(StayingAnswer said) {
  if (!said.status.ok()) return said.status;
  return std::move(said.line);
}

}  // namespace

CommandPort::CommandPort(CommandPortOptions options)
    : options_(std::move(options)), events_(kEventsMax), queue_(kEventsMax) {
  for (const std::string& name : options_.stays) {
    const auto found = options_.commands.find(name);
    if (found == options_.commands.end()) continue;
    staying_[name] = std::make_unique<StayingCommand>(
        StayingCommand::Options{found->second, options_.limits,
                                std::max<size_t>(1, options_.slots)},
        [this, name](StayingAnswer said) {
          const uint64_t tag = said.tag;
          Tell(name, DoneOf(tag, LineOf(std::move(said))));
        });
  }
  if (options_.commands.size() == staying_.size()) return;
  for (size_t i = 0; i < std::max<size_t>(1, options_.slots); ++i)
    queue_.Start([this](const Job& job) { Tell(job.command, Answer(job)); });
}

void CommandPort::Submit(const std::string& command, std::string question, uint64_t tag) {
  if (!Knows(command)) {
    events_.Post({tag, Invalid("no command \"" + command + "\" is configured"), {}});
    return;
  }
  if (const auto staying = staying_.find(command); staying != staying_.end()) {
    staying->second->Ask(std::move(question), tag);
    return;
  }
  queue_.Put({command, std::move(question), tag});
}

void CommandPort::Tell(const std::string& command, ScorerDone done) {
  if (!done.status.ok()) {
    LogEvery(std::chrono::minutes(1), "scorer " + command, LogLevel::kWarn, "a scorer failed",
             {{"scorer", command}, {"why", done.status.message()}});
  }
  events_.Post(std::move(done));
}

ScorerDone CommandPort::Answer(const Job& job) const {
  return DoneOf(job.tag,
                RunCommand(options_.commands.at(job.command), job.question, options_.limits));
}

}  // namespace tidemill
