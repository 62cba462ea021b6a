// tidemill tinker: model directories behind the Tinker API, to be trained by Python.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/wait_signal.h"
#include "gateway/api_keys.h"
#include "run/run_config.h"
#include "run/torch/tinker_host.h"

namespace tidemill {
namespace {

constexpr std::string_view kClientKeys = "tml-";  // the public client takes no others

struct TinkerArguments {
  std::vector<std::string> models;
  std::string folder = "tinker", new_key;
  TinkerConfig served;
  std::vector<std::string> sets;
};

int PrintTinkerKey(const std::string& name) {
  Tenant tenant;
  tenant.name = name;
  const Result<NewKey> made = MakeKey(tenant, kClientKeys);
  if (!made.ok()) return Wrong(made.status());
  std::fprintf(stderr,
               "The key for the client, TINKER_API_KEY (it is not shown again):\n  %s\n"
               "The line for the key file, on standard output:\n",
               made->key.c_str());
  std::printf("%s\n", made->line.c_str());
  return 0;
}

int ServeTinker(const TinkerArguments& arguments) {
  if (!arguments.new_key.empty()) return PrintTinkerKey(arguments.new_key);
  if (arguments.models.empty()) {
    return Wrong(Invalid("DIR is missing: a model directory whose adapters are trained"));
  }
  RunConfig config;
  Binder binder;
  BindRunConfig(config, binder);
  if (const Status loaded = binder.Load("", arguments.sets); !loaded.ok()) return Wrong(loaded);
  Result<TinkerOptions> options = TinkerOptionsFrom(arguments.served, arguments.folder);
  if (!options.ok()) return Wrong(options.status());
  BlockSignals();
  const auto host = TinkerHost::Start(arguments.models, config, std::move(*options));
  if (!host.ok()) return Fail(host.status());
  std::printf("%s\n", (*host)->url().c_str());
  std::fflush(stdout);
  WaitForSignal();
  return 0;
}

}  // namespace

void AddTinkerCommand(CLI::App& app, Exit& exit) {
  CLI::App* tinker = app.add_subcommand(
      "tinker", "Serve the Tinker API: Python trains LoRA adapters here; see docs/tinker.md");
  auto arguments = std::make_shared<TinkerArguments>();
  tinker->add_option("DIR", arguments->models,
                     "Hugging Face directories of the bases; NAME=DIR gives one a name of its own");
  tinker
      ->add_option("--folder", arguments->folder,
                   "Folder for models, checkpoints and what is needed to go on after a restart")
      ->capture_default_str();
  tinker
      ->add_option("--host", arguments->served.host,
                   "Listen address; outside loopback --keys is required")
      ->capture_default_str();
  tinker->add_option("--port", arguments->served.port, "Port; 0: any free port")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  tinker->add_option("--keys", arguments->served.keys, "File of API keys; see docs/gateway.md");
  tinker->add_option("--max-rank", arguments->served.max_rank, "Largest LoRA rank that is served")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  tinker->add_option("--new-key", arguments->new_key,
                     "Make an API key for this tenant, print its line and exit");
  AddSetOption(
      *tinker, arguments->sets,
      "Set a config key, a.b=c; may be repeated (model.device, threads, rollout.cache_mb)");
  tinker->callback([arguments, &exit] { exit.code = ServeTinker(*arguments); });
}

}  // namespace tidemill
