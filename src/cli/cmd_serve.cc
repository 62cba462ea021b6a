// tidemill serve: a model behind the OpenAI and Anthropic APIs.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/wait_signal.h"
#include "dashboard/dashboard.h"
#include "gateway/api_keys.h"
#include "run/run_config.h"
#include "run/run_dashboard.h"
#include "run/served_model.h"
#include "run/torch/policy_server.h"

namespace tidemill {
namespace {

constexpr uint16_t kServePort = 8000;
constexpr uint32_t kUsualLoras = 8;
constexpr Duration kDrainPatience = std::chrono::seconds(20);

struct ServeArguments {
  std::string model, base, adapter, host, keys, access_log, new_key, consent = "store";
  ServeUse use;
  std::vector<std::string> cors, modules;
  bool enable_lora = false;
  bool log_requests = false;
  std::optional<uint32_t> context, running;
  uint16_t port = kServePort;
  std::optional<uint16_t> dashboard;
  bool strict_model = false;
  double rate = 0;
  uint32_t concurrency = 0;
  bool metrics = false;
  std::vector<std::string> sets;
};

int PrintNewKey(const ServeArguments& arguments) {
  const Result<Consent> consent = ParseConsent(arguments.consent);
  if (!consent.ok()) return Wrong(consent.status());
  Tenant tenant;
  tenant.name = arguments.new_key;
  tenant.consent = *consent;
  tenant.requests_per_minute = arguments.rate;
  tenant.concurrency = arguments.concurrency;
  tenant.metrics = arguments.metrics;
  const Result<NewKey> made = MakeKey(tenant);
  if (!made.ok()) return Wrong(made.status());
  std::fprintf(stderr,
               "The key for the client (it is not shown again):\n  %s\n"
               "The line for the key file, on standard output:\n",
               made->key.c_str());
  std::printf("%s\n", made->line.c_str());
  return 0;
}

// The page with the gateway's figures, and the run's where sessions are recorded; none: not asked.
Result<std::unique_ptr<RunServer>> ShowFigures(const ServeArguments& arguments, RunConfig config,
                                               const PolicyServer& server) {
  if (!arguments.dashboard) return std::unique_ptr<RunServer>();
  config.dashboard.port = *arguments.dashboard;
  ServeOptions options;
  TM_ASSIGN_OR_RETURN(options.http, DashboardOptions(config));
  options.api.folder = arguments.use.record.folder;
  options.api.default_run = arguments.use.record.run;
  options.api.default_config_toml = DefaultConfigToml();
  options.api.gateway = [&server] { return server.FiguresJson(); };
  TM_ASSIGN_OR_RETURN(auto shown, ServeRuns(options));
  std::fprintf(stderr, "dashboard: %s\n", shown->url().c_str());
  return shown;
}

// What the words say goes before what --set says.
void Apply(const ServeArguments& arguments, RunConfig& config) {
  if (!arguments.adapter.empty()) config.model.adapter = arguments.adapter;
  if (!arguments.host.empty()) config.gateway.host = arguments.host;
  if (!arguments.keys.empty()) config.gateway.keys = arguments.keys;
  if (!arguments.access_log.empty()) config.gateway.access_log = arguments.access_log;
  if (arguments.log_requests && config.gateway.access_log.empty()) config.gateway.access_log = "-";
  if (!arguments.cors.empty()) config.gateway.cors = arguments.cors;
  if (arguments.context) config.rollout.max_context = *arguments.context;
  if (arguments.running) config.gateway.max_running = *arguments.running;
  config.gateway.strict_model |= arguments.strict_model;
  config.gateway.port = arguments.port;
}

// "NAME=PATH" each. Without a number there are as many places as names, with --enable-lora eight.
Result<ServeAdapters> AdaptersFrom(const ServeArguments& arguments) {
  ServeAdapters adapters = arguments.use.adapters;
  for (const std::string& module : arguments.modules) {
    const size_t equals = module.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == module.size()) {
      return Invalid("--lora-modules " + module + ": expected NAME=PATH");
    }
    adapters.modules.emplace_back(module.substr(0, equals), module.substr(equals + 1));
  }
  if (adapters.most > 0) return adapters;
  adapters.most = static_cast<uint32_t>(adapters.modules.size());
  if (arguments.enable_lora) adapters.most = std::max(adapters.most, kUsualLoras);
  return adapters;
}

int Serve(const ServeArguments& arguments) {
  if (!arguments.new_key.empty()) return PrintNewKey(arguments);
  if (arguments.model.empty()) {
    return Wrong(Invalid("MODEL is missing: a model directory, a .gguf file or a run to serve"));
  }
  RunConfig config;
  Binder binder;
  BindRunConfig(config, binder);
  if (const Status loaded = binder.Load("", arguments.sets); !loaded.ok()) return Wrong(loaded);
  const auto model = FindModelToServe(arguments.model, arguments.base);
  if (!model.ok()) return Fail(model.status());
  config.model.path = model->path;
  if (!model->adapter.empty()) config.model.adapter = model->adapter;
  Apply(arguments, config);
  ServeUse use = arguments.use;
  if (use.words.name.empty()) use.words.name = model->name;
  Result<ServeAdapters> adapters = AdaptersFrom(arguments);
  if (!adapters.ok()) return Wrong(adapters.status());
  use.adapters = std::move(*adapters);
  BlockSignals();
  const auto server = PolicyServer::Start(config, use);
  if (!server.ok()) return Fail(server.status());
  for (const std::string& warning : (*server)->warnings()) {
    std::fprintf(stderr, "tidemill: %s\n", warning.c_str());
  }
  for (const auto& [name, what] : (*server)->lines()) {
    std::fprintf(stderr, "%-11s %s\n", name.c_str(), what.c_str());
  }
  std::printf("%s\n", (*server)->url().c_str());
  std::fflush(stdout);
  const auto dashboard = ShowFigures(arguments, config, **server);
  if (!dashboard.ok()) return Fail(dashboard.status());
  WaitForSignal();
  std::fprintf(stderr, "tidemill: finishing the requests under way\n");
  (void)(*server)->Drain(kDrainPatience);
  return 0;
}

// Names that people know from other servers stand beside our own.
void AddModelWords(CLI::App& serve, ServeArguments& arguments) {
  serve.add_option("MODEL,--model", arguments.model,
                   "Hugging Face directory, .gguf file, or a run or a checkpoint of one");
  serve.add_option("--base-model", arguments.base,
                   "Model directory below a checkpoint that is a LoRA adapter");
  serve.add_option("--adapter", arguments.adapter, "LoRA adapter in PEFT's layout");
  serve.add_option(
      "--lora-modules", arguments.modules,
      "LoRA adapters beside the model, NAME=PATH each; a request's \"model\" names one");
  serve.add_flag("--enable-lora", arguments.enable_lora,
                 "Adapters may be loaded while it runs (POST /v1/load_lora_adapter)");
  serve.add_option("--max-loras", arguments.use.adapters.most,
                   "Most adapters at once; default: those of --lora-modules, 8 with --enable-lora");
  serve
      .add_option("--max-lora-rank", arguments.use.adapters.max_rank, "Largest rank of an adapter")
      ->capture_default_str();
  serve.add_option("--served-model-name,--alias", arguments.use.words.name,
                   "Name of the model for clients; default: that of its directory");
  serve.add_option("--chat-template", arguments.use.words.template_file,
                   "File with a Jinja chat template instead of the model's own");
  serve.add_option("--max-model-len,--ctx-size", arguments.context,
                   "Longest context in tokens (rollout.max_context)");
  serve.add_option("--max-num-seqs,--parallel", arguments.running,
                   "Answers generated at once (gateway.max_running)");
}

}  // namespace

