#include "rollout/turn_calls.h"

#include <algorithm>
#include <utility>

#include "rollout/job_tools.h"

namespace tidemill {

void TurnCalls::Open() {
  Clear();
  open_ = true;
}

void TurnCalls::Clear() {
  calls_.clear();
  begin_ = end_ = 0;
  open_ = closed_early_ = false;
}

// What a background call writes comes later; the tools that look after such calls act in their
// place among the others.
bool TurnCalls::Alone(const TurnCall& call) const {
  const std::string& tool = call.request.tool();
  return IsJobTool(tool) || (!call.background && ChangesFiles(limits_, tool));
}

bool TurnCalls::MayBeginEarly(const TurnCall& call) const {
  return limits_.eager && open_ && !closed_early_ && calls_.size() < limits_.calls_per_turn &&
         !Alone(call) && !ChangesFiles(limits_, call.request.tool());
}

TurnCall* TurnCalls::FoundEarly(TurnCall call) {
  if (!MayBeginEarly(call)) {
    closed_early_ = true;
    return nullptr;
  }
  call.sent = true;
  calls_.push_back(std::move(call));
  return &calls_.back();
}

std::vector<std::string> TurnCalls::Settle(std::vector<TurnCall> calls) {
  std::vector<TurnCall> early = std::exchange(calls_, {});
  open_ = false;
  size_t kept = 0;
  for (; kept < std::min(early.size(), calls.size()); ++kept) {
    const v1::ToolRequest& a = early[kept].request;
    const v1::ToolRequest& b = calls[kept].request;
    if (a.tool() != b.tool() || a.arguments_json() != b.arguments_json() ||
        early[kept].background != calls[kept].background) {
      break;
    }
    calls[kept] = std::move(early[kept]);
  }
  calls_ = std::move(early);
  std::vector<std::string> gone = IdsOfRunning(kept);
  calls_ = std::move(calls);
  begin_ = end_ = 0;
  return gone;
}

std::vector<std::string> TurnCalls::TakeBack() {
  std::vector<std::string> gone = IdsOfRunning(0);
  Clear();
  return gone;
}

std::vector<std::string> TurnCalls::IdsOfRunning(size_t from) const {
  std::vector<std::string> ids;
  for (size_t i = from; i < calls_.size(); ++i) {
    if (calls_[i].sent && !calls_[i].done) ids.push_back(calls_[i].request.request_id());
  }
  return ids;
}

bool TurnCalls::NextWave() {
  begin_ = end_;
  if (begin_ == calls_.size()) return false;
  end_ = begin_ + 1;
  if (Alone(calls_[begin_])) return true;
  while (end_ < calls_.size() && !Alone(calls_[end_])) ++end_;
  return true;
}

bool TurnCalls::WaveDone() const {
  return std::all_of(calls_.begin() + static_cast<std::ptrdiff_t>(begin_),
                     calls_.begin() + static_cast<std::ptrdiff_t>(end_),
                     [](const TurnCall& call) { return call.done; });
}

TurnCall* TurnCalls::Of(const std::string& request_id) {
  const auto call = std::find_if(calls_.begin(), calls_.end(), [&](const TurnCall& one) {
    return !one.done && one.sent && one.request.request_id() == request_id;
  });
  return call == calls_.end() ? nullptr : &*call;
}

}  // namespace tidemill
