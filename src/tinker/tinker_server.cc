#include "tinker/tinker_server.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/files.h"
#include "core/log.h"
#include "core/secret.h"
#include "core/threads.h"
#include "http/access.h"

namespace tidemill {
namespace {

constexpr std::string_view kRoot = "/api/v1/";
constexpr size_t kOpsWaitingMax = 4096;  // of one model
constexpr std::chrono::seconds kLookEvery(1);
constexpr std::chrono::seconds kSweepEvery(30);

using Handler = Answered (*)(const TinkerAsk&);

// A path below the root: words, "{id}" for one word, and "{part}" for two.
struct RouteRow {
  std::string_view method;
  std::string_view path;
  Handler handler;
};

constexpr RouteRow kRoutes[] = {
    {"POST", "client/config", ClientConfig},
    {"POST", "client/dynamic_config", DynamicConfig},
    {"POST", "create_session", CreateSession},
    {"POST", "session_heartbeat", Heartbeat},
    {"POST", "sessions/{id}/finish", FinishSession},
    {"POST", "telemetry", TakeTelemetry},
    {"GET", "get_server_capabilities", Capabilities},
    {"GET", "sessions", ListSessions},
    {"GET", "sessions/{id}", ShowSession},
    {"POST", "create_model", CreateModel},
    {"POST", "load_weights", LoadWeights},
    {"POST", "get_info", GetInfo},
    {"POST", "forward_backward", ForwardBackward},
    {"POST", "forward", Forward},
    {"POST", "optim_step", OptimStep},
    {"POST", "save_weights", SaveWeights},
    {"POST", "save_weights_for_sampler", SaveForSampler},
    {"POST", "create_sampling_session", CreateSampler},
    {"GET", "samplers/{id}", ShowSampler},
    {"POST", "asample", Sample},
    {"GET", "training_runs", ListRuns},
    {"GET", "training_runs/{id}", ShowRun},
    {"GET", "training_runs/{id}/checkpoints", ListCheckpoints},
    {"GET", "checkpoints", ListCheckpoints},
    {"POST", "weights_info", WeightsInfo},
    {"DELETE", "training_runs/{id}/checkpoints/{part}", DeleteCheckpoint},
    {"PUT", "training_runs/{id}/checkpoints/{part}/ttl", SetLifetime},
    {"POST", "training_runs/{id}/checkpoints/{part}/publish", Publish},
    {"DELETE", "training_runs/{id}/checkpoints/{part}/publish", Unpublish},
};

std::string_view NextWord(std::string_view& path) {
  const size_t slash = path.find('/');
  const std::string_view word = path.substr(0, slash);
  path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
  return word;
}

// Takes the words of the path that the row's braces stand for.
bool Matches(std::string_view row, std::string_view path, TinkerAsk& ask) {
  ask.id.clear();
  ask.part.clear();
  while (!row.empty() && !path.empty()) {
    const std::string_view wanted = NextWord(row), word = NextWord(path);
    if (wanted == "{id}") {
      ask.id = word;
    } else if (wanted == "{part}") {
      ask.part = std::string(word) + "/" + std::string(NextWord(path));
    } else if (wanted != word) {
      return false;
    }
  }
  return row.empty() && path.empty();
}

HttpResponse Answer(TinkerAsk& ask) {
  const std::string_view path = std::string_view(ask.http.path).substr(kRoot.size());
  bool other_method = false;
  for (const RouteRow& row : kRoutes) {
    if (!Matches(row.path, path, ask)) continue;
    if (row.method != ask.http.method) {
      other_method = true;
      continue;
    }
    const Answered answered = row.handler(ask);
    if (!answered.ok()) return RefusalOf(answered.status());
    HttpResponse response;
    response.body = DumpWire(*answered);
    return response;
  }
  return RefusalOf(NotFound("this server has no " + ask.http.method + " " +
                            std::string(path.substr(0, 120)) +
                            (other_method ? "; the path is asked otherwise" : "")));
}

}  // namespace

TinkerServer::TinkerServer(TinkerOptions options, const Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      keys_(options_.keys, options_.key_file),
      queue_(kOpsWaitingMax),
      polls_(options_.limits.polls_max),
      samples_(NewSecret().substr(0, 8), options_.samples) {}

Result<std::unique_ptr<TinkerServer>> TinkerServer::Start(TinkerOptions options,
                                                          std::vector<ServedBase> bases,
                                                          ModelsPort& models, const Clock& clock) {
  if (options.keys.open() && !IsLoopback(options.host)) {
    return Invalid("listening on " + options.host +
                   " requires API keys, because other machines can reach it (use --keys, or listen "
                   "on 127.0.0.1)");
  }
  std::unique_ptr<TinkerServer> server(new TinkerServer(std::move(options), clock));
  TM_RETURN_IF_ERROR(MakeDirectories(server->options_.folder));
  TM_RETURN_IF_ERROR(server->LockFolder());
  TM_ASSIGN_OR_RETURN(server->books_, Books::Open(TinkerFolders(server->options_.folder).Books()));
  server->MakeParts(bases, models);
  TM_RETURN_IF_ERROR(server->Resume());
  TM_RETURN_IF_ERROR(server->Listen());
  return server;
}

Status TinkerServer::LockFolder() {
  const std::string path = options_.folder + "/lock";
  lock_ = Fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock_) return FileFailure(path, "cannot open", errno);
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) return Ok();
  return Unavailable(options_.folder + ": another server uses this folder");
}

