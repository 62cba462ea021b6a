#include "dashboard/run_events.h"

#include <nlohmann/json.hpp>

#include "core/log.h"
#include "dashboard/run_api.h"
#include "http/http_server.h"
#include "observe/metrics_series.h"
#include "store/run_directory.h"

namespace tidemill {
namespace {

constexpr size_t kEventBytesAtOnce = size_t{1} << 20;
constexpr uint64_t kStateEvery = 4;  // polls

std::string StateOf(const std::string& folder, const std::string& name) {
  const auto runs = RunDirectory::List(folder);
  const auto directory = RunDirectory::OpenToRead(folder, name);
  if (!runs.ok() || !directory.ok()) return "gone";
  for (const RunInfo& info : *runs) {
    if (info.name == name) return RunState(info, *directory);
  }
  return "gone";
}

std::string KindOf(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("kind") || !json["kind"].is_string()) return "";
  const std::string kind = json["kind"].get<std::string>();
  // The name stands in a line of its own on the wire.
  for (const char c : kind) {
    if (c != '_' && c != '-' && !std::isalnum(static_cast<unsigned char>(c))) return "";
  }
  return kind;
}

std::shared_ptr<const std::string> StateEvent(const char* event, const std::string& run,
                                              const std::string& state, uint64_t offset) {
  const nlohmann::ordered_json json = {{"run", run}, {"state", state}, {"offset", offset}};
  return MakeEvent(event, std::to_string(offset), json.dump());
}

void SendLines(const TailChunk& chunk, const std::vector<std::shared_ptr<EventStream>>& streams) {
  for (size_t i = 0; i < chunk.lines.size(); ++i) {
    const std::string kind = KindOf(chunk.lines[i]);
    if (kind.empty()) continue;
    const auto frame = MakeEvent(kind, std::to_string(chunk.end_offsets[i]), chunk.lines[i]);
    for (const auto& stream : streams) (void)stream->Send(frame);
  }
}

}  // namespace

RunEvents::RunEvents(Options options) : options_(std::move(options)), thread_([this] { Run(); }) {}

RunEvents::~RunEvents() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  thread_.join();
}

Status RunEvents::Open(const HttpRequest& request, std::shared_ptr<EventStream> stream) {
  const std::string* name = request.Find("run");
  if (name == nullptr) return Invalid("parameter \"run\" is missing");
  TM_RETURN_IF_ERROR(CheckRunName(*name));
  TM_ASSIGN_OR_RETURN(const RunDirectory directory,
                      RunDirectory::OpenToRead(options_.folder, *name));
  HttpRequest given;
  given.query["after"] = request.last_event_id;
  TM_ASSIGN_OR_RETURN(std::optional<uint64_t> after, UintParameter(given, "after"));
  if (!after) {
    TM_ASSIGN_OR_RETURN(after, UintParameter(request, "after"));
  }
  MutexLock lock(mutex_);
  auto [it, is_new] = runs_.try_emplace(*name);
  Watched& run = it->second;
  if (is_new) {
    run.state = StateOf(options_.folder, *name);
    // From where the file ends now all watchers go together.
    const Result<uint64_t> end = LinesEnd(directory.metrics_path());
    if (!end.ok()) {
      runs_.erase(it);
      return end.status();
    }
    run.offset = *end;
  }
  Follow(*name, run);
  (void)stream->Send(StateEvent("hello", *name, run.state, run.offset));
  if (after && *after < run.offset && run.offset - *after <= options_.catch_up_bytes_max) {
    TM_ASSIGN_OR_RETURN(const TailChunk missed,
                        ReadTail(directory.metrics_path(), *after, run.offset - *after));
    SendLines(missed, {stream});
  } else if (after && *after != run.offset) {
    (void)stream->Send(StateEvent("reset", *name, run.state, run.offset));
  }
  run.streams.push_back(std::move(stream));
  wake_.NotifyAll();
  return Ok();
}

// Sends what was appended.
void RunEvents::Follow(const std::string& name, Watched& run) {
  const std::string path = options_.folder + "/" + name + "/metrics.jsonl";
  while (true) {
    const Result<TailChunk> chunk = ReadTail(path, run.offset, kEventBytesAtOnce);
    if (!chunk.ok()) {
      LogEvery(std::chrono::seconds(60), "events-" + name, LogLevel::kWarn,
               "cannot follow the metrics of a run", {{"error", chunk.status().message()}});
      return;
    }
    if (chunk->started_over) {
      for (const auto& stream : run.streams) {
        (void)stream->Send(StateEvent("reset", name, run.state, 0));
      }
    }
    SendLines(*chunk, run.streams);
    run.offset = chunk->next_offset;
    if (!chunk->more) return;
  }
}

void RunEvents::Poll() {
  MutexLock lock(mutex_);
  ++polls_;
  for (auto it = runs_.begin(); it != runs_.end();) {
    Watched& run = it->second;
    std::erase_if(run.streams, [](const auto& stream) { return stream->closed(); });
    if (run.streams.empty()) {
      it = runs_.erase(it);
      continue;
    }
    Follow(it->first, run);
    const std::string state =
        polls_ % kStateEvery == 0 ? StateOf(options_.folder, it->first) : run.state;
    if (state != run.state) {
      run.state = state;
      for (const auto& stream : run.streams) {
        (void)stream->Send(StateEvent("state", it->first, state, run.offset));
      }
    }
    ++it;
  }
}

void RunEvents::Run() {
  GiveWay();
  while (true) {
    {
      MutexLock lock(mutex_);
      if (runs_.empty()) {
        wake_.Wait(lock, [this]() TM_REQUIRES(mutex_) { return stopping_ || !runs_.empty(); });
      } else {
        wake_.WaitFor(lock, options_.poll_every,
                      [this]() TM_REQUIRES(mutex_) { return stopping_; });
      }
      if (stopping_) return;
    }
    Poll();
  }
}

}  // namespace tidemill
