#include "run/torch/serving_host.h"

#include <algorithm>

#include "core/files.h"
#include "core/log.h"
#include "core/secret.h"
#include "core/version.h"
#include "gateway/plain_recorder.h"
#include "run/live_options.h"
#include "run/policies.h"
#include "run/torch/store_host.h"
#include "store/case_reader.h"

namespace tidemill {

Status ServingHost::Open(EnginePort* engine, StoreHost* store) {
  const RunConfig& config = process_.config;
  const RunRequest& request = process_.request;
  // An evaluation with a run's config leaves the run's port to the run.
  const bool evaluates = request.roles.learner && !request.train;
  const bool listens = config.gateway.port != 0 && !evaluates && request.metrics != nullptr;
  if (!listens && !config.asks_gateway()) return Ok();
  TM_ASSIGN_OR_RETURN(gateway_, GatewayHost::Read(config));
  GatewayUse use{
      .context_tokens = process_.start.max_context, .learning = request.train, .listens = listens};
  use.adapters = ServePolicies(*engine);
  const bool learns = store != nullptr && store->earlier_sessions();
  if (listens && config.live.release && store == nullptr) {
    return Invalid("live.release needs learner and gateway in one process: tidemill train");
  }
  if (listens && (learns || config.live.release)) {
    TM_ASSIGN_OR_RETURN(LiveOperator made, LiveOperator::Make(request.directory->path()));
    operator_.emplace(std::move(made));
    use.operate = [this](const HttpRequest& asked) { return operator_->Answer(asked); };
  }
  TM_ASSIGN_OR_RETURN(auto recorder, MakeRecorders(*engine, store));
  if (config.agent.used()) TM_RETURN_IF_ERROR(OpenTools());
  use.mcp = tools_.get();
  Metrics& metrics = request.metrics != nullptr ? *request.metrics : own_metrics_;
  TM_RETURN_IF_ERROR(
      gateway_->Start(config, use, std::move(recorder), *engine, process_.clock, metrics));
  Gateway& gateway = gateway_->gateway();
  process_.gateway = &gateway;
  process_.ports.gateway = &gateway.loop();
  if (operator_) {
    TM_RETURN_IF_ERROR(
        WriteFileAtomically(GatewayFile(request.directory->path()), gateway.url() + "\n"));
  }
  if (live_ != nullptr) {
    live_->OnErased([&gateway](const std::string& tenant) { gateway.ForgetPages(tenant); });
  }
  for (const std::string& warning : gateway_->warnings()) process_.warnings.push_back(warning);
  if (listens) LogInfo("the policy is served", {{"url", gateway.url()}});
  if (episodes_ == nullptr) return Ok();
  if (!config.environments.empty()) return OpenEnvironments();
  return OpenAgents(store != nullptr ? store->blobs() : nullptr);
}

// A request names a policy of the run by its "model". Null: the run has one policy.
ServedAdapters* ServingHost::ServePolicies(EnginePort& engine) {
  if (process_.config.policies.empty()) return nullptr;
  const auto load = [](const std::string& path) -> Result<std::shared_ptr<const Weights>> {
    return Unavailable(path + ": the policies of a run are those of its config");
  };
  adapters_ = std::make_unique<ServedAdapters>(
      engine, load,
      ServedAdapterOptions{.model = gateway_->policy().name, .most = 0, .by_clients = false});
  for (const RunPolicy& policy : PoliciesOf(process_.config)) {
    if (policy.id != PolicyId::kMain) adapters_->AddKnown(policy.name, policy.id);
  }
  return adapters_.get();
}

// Who is told of the gateway's turns, the innermost first; each passes on what is not its own. A
// new recorder is a class and a line here.
Result<std::unique_ptr<TurnRecorder>> ServingHost::MakeRecorders(EnginePort& engine,
                                                                 StoreHost* store) {
  const RunConfig& config = process_.config;
  const ServedPolicy& policy = gateway_->policy();
  std::unique_ptr<TurnRecorder> recorder = std::make_unique<PlainRecorder>(policy);
  if (store != nullptr && store->earlier_sessions()) {
    TM_ASSIGN_OR_RETURN(recorder, OpenLive(*store));
  }
  if (config.asks_gateway()) {
    const size_t at_once =
        config.environments.empty() ? config.agent.slots : config.rollout.max_in_flight;
    auto episodes =
        std::make_unique<EpisodeRecorder>(policy, process_.clock, at_once, std::move(recorder));
    process_.ports.episodes = episodes_ = episodes.get();
    recorder = std::move(episodes);
  }
  if (config.live.release && operator_) {
    OpenRelease(engine, *store);
    recorder = std::make_unique<ReleasedRecorder>(std::move(recorder), *release_);
  }
  if (operator_) {
    OpenGuards();
    recorder = std::make_unique<WatchedRecorder>(std::move(recorder), *guards_);
  }
  return recorder;
}

Result<std::unique_ptr<TurnRecorder>> ServingHost::OpenLive(StoreHost& store) {
  const RunConfig& config = process_.config;
  const std::string& folder = process_.request.directory->path();
  TM_ASSIGN_OR_RETURN(const LiveOptions options, LiveOptionsFrom(config));
  LiveLearning learning;
  learning.bus = process_.ports.bus;
  learning.signals = SignalOptionsFrom(config, store.train_tasks(), folder);
  learning.next_state = NextStateOptionsFrom(config);
  learning.next_state.secret = NewSecret();
  CaseShelf* const shelf = store.shelf();
  if (shelf != nullptr) learning.memory = LiveMemoryOf(*shelf);
  TM_ASSIGN_OR_RETURN(std::unique_ptr<LiveRun> live,
                      LiveRun::Join(store.store(), *store.earlier_sessions(), gateway_->policy(),
                                    process_.clock, options, learning));
  live->BelongsTo(folder);
  live->Add({"votes of judges", [this](const EraseNames& names) -> Result<uint64_t> {
               uint64_t erased = 0;
               for (const uint64_t session : names.sessions)
                 erased += process_.votes.EraseSession(JudgedSession(session));
               return erased;
             }});
  if (shelf != nullptr) {
    live->Add({"cases in memory", [this, shelf](const EraseNames& names) {
                 return shelf->Erase(names.sessions, [this] {
                   return ReadCases(process_.request.directory->db_path());
                 });
               }});
  }
  *store.earlier_sessions() = {};
  live_ = live.get();
  process_.ports.sessions = &live->loop();
  operator_->Add("/live/delete", DeleteDeed(*live_));
  operator_->Add("/live/quarantine", QuarantineDeed(*live_));
  return std::unique_ptr<TurnRecorder>(std::move(live));
}

// Most of the context is the client's, whatever the config says.
LiveMemory ServingHost::LiveMemoryOf(CaseShelf& shelf) const {
  const MemoryConfig& options = process_.config.memory;
  LiveMemory memory;
  memory.case_tokens = std::min<size_t>(options.case_tokens,
                                        static_cast<size_t>(gateway_->policy().context_tokens) / 4);
  memory.look = [&shelf, how = *RetrievalNamed(options.retrieval), cases = options.cases](
                    const std::string& tenant, const std::string& prompt) {
    return shelf.Look({.tenant = tenant, .prompt = prompt, .how = how, .cases = cases});
  };
  return memory;
}

void ServingHost::OpenRelease(EnginePort& engine, StoreHost& store) {
  ReleaseStart begin{.options = ReleaseOptionsFrom(process_.config),
                     .version = process_.start.version,
                     .step = process_.start.step,
                     .every_steps = process_.config.eval.every_steps,
                     .file = ReleaseFile(process_.request.directory->path()),
                     .earlier = store.earlier_release()};
  release_ = std::make_unique<ReleaseDesk>(begin, engine, store.NewClient(), process_.clock);
  process_.ports.release = release_.get();
  process_.ports.releases = release_.get();
  process_.ports.versions.push_back(release_.get());
  operator_->Add("/live/rollback", RollbackDeed(*release_));
  process_.watches.push_back(release_.get());
}

void ServingHost::OpenGuards() {
  guards_ = std::make_unique<GuardDesk>(
      process_.config.live, GuardsFile(process_.request.directory->path()), process_.clock);
  process_.ports.versions.push_back(guards_.get());
  if (live_ != nullptr) {
    guards_->ShowQuarantine([live = live_] { return live->QuarantineJson(); });
  }
  process_.watches.push_back(guards_.get());
}

Status ServingHost::OpenEnvironments() {
  EnvironmentRunnerOptions options;
  if (process_.request.directory != nullptr) {
    options.log_folder = process_.request.directory->path();
  }
  for (const EnvironmentConfig& one : process_.config.environments) {
    EnvironmentServers& servers = options.environments.emplace_back();
    servers.name = one.name;
    servers.standard = StandardNamed(one.standard);
    servers.mode = one.mode;
    TM_RETURN_IF_ERROR(
        CheckMode(*servers.standard, one.mode).WithContext("[[environment]] " + one.name));
    for (const std::string& url : one.urls)
      servers.urls.push_back(ParseEnvironmentUrl(url).value());
    servers.command = one.command;
    servers.servers = one.servers;
    servers.slots = one.slots;
    servers.timeout = one.timeout;
    servers.patience = one.patience;
  }
  TM_ASSIGN_OR_RETURN(environments_,
                      EnvironmentRunner::Create(std::move(options), gateway_->gateway(), *episodes_,
                                                process_.clock));
  process_.ports.agents = environments_.get();
  return Ok();
}

Status ServingHost::OpenTools() {
  const RunConfig& config = process_.config;
  const RolloutOptions rollout = RolloutOptionsFrom(config, process_.start);
  EpisodeToolsOptions options;
  options.worker = rollout.worker;
  options.version = FullVersion();
  options.secret = rollout.secret;
  options.limits = rollout.limits;
  TM_ASSIGN_OR_RETURN(ProtocolOptions offered, ProtocolOptionsFrom(config));
  options.tools = std::move(offered.tools);
  options.episodes = config.agent.slots;
  options.lease_period = rollout.lease_period;
  options.call_patience = rollout.call_patience;
  options.messages = rollout.messages;
  tools_ = std::make_unique<EpisodeTools>(*process_.ports.bus, process_.clock, std::move(options),
                                          episodes_);
  process_.ports.mcp = tools_.get();
  return Ok();
}

Status ServingHost::OpenAgents(BlobStore* blobs) {
  const RunConfig& config = process_.config;
  AgentRunnerOptions options;
  TM_ASSIGN_OR_RETURN(options.program, AgentProgramFrom(config.agent));
  options.slots = config.agent.slots;
  options.ready = std::min<size_t>(config.agent.slots, 4);
  options.roots = config.tools.roots;
  options.give_up = config.agent.give_up;
  options.learns = process_.request.train && !config.memory.only;
  options.boxes.own_user = config.tools.own_user;
  options.tools = tools_.get();
  TM_ASSIGN_OR_RETURN(agents_, AgentRunner::Create(std::move(options), gateway_->gateway(),
                                                   *episodes_, blobs, process_.clock));
  process_.ports.agents = agents_.get();
  return Ok();
}

ServingHost::~ServingHost() {
  if (process_.gateway == nullptr) return;
  Loop& answers = gateway_->gateway().loop();
  answers.Drain();
  (void)answers.Step(process_.clock.Now());
  process_.gateway = nullptr;
}

std::vector<const CounterSet*> ServingHost::counters() const {
  std::vector<const CounterSet*> sets;
  if (live_ != nullptr) sets.push_back(&live_->counters());
  if (tools_) sets.push_back(&tools_->counters());
  return sets;
}

void ServingHost::Sink(MetricSink& sink) const {
  if (gateway_) gateway_->Sink(sink);
  if (live_ != nullptr) live_->Sink(sink);
  if (release_) SinkCounters(release_->counters(), sink);
  if (guards_) SinkCounters(guards_->counters(), sink);
  if (!environments_) return;
  const EnvironmentRunner::Counts counts = environments_->counts();
  const auto count = [&](const char* name, const char* help, uint64_t value) {
    sink.Counter(name, help, static_cast<double>(value));
  };
  count("tidemill_environment_episodes_total", "Episodes that an environment paid for",
        counts.ended);
  count("tidemill_environment_waits_total", "Times an episode found no room in its environment",
        counts.waited);
  count("tidemill_environment_failures_total", "Attempts ended by a failing environment",
        counts.failed);
  count("tidemill_environment_bad_actions_total", "Actions that an environment did not accept",
        counts.bad_actions);
}

}  // namespace tidemill
