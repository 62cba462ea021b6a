#include "live/guard_desk.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/files.h"
#include "core/log.h"

namespace tidemill {
namespace {

using GuardJson = nlohmann::ordered_json;

}  // namespace

bool HasMalformedCall(const WireJson& message) {
  if (!message.is_object()) return false;
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return false;
  return std::any_of(calls->begin(), calls->end(), [](const WireJson& call) {
    if (!call.is_object()) return true;
    const auto function = call.find("function");
    if (function == call.end() || !function->is_object()) return true;
    const auto arguments = function->find("arguments");
    return arguments == function->end() || !arguments->is_object();
  });
}

bool EndsWithQuestion(const WireJson& message) {
  if (!message.is_object() || message.contains("tool_calls")) return false;
  const auto content = message.find("content");
  if (content == message.end() || !content->is_string()) return false;
  const std::string& text = content->get_ref<const std::string&>();
  const size_t last = text.find_last_not_of(" \t\r\n");
  return last != std::string::npos && text[last] == '?';
}

void GuardDesk::Set(const std::string& name, const std::string& why) {
  const auto it = alarms_.find(name);
  if (why.empty()) {
    if (it != alarms_.end()) {
      LogInfo("an alarm is off", {{"alarm", name}});
      alarms_.erase(it);
    }
  } else if (it == alarms_.end()) {
    LogWarn("an alarm is on", {{"alarm", name}, {"why", why}});
    alarms_[name] = {why, clock_.WallMs()};
  } else {
    it->second.why = why;
  }
  counters_.alarms = alarms_.size();
}

void GuardDesk::Take(const VersionEvent& event) {
  const auto* step = std::get_if<StepTrained>(&event);
  if (step == nullptr) return;
  MutexLock lock(mutex_);
  if (step->entropy) {
    const bool on = *step->entropy < options_.alarm_entropy;
    Set("entropy", on ? fmt::format("{:.4f} in the last step, below {:.4f}", *step->entropy,
                                    options_.alarm_entropy)
                      : "");
  }
  if (step->kl) {
    const bool on = options_.alarm_kl > 0 && *step->kl > options_.alarm_kl;
    Set("kl",
        on ? fmt::format("{:.4f} in the last step, above {:.4f}", *step->kl, options_.alarm_kl)
           : "");
  }
}

void GuardDesk::Answered(const RecordedTurn& turn) {
  MutexLock lock(mutex_);
  answers_.push_back({HasMalformedCall(turn.message), EndsWithQuestion(turn.message)});
  if (answers_.size() > kAnswers) answers_.pop_front();
  if (answers_.size() < kAnswersMin) return;
  const auto set = [&](const char* name, bool Seen::*of, double max,
                       const char* what) TM_REQUIRES(mutex_) {
    const auto count =
        std::count_if(answers_.begin(), answers_.end(), [&](const Seen& seen) { return seen.*of; });
    const double share = static_cast<double>(count) / static_cast<double>(answers_.size());
    Set(name, share > max ? fmt::format("{:.0f} % of the last {} answers {}, more than {:.0f} %",
                                        100 * share, answers_.size(), what, 100 * max)
                          : "");
  };
  set("malformed", &Seen::malformed, options_.alarm_malformed, "have a malformed call");
  set("questions", &Seen::question, options_.alarm_questions, "end with a question");
}

void GuardDesk::Tick() {
  if (file_.empty()) return;
  const std::string state = Json();
  if (state == written_) return;
  const Status status = WriteFileAtomically(file_, state + "\n");
  if (!status.ok()) LogOnce("guards", LogLevel::kWarn, status.message());
  written_ = state;
}

std::string GuardDesk::Json() const {
  GuardJson json = {{"alarms", GuardJson::array()}};
  if (quarantine_) json["quarantine"] = GuardJson::parse(quarantine_(), nullptr, false);
  MutexLock lock(mutex_);
  for (const auto& [name, alarm] : alarms_) {
    json["alarms"].push_back({{"name", name}, {"why", alarm.why}, {"since_ms", alarm.since_ms}});
  }
  return json.dump(-1, ' ', false, GuardJson::error_handler_t::replace);
}

}  // namespace tidemill
