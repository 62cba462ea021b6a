#include "bench/bench_words.h"

#include <memory>
#include <utility>

#include "bench/bench_options.h"
#include "bench/memory_arms.h"
#include "cli/commands.h"

namespace tidemill {
namespace {

void AddOverlapWords(CLI::App& command, OverlapOptions& options, WaitingBenchOptions& waiting,
                     std::vector<std::string>& settings) {
  command.add_flag("--eager", waiting.eager,
                   "Instead: a scripted policy whose calls begin early or late (exit status 1: a "
                   "bound was missed)");
  command.add_flag("--background", waiting.background,
                   "Instead, or besides --eager: one whose calls go on in the background or are "
                   "waited for (likewise)");
  command.add_option("--scripted", waiting.episodes, "Episodes of a scripted policy")
      ->capture_default_str();
  options.folder = "build/overlap";
  command.add_option("--folder", options.folder, "Output folder; must not exist")
      ->capture_default_str();
  command.add_option("--model", options.model, "Policy to train; default: one is warmed up");
  command.add_option("--config", options.config, "TOML file that overrides the bench's config");
  command.add_option("--episodes", options.episodes, "Episodes per run")->capture_default_str();
  command.add_option("--seeds", options.seeds, "Seeds; one run per mode and seed (1,2,3)")
      ->delimiter(',');
  command.add_option("--mixes", options.mixes, "Tool latency to add: none,200ms,1s")
      ->delimiter(',');
  command.add_option("--modes", options.modes, "Modes to run: sync,one-step,async; default: all")
      ->delimiter(',');
  AddSetOption(command, options.sets, "Set a config key of the runs, a.b=c; may be repeated");
  command
      .add_option("--settings", settings,
                  "MODE:BATCH:IN_FLIGHT instead of the default sweep; several of a mode are swept "
                  "(sync:1024:1024,async:256:1024,async:256:2048)")
      ->delimiter(',');
}

void AddServedOptions(CLI::App& command, ServedBenchOptions& served) {
  command.add_option("--model", served.model,
                     "Model directory; default: random weights, 2 layers of width 64");
  command.add_option("--device", served.device, "cpu, cuda, cuda:N or auto")->capture_default_str();
  command.add_option("--threads", served.threads, "Threads of the engine")->capture_default_str();
}

void AddAgentsWords(CLI::App& command, AgentsBenchOptions& options) {
  command.add_option("--agent", options.agent, "The example agent")->capture_default_str();
  command.add_option("--tasks", options.tasks, "Tasks, two episodes each")->capture_default_str();
  command.add_option("--waiting", options.waiting, "Programs that wait for the model; 0: none")
      ->capture_default_str();
}

void AddGatewayWords(CLI::App& command, GatewayBenchOptions& options) {
  AddServedOptions(command, options.served);
  command.add_option("--streams", options.streams, "Streams at once")->capture_default_str();
  command.add_option("--tokens", options.tokens, "Tokens per answer")->capture_default_str();
  command.add_option("--prompt", options.prompt, "Tokens per prompt")->capture_default_str();
  command.add_option("--long-prompt", options.long_prompt, "Tokens of the long, cold prompts")
      ->capture_default_str();
  command.add_option("--requests", options.requests, "Requests for the time to the first token")
      ->capture_default_str();
}

void AddLoadWords(CLI::App& command, GatewayLoadOptions& options) {
  AddServedOptions(command, options.served);
  command.add_option("--streams", options.streams, "Streams at once")->capture_default_str();
  command.add_option("--requests", options.requests, "Requests altogether")->capture_default_str();
  command.add_option("--swaps", options.swaps, "Weight swaps meanwhile")->capture_default_str();
  command.add_option("--tokens", options.tokens, "Tokens per answer")->capture_default_str();
  command.add_option("--prompt", options.prompt, "Tokens per prompt")->capture_default_str();
}

void AddMemoryWords(CLI::App& command, MemoryBenchOptions& options, uint64_t& searched) {
  command.add_option("--model", options.model, "Policy warmed up on other projects");
  command.add_flag("--perfect-reader", options.perfect_reader,
                   "Instead of a policy a reader that makes no mistake: what retrieval can reach");
  command.add_option("--seeds", options.seeds, "Seeds (1,2,3)")->delimiter(',');
  command.add_option("--projects", options.projects, "Projects per seed")->capture_default_str();
  command.add_option("--before", options.before, "Tasks of a project before the change")
      ->capture_default_str();
  command.add_option("--after", options.after, "Tasks of a project after the change")
      ->capture_default_str();
  command.add_option("--held-out", options.held_out, "Held-out tasks per project")
      ->capture_default_str();
  command.add_option("--members", options.members, "Episodes per task")->capture_default_str();
  command.add_option("--cases", options.cases, "Cases shown at most")->capture_default_str();
  command.add_option("--arms", options.arms, "Arms to run; default: all")
      ->delimiter(';')
      ->check(CLI::IsMember(MemoryArms()));
  command.add_option("--threads", options.threads, "Threads of the engine")->capture_default_str();
  command
      .add_option("--key-layers", options.key_layers,
                  "Layers of the policy behind the hidden states; 0: half")
      ->capture_default_str();
  command.add_option("--search", searched, "Cases of the search measurement; 0: none")
      ->capture_default_str();
}

void AddBusWords(CLI::App& command, BusBenchOptions& options) {
  command.add_option("--bus", options.urls,
                     "redis://HOST:PORT/DB or amqp://HOST:PORT/VHOST, also several; default: the "
                     "embedded bus");
}

void AddPublishWords(CLI::App& command, PublishBenchOptions& options) {
  command
      .add_option("--ways", options.ways,
                  "all, or of process, shm, files, broker, delta (files, of which one number in a "
                  "hundred changes)")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--bus", options.bus, "redis://HOST:PORT/DB, for the way broker");
  command.add_option("--hidden-size", options.hidden_size, "Width of the model, a multiple of 64")
      ->capture_default_str();
  command.add_option("--layers", options.layers, "Its layers")->capture_default_str();
}

void AddDiskWords(CLI::App& command, DiskBenchOptions& options) {
  command.add_option("--config", options.config, "A config.json")->capture_default_str();
  command.add_option("--folder", options.folder, "Working folder; must not exist; removed")
      ->capture_default_str();
  command
      .add_option("--device", options.device,
                  "Device that is loaded to, and that the checkpoint is on: cpu, cuda, auto")
      ->capture_default_str();
  command.add_flag("--load-only", options.load_only, "Write no checkpoint");
}

void AddConstraintWords(CLI::App& command, ConstraintBenchOptions& options) {
  command.add_option("--model", options.model_dir,
                     "Model directory of the tokenizer; default: a vocabulary is made up");
  command.add_flag("--steps", options.steps,
                   "Also an engine's steps with 64 sequences, of a model like SmolLM2-135M");
}

}  // namespace

void AddBenchWords(CLI::App& app, std::function<void(const BenchWords& words)> run) {
  CLI::App* bench =
      app.add_subcommand("bench", "Measure one part against a peer or a limit in the same run");
  bench->require_subcommand(1);
  auto words = std::make_shared<BenchWords>();  // shared: the callbacks outlive this call
  const auto add = [&](const char* name, const char* text) -> CLI::App& {
    CLI::App* command = bench->add_subcommand(name, text);
    command->callback([words, run, name] {
      words->name = name;
      run(*words);
    });
    command->add_flag("--json", words->json, "Print one JSON object on standard output");
    return *command;
  };
  AddBusWords(add("bus", "Publish, receive and acknowledge; on brokers against their bare clients"),
              words->bus);
  add("store", "Synced trajectories per second against plain file writes")
      .add_option("--folder", words->store.directory, "Folder on the disk to measure");
  add("sandbox", "A request on a warm pool against a plain spawn of the same command");
  add("proof", "A verdict of the prover against the same answer in a box");
  add("learner", "Training against the matrix products it needs");
  add("allreduce", "All-reduce of a gradient over ranks against a plain copy");
  AddPublishWords(add("publish", "Publishing weights: first token and pause, against a plain copy"),
                  words->publish);
  add("engine", "Decoding against the same in plain libtorch calls");
  add("int8", "Decoding with weights in eight bits against float32, at 135M parameters");
  add("remote",
      "CPU of a streamed token from an inference server, with 256 turns in flight (exit status 1: "
      "more than 15 us)");
  AddOverlapWords(
      add("overlap",
          "Compare async, one-step and sync on the same work, with real and with slower tools"),
      words->overlap, words->waiting, words->settings);
  AddGatewayWords(
      add("gateway",
          "First token and tokens per second through HTTP against the bare engine; on a GPU with "
          "bounds (exit status 1: one was missed)"),
      words->gateway);
  AddLoadWords(
      add("gateway-load",
          "Many streams and requests while weights are swapped (exit status 1: a stream broke)"),
      words->load);
  AddAgentsWords(
      add("agents", "Episodes that are programs against the same by the built-in protocol"),
      words->agents);
  AddMemoryWords(
      add("memory",
          "Ways to use experience on projects, and how quickly cases are found (exit status 1: a "
          "bound was missed)"),
      words->memory, words->searched);
  AddDiskWords(add("disk",
                   "Draw, write and load a model and write its checkpoint, against reading its "
                   "files"),
               words->disk);
  add("tokenizer", "Encoding against splitting alone")
      .add_option("--model", words->tokenizer.model_dir,
                  "Model directory of the tokenizer; default: one is learnt");
  AddConstraintWords(
      add("constraint", "Compiling a schema, steps under it (exit status 1: a bound was missed)"),
      words->constraint);
}

}  // namespace tidemill