void TinkerServer::MakeParts(const std::vector<ServedBase>& bases, ModelsPort& models) {
  WorkerOptions worker(TinkerFolders(options_.folder));
  std::map<std::string, SampleDesk*> desks;
  for (const ServedBase& served : bases) {
    worker.bases[served.base.name] = served.base;
    SampleDeskOptions desk = options_.desk;
    desk.on_done = [this](const std::string& promise, Result<std::string> answer) {
      OpResult result =
          answer.ok()
              ? OpResult{.done = true, .failed = false, .binary = true, .body = std::move(*answer)}
              : FailedOp(answer.status());
      samples_.Finish(promise, std::move(result), clock_.Now());
      TellWaiting(*parts_, promise);
    };
    desks_.push_back(
        std::make_unique<SampleDesk>(served.base, *served.engine, models, std::move(desk)));
    desks[served.base.name] = desks_.back().get();
    runner_.Add(*desks_.back());
  }
  worker.save_every = options_.save_every;
  worker.on_done = [this](const std::string& model, uint64_t seq) {
    TellWaiting(*parts_, PromiseOfOp(model, seq));
  };
  worker.on_inflight = [this](const ModelRow& model, std::shared_ptr<const Weights> weights) {
    const std::string folder = parts_->folders.Inflight(model.id);
    parts_->desks.at(model.base)->Renew({.name = folder, .folder = folder}, std::move(weights));
  };
  // Nothing is in the queue yet, so the worker asks for nothing before there are parts.
  const auto served = worker.bases;
  worker_ = std::make_unique<ModelWorker>(*books_, queue_, models, clock_, std::move(worker));
  parts_.reset(new TinkerParts{.limits = options_.limits,
                               .folders = TinkerFolders(options_.folder),
                               .bases = served,
                               .clock = clock_,
                               .books = *books_,
                               .queue = queue_,
                               .polls = polls_,
                               .samples = samples_,
                               .worker = *worker_,
                               .desks = std::move(desks)});
}

// What waited when the last server ended is done now, and silence counts from here.
Status TinkerServer::Resume() {
  TM_RETURN_IF_ERROR(books_->BeatAll(clock_.WallMs()));
  TM_ASSIGN_OR_RETURN(const auto models, books_->LivingModels());
  TM_RETURN_IF_ERROR(RemoveOrphans(models));  // before the worker makes new ones
  for (const ModelRow& model : models) {
    TM_ASSIGN_OR_RETURN(const Books::Waiting waiting, books_->WaitingOps(model.id));
    queue_.AddModel(model.id, waiting.next);
    for (const uint64_t seq : waiting.seqs) queue_.Add(model.id, seq);
  }
  return Ok();
}

// Folders that a kill left behind: of states that were not written down, of sessions that ended.
Status TinkerServer::RemoveOrphans(const std::vector<ModelRow>& living) {
  const TinkerFolders& folders = parts_->folders;
  std::set<std::string> known;
  for (const ModelRow& model : living) {
    known.insert(folders.State(model.id, model.saved_seq));
    known.insert(folders.Inflight(model.id));
    TM_ASSIGN_OR_RETURN(const auto samplers, books_->SamplersOf(model.session));
    for (const SamplerRow& sampler : samplers) known.insert(folders.Sampler(sampler.id));
  }
  for (const std::string& folder : {folders.States(), folders.Samplers()}) {
    std::error_code error;
    std::vector<std::string> there;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
      there.push_back(entry.path().string());
    }
    for (const std::string& path : there) {
      if (!known.contains(path)) std::filesystem::remove_all(path, error);
    }
  }
  return Ok();
}

