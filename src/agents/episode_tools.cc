#include "agents/episode_tools.h"

#include <algorithm>
#include <utility>

#include "core/secret.h"
#include "core/topics.h"
#include "http/event_stream.h"
#include "rollout/tree_merge.h"
#include "tools/tool_table.h"
#include "tools/workspace.h"

namespace tidemill {
namespace {

constexpr size_t kSessionsMax = 64;  // of an episode
constexpr size_t kMcpResultsAtOnce = 256;
constexpr size_t kMcpToolWorkers = 1024;
constexpr const char* kInstructions =
    "The tools of the task. They see the files of the workspace as they are when they are called.";

QuestionOptions QuestionsOf(const EpisodeToolsOptions& options) {
  QuestionOptions questions;
  questions.inbox = InboxTopic(options.worker, "mcp");
  questions.most =
      options.episodes * (options.limits.calls_per_turn + size_t{options.limits.jobs.jobs});
  questions.patience = options.call_patience;
  questions.secret = options.secret;
  questions.limits = options.messages;
  return questions;
}

bool OfferedTo(const v1::Task& task, const ToolDescription& tool) {
  if (task.tools_size() == 0) return !task.no_tools() && tool.by_default;
  return std::find(task.tools().begin(), task.tools().end(), tool.name) != task.tools().end();
}

std::vector<McpTool> ToolsFor(const v1::Task& task, const std::vector<ToolDescription>& all) {
  std::vector<McpTool> offered;
  bool background = false;
  for (const ToolDescription& tool : all) {
    // Those that look after background calls are for whoever may have some.
    if (IsJobTool(tool.name) ? !background : !OfferedTo(task, tool)) continue;
    background = background || tool.background != BackgroundUse::kNever;
    offered.push_back({tool.name, tool.description, tool.parameters_json});
  }
  return offered;
}

v1::Tree StoredTree(const Workspace& workspace, BlobStore* blobs, Status* status) {
  Result<v1::Tree> stored = StoreWorkspace(workspace, blobs);
  *status = stored.status();
  return stored.ok() ? std::move(*stored) : v1::Tree();
}

Result<v1::Tree> FilesOf(Box& box, BlobStore* blobs) {
  const WorkspaceLimits most;
  TM_ASSIGN_OR_RETURN(v1::Tree tree,
                      box.Collect({.bytes_max = most.bytes_max, .files_max = most.files_max}));
  Workspace workspace;
  for (v1::File& file : *tree.mutable_files()) {
    workspace[file.path()] = {std::move(*file.mutable_content()), file.executable()};
  }
  Status status;
  v1::Tree stored = StoredTree(workspace, blobs, &status);
  TM_RETURN_IF_ERROR(status);
  return stored;
}

// Writes what differs; the files that could not be.
std::vector<std::string> WriteChanges(const Workspace& before, const Workspace& after, Box& box) {
  std::vector<std::string> kept;
  const auto edit = [&](const v1::File& file) {
    if (!box.Edit(file).ok()) kept.push_back(file.path());
  };
  for (const auto& [path, file] : after) {
    const auto old = before.find(path);
    if (old != before.end() && old->second.content == file.content &&
        old->second.executable == file.executable) {
      continue;
    }
    v1::File written;
    written.set_path(path);
    written.set_content(file.content);
    written.set_has_content(true);
    written.set_executable(file.executable);
    edit(written);
  }
  for (const auto& [path, file] : before) {
    if (after.count(path) != 0) continue;
    v1::File removed;
    removed.set_path(path);
    edit(removed);
  }
  return kept;
}

std::string EventOf(const RpcMessage& message) {
  return *MakeEvent("message", "", DumpRpc(message));
}

// The whole of an answer, in the way that was begun.
void SendTo(HttpReply& reply, bool streams, const RpcMessage& message) {
  if (!streams) return reply.Send(McpResponse(message));
  reply.Write(EventOf(message));
  reply.End();
}

}  // namespace

EpisodeTools::EpisodeTools(Bus& bus, const Clock& clock, EpisodeToolsOptions options,
                           EpisodeRecorder* recorder)
    : clock_(clock),
      options_(std::move(options)),
      recorder_(recorder),
      bus_(bus),
      outbox_(bus, options_.lease_period),
      questions_(bus, outbox_, QuestionsOf(options_)) {}

EpisodeTools::~EpisodeTools() = default;

void EpisodeTools::Attach(Waker& waker) {
  MutexLock lock(mutex_);
  questions_.Attach(waker);
  waker_ = &waker;
}

void EpisodeTools::Drain() {
  MutexLock lock(mutex_);
  draining_ = true;
  changed_.NotifyAll();
}

bool EpisodeTools::Drained() const {
  MutexLock lock(mutex_);
  return episodes_.empty() && outbox_.waiting() == 0;
}

void EpisodeTools::Open(const std::string& name, const Opening& opening) {
  std::vector<McpTool> offered = ToolsFor(opening.group->lease.task(), options_.tools);
  std::set<std::string> names;
  for (const McpTool& tool : offered) names.insert(tool.name);
  MutexLock lock(mutex_);
  episodes_.emplace(name, Underway{opening,
                                   AgentCalls(opening.group, opening.member, name, options_.limits,
                                              std::move(names)),
                                   std::move(offered)});
}

Status EpisodeTools::Look(const std::string& name) const {
  MutexLock lock(mutex_);
  const auto it = episodes_.find(name);
  return it == episodes_.end() ? Ok() : it->second.calls.failed();
}

EpisodeTools::Ending EpisodeTools::Close(const std::string& name, Box& box) {
  MutexLock lock(mutex_);
  Underway& episode = episodes_.at(name);
  episode.closing = true;
  while (!episode.asked.empty()) CancelAsked(name, episode, episode.asked.begin()->first);
  AgentCallActions actions;
  const bool awaits = options_.limits.awaits_at_end() && box.usable();
  episode.calls.End(awaits, clock_.WallMs(), actions);
  Act(name, episode, std::move(actions));
  const auto settled = [&]() TM_REQUIRES(mutex_) {
    return draining_ || episode.calls.idle() || !episode.calls.failed().ok();
  };
  while (!settled()) {
    changed_.Wait(lock, [&]() TM_REQUIRES(mutex_) { return episode.errands_wait || settled(); });
    episode.errands_wait = false;
    lock.Unlock();
    for (const BoxErrands::Errand& errand : episode.opening.errands->TakeAll()) errand(box);
    lock.Lock();
  }
  AgentCallActions last;
  episode.calls.End(/*awaits=*/false, clock_.WallMs(), last);
  Act(name, episode, std::move(last));
  if (const std::string& holder = episode.calls.box_holder(); !holder.empty()) {
    v1::ToolCancel over;
    *over.mutable_episode() = episode.calls.id();
    over.set_token(episode.calls.CancelToken());
    cancels_.push_back(std::move(over));
  }
  Ending ending{episode.calls.Record(), episode.calls.failed()};
  episodes_.erase(name);
  if (waker_ != nullptr) waker_->Wake();
  return ending;
}

HttpResponse EpisodeTools::Refusal(int status, const RpcJson& id, const std::string& why) {
  return McpResponse(RpcFailure(id, kRpcInvalidRequest, why), status);
}

void EpisodeTools::Answer(const Tenant& tenant, HttpRequest request,
                          std::unique_ptr<HttpReply> reply) {
  McpPost post = ReadMcpPost(request, {.bytes = size_t{4} << 20, .depth = 64});
  if (post.refusal) {
    ++counters_.refused;
    return reply->Send(std::move(*post.refusal));
  }
  MutexLock lock(mutex_);
  const auto it = episodes_.find(tenant.session);
  if (tenant.session.empty() || it == episodes_.end() || it->second.closing) {
    ++counters_.refused;
    return reply->Send(Refusal(404, post.message.id,
                               "tools are offered to agents' episodes; this "
                               "key is of none"));
  }
  Hear(it->first, it->second, std::move(post), std::move(reply));
  if (waker_ != nullptr) waker_->Wake();
}

void EpisodeTools::Hear(const std::string& name, Underway& episode, McpPost post,
                        std::unique_ptr<HttpReply> reply) {
  const RpcMessage& message = post.message;
  const bool first = message.kind == RpcMessage::Kind::kRequest && message.method == kMcpInitialize;
  if (!first && episode.sessions.count(post.session) == 0) {
    ++counters_.refused;
    const bool none = post.session.empty();
    return reply->Send(Refusal(none ? 400 : 404, message.id,
                               none ? "the header Mcp-Session-Id is missing: initialize first"
                                    : "there is no such session (any more): initialize again"));
  }
  if (post.ends_session) {
    EndSession(name, episode, post.session);
    return reply->Send({.status = 200, .content_type = {}, .body = {}, .headers = {}});
  }
  if (first) return Greet(episode, message, *reply);
  if (message.kind != RpcMessage::Kind::kRequest) {
    Note(name, episode, post);
    return reply->Send({.status = 202, .content_type = {}, .body = {}, .headers = {}});
  }
  if (message.method == kMcpCallTool) {
    return Call(name, episode, std::move(post), std::move(reply));
  }
  if (message.method == kMcpPing) {
    return reply->Send(McpResponse(RpcResult(message.id, RpcJson::object())));
  }
  if (message.method == kMcpListTools) {
    return reply->Send(McpResponse(RpcResult(message.id, McpToolList(episode.offered))));
  }
  reply->Send(McpResponse(
      RpcFailure(message.id, kRpcMethodNotFound, "there is no method \"" + message.method + "\"")));
}

void EpisodeTools::Greet(Underway& episode, const RpcMessage& message, HttpReply& reply) {
  if (episode.sessions.size() >= kSessionsMax) {
    ++counters_.refused;
    return reply.Send(Refusal(429, message.id,
                              "the episode has its " + std::to_string(kSessionsMax) + " sessions"));
  }
  const std::string session = NewSecret();
  episode.sessions.insert(session);
  ++counters_.sessions;
  HttpResponse response = McpResponse(
      RpcResult(message.id,
                McpServerGreeting(message.params, {"tidemill", options_.version}, kInstructions)));
  response.headers.emplace_back("Mcp-Session-Id", session);
  reply.Send(std::move(response));
}

void EpisodeTools::Call(const std::string& name, Underway& episode, McpPost post,
                        std::unique_ptr<HttpReply> reply) {
  Result<McpCall> call = ReadMcpCall(post.message.params);
  if (!call.ok()) {
    return reply->Send(
        McpResponse(RpcFailure(post.message.id, kRpcInvalidParams, call.status().message())));
  }
  if (!episode.calls.Offers(call->tool)) {
    return reply->Send(McpResponse(
        RpcFailure(post.message.id, kRpcInvalidParams, "there is no tool \"" + call->tool + "\"")));
  }
  ++counters_.calls;
  Asked asked{.session = post.session,
              .id = post.message.id,
              .progress_token = std::move(call->progress_token),
              .reply = std::move(reply),
              .streams = post.streams,
              .began = clock_.Now()};
  if (asked.streams) {
    HttpResponse head;
    head.content_type = "text/event-stream";
    head.headers.emplace_back("Cache-Control", "no-store");
    asked.reply->Begin(std::move(head));
  }
  AgentCallActions actions;
  const uint64_t number =
      episode.calls.Begin(call->tool, std::move(call->arguments_json), clock_.WallMs(), actions);
  episode.asked.emplace(number, std::move(asked));
  if (recorder_ != nullptr) recorder_->Enter(name);
  next_progress_ = std::min(next_progress_, clock_.Now() + options_.progress_every);
  Act(name, episode, std::move(actions));
}

void EpisodeTools::Note(const std::string& name, Underway& episode, const McpPost& post) {
  if (post.message.method != kMcpCancelled) return;
  const auto id = post.message.params.find("requestId");
  if (id == post.message.params.end()) return;
  for (const auto& [number, asked] : episode.asked) {
    if (asked.session != post.session || asked.id != *id) continue;
    return CancelAsked(name, episode, number);
  }
}

void EpisodeTools::EndSession(const std::string& name, Underway& episode,
                              const std::string& session) {
  std::vector<uint64_t> numbers;
  for (const auto& [number, asked] : episode.asked) {
    if (asked.session == session) numbers.push_back(number);
  }
  for (const uint64_t number : numbers) CancelAsked(name, episode, number);
  episode.sessions.erase(session);
}

// What is cancelled has no answer; its stream ends, and what waits for one message gets none.
void EpisodeTools::CancelAsked(const std::string& name, Underway& episode, uint64_t number) {
  auto node = episode.asked.extract(number);
  if (node.empty()) return;
  Asked& asked = node.mapped();
  if (asked.streams) {
    asked.reply->End();
  } else {
    asked.reply->Send({.status = 202, .content_type = {}, .body = {}, .headers = {}});
  }
  if (recorder_ != nullptr) recorder_->Leave(name);
  ++counters_.cancelled;
  AgentCallActions actions;
  episode.calls.Cancel(number, clock_.WallMs(), actions);
  Act(name, episode, std::move(actions));
}

void EpisodeTools::Act(const std::string& name, Underway& episode, AgentCallActions actions) {
  for (ToolCallOrder& order : actions.calls) {
    later_.Put(clock_.Now() + order.delay, {name, std::move(order.request)});
  }
  if (!actions.cancels.empty()) {
    v1::ToolCancel cancel;
    *cancel.mutable_episode() = episode.calls.id();
    cancel.set_token(episode.calls.CancelToken());
    for (std::string& id : actions.cancels) {
      *cancel.add_request_ids() = id;
      forgotten_.push_back(std::move(id));
    }
    cancels_.push_back(std::move(cancel));
  }
  for (const AgentCallActions::Answer& answer : actions.answers) Say(name, episode, answer);
  BlobStore* const blobs = episode.opening.blobs;
  for (const uint64_t call : actions.reads) {
    AddErrand(episode, [this, name, blobs, call](Box& box) { ReadFiles(name, blobs, call, box); });
  }
  for (AgentCallActions::Change& change : actions.changes) {
    AddErrand(episode, [this, name, blobs, change = std::move(change)](Box& box) {
      ChangeFiles(name, blobs, change, box);
    });
  }
  changed_.NotifyAll();
}

void EpisodeTools::Say(const std::string& name, Underway& episode,
                       const AgentCallActions::Answer& answer) {
  auto node = episode.asked.extract(answer.call);
  if (node.empty()) return;
  Asked& asked = node.mapped();
  SendTo(*asked.reply, asked.streams, RpcResult(asked.id, McpTexts(answer.texts, answer.failed)));
  if (recorder_ != nullptr) recorder_->Leave(name);
}

void EpisodeTools::AddErrand(Underway& episode, BoxErrands::Errand errand) {
  episode.opening.errands->Add(std::move(errand));
  episode.errands_wait = true;
}

void EpisodeTools::ReadFiles(const std::string& name, BlobStore* blobs, uint64_t call, Box& box) {
  Result<v1::Tree> files = FilesOf(box, blobs);
  MutexLock lock(mutex_);
  const auto it = episodes_.find(name);
  if (it == episodes_.end()) return;
  AgentCallActions actions;
  it->second.calls.OnFiles(call, std::move(files), clock_.WallMs(), actions);
  Act(name, it->second, std::move(actions));
  if (waker_ != nullptr) waker_->Wake();
}

void EpisodeTools::ChangeFiles(const std::string& name, BlobStore* blobs,
                               const AgentCallActions::Change& change, Box& box) {
  std::vector<std::string> kept = {"(the workspace cannot be read)"};
  const Result<v1::Tree> now = FilesOf(box, blobs);
  const Result<Workspace> before = LoadWorkspace(change.before, {}, blobs);
  const Result<Workspace> after = LoadWorkspace(change.after, {}, blobs);
  if (now.ok() && before.ok() && after.ok()) {
    kept = ConflictsOf(change.before, change.after, *now);
    if (kept.empty()) kept = WriteChanges(*before, *after, box);
  }
  MutexLock lock(mutex_);
  const auto it = episodes_.find(name);
  if (it == episodes_.end()) return;
  AgentCallActions actions;
  it->second.calls.OnChanged(change.call, kept, clock_.WallMs(), actions);
  Act(name, it->second, std::move(actions));
  if (waker_ != nullptr) waker_->Wake();
}

Time EpisodeTools::Step(Time now) {
  MutexLock lock(mutex_);
  TakeResults(now);
  Time wake = kNever;
  const int64_t wall_ms = clock_.WallMs();
  for (auto& [name, episode] : episodes_) {
    AgentCallActions actions;
    episode.calls.OnTime(wall_ms, actions);
    Act(name, episode, std::move(actions));
    if (const std::optional<int64_t> at = episode.calls.wakes_ms(wall_ms)) {
      wake = std::min<Time>(wake, now + milliseconds(std::max<int64_t>(1, *at - wall_ms)));
    }
  }
  SendDue(now);
  TellOfProgress(now);
  for (const v1::ToolCancel& cancel : std::exchange(cancels_, {})) TellTools(cancel);
  outbox_.Flush(now);
  wake = std::min({wake, later_.next(), next_progress_});
  if (questions_.open() > 0) wake = std::min(wake, now + milliseconds(100));
  if (outbox_.waiting() > 0) wake = std::min(wake, now + milliseconds(5));
  return wake;
}

void EpisodeTools::TakeResults(Time now) {
  for (auto& [name, status, result, lease] :
       questions_.TakeAnswers<v1::ToolResult>(kMcpResultsAtOnce)) {
    if (!status.ok()) {
      OnNoResult(name, result.request_id(), status.message());
      continue;
    }
    (void)bus_.Ack(lease);
    if (tool_workers_.size() < kMcpToolWorkers) tool_workers_.insert(result.worker());
    const auto it = episodes_.find(name);
    if (it == episodes_.end()) continue;
    AgentCallActions actions;
    it->second.calls.OnResult(result, clock_.WallMs(), actions);
    Act(name, it->second, std::move(actions));
  }
  for (const auto& [id, name] : questions_.TakeLost(now)) OnNoResult(name, id, "no answer in time");
  for (const std::string& id : std::exchange(forgotten_, {})) questions_.Forget(id);
}

void EpisodeTools::OnNoResult(const std::string& name, const std::string& id,
                              const std::string& why) {
  const auto it = episodes_.find(name);
  if (it == episodes_.end()) return;
  v1::ToolResult result;
  result.set_request_id(id);
  result.set_outcome(v1::OUTCOME_UNAVAILABLE);
  result.set_cause(why);
  AgentCallActions actions;
  it->second.calls.OnResult(result, clock_.WallMs(), actions);
  Act(name, it->second, std::move(actions));
}

void EpisodeTools::SendDue(Time now) {
  for (LaterCall& due : later_.TakeDue(now)) {
    const auto it = episodes_.find(due.episode);
    if (it == episodes_.end() || !it->second.calls.WaitsFor(due.request.request_id())) continue;
    std::string topic(ToolTopic(due.request.tool()));
    if (!due.request.box_holder().empty()) topic = ToolBoxTopic(due.request.box_holder());
    questions_.Ask(topic, std::move(due.request), due.episode, now);
  }
}

// Who asked for it hears how long its call has taken; other streams get a comment, which keeps the
// connection open.
void EpisodeTools::TellOfProgress(Time now) {
  if (now < next_progress_) return;
  bool any = false;
  for (auto& [name, episode] : episodes_) {
    for (auto& [number, asked] : episode.asked) {
      if (!asked.streams) continue;
      any = true;
      if (asked.progress_token.is_null()) {
        asked.reply->Write(": the call goes on\n\n");
        continue;
      }
      asked.reply->Write(EventOf(McpNote(kMcpProgress, {{"progressToken", asked.progress_token},
                                                        {"progress", Seconds(now - asked.began)},
                                                        {"message", "the call goes on"}})));
    }
  }
  next_progress_ = any ? now + options_.progress_every : kNever;
}

// To every tool worker we know of. Best effort: one that does not hear it runs a call in vain.
void EpisodeTools::TellTools(const v1::ToolCancel& cancel) {
  for (auto it = tool_workers_.begin(); it != tool_workers_.end();) {
    const Status sent = bus_.Publish(ToolCancelTopic(*it), cancel.SerializeAsString());
    it = sent.code() == Code::kNotFound ? tool_workers_.erase(it) : std::next(it);
  }
}

}  // namespace tidemill
