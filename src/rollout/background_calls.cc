#include "rollout/background_calls.h"

#include <fmt/format.h>

#include <algorithm>

#include "rollout/tree_merge.h"

namespace tidemill {
namespace {

int64_t LimitMs(Duration limit) {
  return std::chrono::duration_cast<milliseconds>(limit).count();
}

size_t BytesOf(const v1::Tree& tree) {
  size_t bytes = 0;
  for (const v1::File& file : tree.files()) bytes += file.path().size() + file.content().size();
  return bytes;
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

Status BackgroundCalls::Room(int64_t now_ms) const {
  if (running_ >= limits_.jobs) {
    return Full(
        fmt::format("refused: {} calls run in the background already, the most at once", running_));
  }
  if (UsedMs(now_ms) >= LimitMs(limits_.total)) {
    return Full(
        fmt::format("refused: the background calls of this episode have run for {} s, the "
                    "most they may",
                    LimitMs(limits_.total) / 1000));
  }
  return Ok();
}

BackgroundCalls::Job& BackgroundCalls::Start(OpenCall call, bool keeps_files, int turn, int index) {
  Job& job = jobs_.emplace_back();
  job.number = jobs_.size() - 1;
  job.handle = "b" + std::to_string(jobs_.size());
  job.call = std::move(call);
  job.keeps_files = keeps_files;
  job.turn = turn;
  job.index = index;
  if (keeps_files) job.before = job.call.request.tree();
  ++running_;
  return job;
}

BackgroundCalls::Job* BackgroundCalls::Of(const std::string& request_id) {
  const auto job = std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& one) {
    return one.state == Job::State::kRunning && one.call.request.request_id() == request_id;
  });
  return job == jobs_.end() ? nullptr : &*job;
}

bool BackgroundCalls::Waits(const std::string& request_id) const {
  return std::any_of(jobs_.begin(), jobs_.end(), [&](const Job& one) {
    return one.state == Job::State::kRunning && one.call.request.request_id() == request_id;
  });
}

const BackgroundCalls::Job* BackgroundCalls::Find(const std::string& handle) const {
  const auto job = std::find_if(jobs_.begin(), jobs_.end(),
                                [&](const Job& one) { return one.handle == handle; });
  return job == jobs_.end() ? nullptr : &*job;
}

void BackgroundCalls::End(Job& job, Job::State state) {
  TM_CHECK(job.state == Job::State::kRunning, "a background call ends once");
  job.state = state;
  job.call.request.clear_tree();  // it is not sent again
  --running_;
}

void BackgroundCalls::Finish(Job& job, const v1::ToolResult& result, int64_t now_ms) {
  TakeResult(job.call, result, now_ms);
  End(job, Job::State::kFinished);
  used_ms_ += std::max<int64_t>(0, now_ms - job.call.asked_ms);
  Hold(job);
  finished_.push_back(job.number);
}

void BackgroundCalls::Hold(Job& job) {
  v1::ToolResult& result = job.call.result;
  if (!job.keeps_files || job.call.skipped) result.clear_tree();
  result.clear_stdout_bytes();
  result.clear_stderr_bytes();
  const size_t room = limits_.held_bytes - std::min(limits_.held_bytes, held_bytes_);
  size_t bytes = result.text().size() + BytesOf(result.tree());
  if (bytes > room && result.has_tree()) {
    result.clear_tree();
    result.mutable_text()->append("\nits files were dropped: too much output waits for delivery");
    bytes = result.text().size();
  }
  if (bytes > room) {
    result.set_text("its output was dropped: too much of it waits for delivery");
    bytes = result.text().size();
  }
  job.held_bytes = bytes;
  held_bytes_ += bytes;
}

Status BackgroundCalls::Check(const std::vector<std::string>& handles) const {
  for (const std::string& handle : handles) {
    if (Find(handle) != nullptr) continue;
    return Invalid(jobs_.empty() ? fmt::format("there is no \"{}\": nothing was started in the "
                                               "background",
                                               handle)
                                 : fmt::format("there is no \"{}\"; the last that was started is "
                                               "\"{}\"",
                                               handle, jobs_.back().handle));
  }
  return Ok();
}

bool BackgroundCalls::Over(const std::vector<std::string>& handles, bool any) const {
  if (handles.empty()) return running_ == 0 || (any && !finished_.empty());
  const auto over = [this](const std::string& handle) {
    const Job* job = Find(handle);
    return job == nullptr || job->state != Job::State::kRunning;
  };
  return any ? std::any_of(handles.begin(), handles.end(), over)
             : std::all_of(handles.begin(), handles.end(), over);
}

std::string BackgroundCalls::Listing(const std::vector<std::string>& handles,
                                     int64_t now_ms) const {
  std::string text;
  for (const Job& job : jobs_) {
    const bool named = std::find(handles.begin(), handles.end(), job.handle) != handles.end();
    if (handles.empty() ? job.state == Job::State::kDelivered || job.state == Job::State::kCancelled
                        : !named) {
      continue;
    }
    std::string state;
    switch (job.state) {
      case Job::State::kRunning:
        state = fmt::format("runs, {} s so far",
                            std::max<int64_t>(0, now_ms - job.call.asked_ms) / 1000);
        break;
      case Job::State::kFinished:
        state = "finished, its result follows";
        break;
      case Job::State::kDelivered:
        state = "finished, its result was delivered";
        break;
      case Job::State::kCancelled:
        state = "cancelled";
        break;
    }
    text += fmt::format("{}{} ({}): {}", text.empty() ? "" : "\n", job.handle,
                        job.call.request.tool(), state);
  }
  return text.empty() ? "nothing runs in the background" : text;
}

std::vector<DeliveredResult> BackgroundCalls::Deliver(v1::Tree& tree) {
  std::vector<DeliveredResult> delivered;
  for (const size_t number : finished_) {
    Job& job = jobs_[number];
    v1::ToolResult& result = job.call.result;
    if (result.has_tree()) {
      const std::vector<std::string> conflicts = ConflictsOf(job.before, result.tree(), tree);
      if (conflicts.empty()) {
        MergeChanges(job.before, result.tree(), tree);
      } else {
        result.mutable_text()->append("\nits files were not kept: changed meanwhile: " +
                                      Joined(conflicts));
      }
      result.clear_tree();
    }
    job.before.Clear();
    job.state = Job::State::kDelivered;
    held_bytes_ -= job.held_bytes;
    delivered.push_back({job.handle, job.call.request.tool(), result.text()});
  }
  finished_.clear();
  return delivered;
}

std::vector<std::string> BackgroundCalls::Cancel(const std::vector<std::string>& handles) {
  std::vector<std::string> ids;
  for (Job& job : jobs_) {
    if (job.state != Job::State::kRunning) continue;
    if (std::find(handles.begin(), handles.end(), job.handle) == handles.end()) continue;
    ids.push_back(job.call.request.request_id());
    End(job, Job::State::kCancelled);
  }
  return ids;
}

std::vector<std::string> BackgroundCalls::CancelAll() {
  std::vector<std::string> handles;
  for (const Job& job : jobs_) handles.push_back(job.handle);
  return Cancel(handles);
}

std::vector<std::string> BackgroundCalls::Expire(int64_t now_ms) {
  std::vector<std::string> ids;
  if (UsedMs(now_ms) < LimitMs(limits_.total)) return ids;
  for (Job& job : jobs_) {
    if (job.state != Job::State::kRunning) continue;
    ids.push_back(job.call.request.request_id());
    v1::ToolResult ended;
    ended.set_outcome(v1::OUTCOME_TIMEOUT);
    ended.set_text(
        fmt::format("ended: the background calls of this episode have run for {} s, the "
                    "most they may",
                    LimitMs(limits_.total) / 1000));
    Finish(job, ended, now_ms);
  }
  return ids;
}

int64_t BackgroundCalls::UsedMs(int64_t now_ms) const {
  int64_t used = used_ms_;
  for (const Job& job : jobs_) {
    if (job.state != Job::State::kRunning) continue;
    used += std::max<int64_t>(0, now_ms - job.call.asked_ms);
  }
  return used;
}

std::optional<int64_t> BackgroundCalls::expires_ms(int64_t now_ms) const {
  if (running_ == 0) return std::nullopt;
  const int64_t left = std::max<int64_t>(0, LimitMs(limits_.total) - UsedMs(now_ms));
  const auto running = static_cast<int64_t>(running_);
  return now_ms + (left + running - 1) / running;
}

void BackgroundCalls::Record(v1::Trajectory& trajectory) const {
  for (const Job& job : jobs_) {
    v1::Turn& turn = *trajectory.mutable_turns(job.turn);
    if (job.index >= turn.calls_size()) continue;  // the episode ended before its turn did
    v1::ToolCall& record = *turn.mutable_calls(job.index);
    const std::string tree_hash = record.tree_hash();
    record = RecordOf(job.call);
    record.set_handle(job.handle);
    record.set_cancelled(job.state == Job::State::kCancelled);
    record.set_tree_hash(tree_hash);
  }
}

}  // namespace tidemill