void AddServeCommand(CLI::App& app, Exit& exit) {
  CLI::App* serve = app.add_subcommand(
      "serve", "Serve a model behind the OpenAI and Anthropic APIs; see docs/gateway.md");
  auto arguments = std::make_shared<ServeArguments>();
  AddModelWords(*serve, *arguments);
  serve->add_option("--host", arguments->host,
                    "Listen address (gateway.host); outside loopback keys are required");
  serve->add_option("--port", arguments->port, "Port; 0: any free port")->capture_default_str();
  CLI::Option* keys =
      serve->add_option("--keys", arguments->keys, "File of API keys (gateway.keys)");
  serve->add_option("--api-key", arguments->use.api_key, "The only API key")
      ->envname("TIDEMILL_API_KEY")
      ->excludes(keys);
  serve->add_option("--cors,--allowed-origins", arguments->cors,
                    "Origins whose pages may ask; *: all (gateway.cors)");
  serve->add_option("--run", arguments->use.record.run,
                    "Record sessions in this run; see docs/live.md. Without it nothing is stored");
  serve->add_option("--folder", arguments->use.record.folder, "Folder that holds the runs")
      ->capture_default_str();
  serve->add_option("--dashboard", arguments->dashboard,
                    "Port of a page with the gateway's figures; 0: any free port. Default: none");
  serve->add_flag("--strict-model", arguments->strict_model,
                  "Refuse requests that name another model (gateway.strict_model)");
  serve->add_option("--access-log", arguments->access_log,
                    "File for one JSON line per request; -: standard error (gateway.access_log)");
  serve->add_flag("--log-requests", arguments->log_requests, "The same as --access-log -");
  AddSetOption(*serve, arguments->sets, "Set a config key, a.b=c; may be repeated");
  CLI::Option* new_key = serve->add_option(
      "--new-key", arguments->new_key, "Make an API key for this tenant, print its line and exit");
  serve->add_option("--consent", arguments->consent, "With --new-key: train, store or none")
      ->needs(new_key)
      ->capture_default_str();
  serve->add_option("--rate", arguments->rate, "With --new-key: maximum requests per minute")
      ->needs(new_key);
  serve
      ->add_option("--concurrency", arguments->concurrency,
                   "With --new-key: maximum requests at once")
      ->needs(new_key);
  serve
      ->add_flag("--metrics", arguments->metrics,
                 "With --new-key: the key may read /metrics, which shows all tenants")
      ->needs(new_key);
  serve->callback([arguments, &exit] { exit.code = Serve(*arguments); });
}

}  // namespace tidemill
