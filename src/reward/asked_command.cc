#include "reward/asked_command.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/text.h"

namespace tidemill {
namespace {

constexpr size_t kReportedMax = 2000;

// An answer that says why there is none.
void ReadError(StayingAnswer& answer) {
  if (!answer.status.ok()) return;
  const auto json = nlohmann::json::parse(answer.line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("error")) return;
  const auto& error = json["error"];
  const std::string text =
      error.is_string() ? error.get<std::string>()
                        : error.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  answer.status = Unavailable("it reported: " + Beginning(text, kReportedMax));
}

}  // namespace

AskedCommand::AskedCommand(StayingCommand::Options options, uint32_t retries)
    : retries_(retries),
      command_(std::move(options), [this](StayingAnswer answer) { Take(std::move(answer)); }) {}

void AskedCommand::Take(StayingAnswer answer) {
  ReadError(answer);
  MutexLock lock(mutex_);
  answers_[answer.tag] = std::move(answer);
  arrived_.NotifyAll();
}

uint64_t AskedCommand::Send(const std::string& question) {
  uint64_t tag = 0;
  {
    MutexLock lock(mutex_);
    tag = next_tag_++;
  }
  command_.Ask(question, tag);
  return tag;
}

StayingAnswer AskedCommand::Await(uint64_t tag) {
  MutexLock lock(mutex_);
  while (!answers_.contains(tag)) arrived_.Wait(lock);
  return std::move(answers_.extract(tag).mapped());
}

Result<std::vector<std::string>> AskedCommand::Ask(const std::vector<std::string>& questions) {
  std::vector<uint64_t> tags;
  for (const std::string& question : questions) tags.push_back(Send(question));
  std::vector<std::string> lines;
  Status failed;
  for (size_t i = 0; i < questions.size(); ++i) {
    StayingAnswer answer = Await(tags[i]);
    for (uint32_t again = 0; failed.ok() && !answer.status.ok() && again < retries_; ++again) {
      answer = Await(Send(questions[i]));
    }
    if (failed.ok()) failed = answer.status;
    lines.push_back(std::move(answer.line));
  }
  if (!failed.ok()) return failed;
  return lines;
}

}  // namespace tidemill