Status TinkerServer::Listen() {
  TM_RETURN_IF_ERROR(runner_.Start());
  keeper_ = std::thread([this] { KeepHouse(); });
  HttpOptions http;
  http.address = options_.host;
  http.port = options_.port;
  http.own_access = true;
  http.changes = true;
  http.give_way = false;
  http.body_bytes_max = options_.limits.body_bytes_max;
  http.connections_max = options_.limits.polls_max + 512;
  http.pending_max = http.connections_max;
  http.workers = options_.workers;
  http.request_timeout = std::chrono::seconds(120);
  http.idle_timeout = std::chrono::seconds(120);
  http.write_timeout = std::chrono::seconds(60);
  HttpHandlers handlers;
  handlers.route = [this](const HttpRequest& head) { return Route(head); };
  handlers.serve = [this](HttpRequest request, std::unique_ptr<HttpReply> reply) {
    Serve(std::move(request), std::move(reply));
  };
  handlers.refuse = [](const HttpRequest&, int status, std::string_view why) {
    HttpResponse response;
    response.status = status;
    response.body = DumpWire({{"detail", std::string(why)}});
    return response;
  };
  handlers.answer = [](const HttpRequest&) { return RefusalOf(NotFound("no such path")); };
  TM_ASSIGN_OR_RETURN(http_, HttpServer::Start(http, std::move(handlers)));
  return Ok();
}

TinkerServer::~TinkerServer() {
  http_.reset();
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  stopped_.NotifyAll();
  if (keeper_.joinable()) keeper_.join();
  worker_.reset();
  (void)runner_.Stop();
}

HttpRoute TinkerServer::Route(const HttpRequest& head) {
  HttpRoute route;
  route.serve = true;
  if (!head.path.starts_with(kRoot)) {
    route.refusal = RefusalOf(NotFound("there is nothing at this path"));
    return route;
  }
  const auto tenant = keys_.Find(head.Header("authorization"), head.Header("x-api-key"));
  if (!tenant && head.path != "/api/v1/healthz") {
    HttpResponse refusal = RefusalOf(Invalid("no valid API key in X-API-Key"));
    refusal.status = 401;
    route.refusal = std::move(refusal);
    return route;
  }
  if (!tenant) return route;
  route.tenant = tenant->id;
  // Promises are asked for as often as it takes.
  if (head.path == "/api/v1/retrieve_future" || head.method != "POST") return route;
  Tenant counted = *tenant;
  counted.concurrency = 0;  // of samples that wait, not of requests
  Admission::Entry entry = admission_.Enter(counted, clock_.Now());
  if (!entry.place) {
    route.refusal = RefusalOf(Full(entry.why));
  } else {
    route.hold = std::move(entry.place);
  }
  return route;
}

void TinkerServer::Serve(HttpRequest request, std::unique_ptr<HttpReply> reply) {
  if (request.path == "/api/v1/healthz") {
    HttpResponse response;
    response.body = R"({"status":"ok"})";
    return reply->Send(std::move(response));
  }
  // Again: the key may have gone since the head was read.
  const auto tenant = keys_.Find(request.Header("authorization"), request.Header("x-api-key"));
  if (!tenant) return reply->Send(RefusalOf(NotFound("no such key any more")));
  TinkerAsk ask{.parts = *parts_, .tenant = *tenant, .http = request};
  if (request.path == "/api/v1/retrieve_future" && request.method == "POST") {
    return RetrieveFuture(ask, std::move(reply));
  }
  reply->Send(Answer(ask));
}

void TinkerServer::KeepHouse() {
  NameThisThread("tinker-keeper");
  Time next_sweep = clock_.Now();
  while (true) {
    {
      MutexLock lock(mutex_);
      if (stopped_.WaitFor(lock, kLookEvery, [this]() TM_REQUIRES(mutex_) { return stop_; }))
        return;
    }
    TellDue(*parts_);
    samples_.ForgetOld(clock_.Now());
    if (clock_.Now() < next_sweep) continue;
    next_sweep = clock_.Now() + kSweepEvery;
    if (const Status swept = SweepOld(); !swept.ok()) {
      LogWarn("what is old could not be removed; it is tried again", {{"error", swept.message()}});
    }
  }
}

Status TinkerServer::SweepOld() {
  const int64_t now = clock_.WallMs();
  const auto ms = [](Duration time) {
    return std::chrono::duration_cast<milliseconds>(time).count();
  };
  TM_ASSIGN_OR_RETURN(const auto expired, books_->ExpiredBy(now));
  for (const CheckpointRow& checkpoint : expired) {
    TM_RETURN_IF_ERROR(RemoveCheckpoint(*parts_, checkpoint));
  }
  TM_ASSIGN_OR_RETURN(const auto silent,
                      books_->SilentSince(now - ms(options_.limits.silence_max)));
  for (const SessionRow& session : silent) TM_RETURN_IF_ERROR(EndSession(*parts_, session.id));
  return books_->ForgetResults(now - ms(options_.limits.results_for));
}

}  // namespace tidemill
