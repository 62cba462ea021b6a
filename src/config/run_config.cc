#include "config/run_config.h"
#include "config/agent_keys.h"
#include "config/credit_keys.h"
#include "config/judge_keys.h"
#include "config/live_learning.h"
#include "config/memory_keys.h"
#include "config/teacher_keys.h"

namespace tidemill {
namespace {

constexpr double kMany = 1e9;

void BindRunAndModel(RunConfig& c, Binder& b) {
  b.Add("run.name", &c.run.name, {.doc = "Name of the run and its folder; empty: date and time"});
  b.Add("run.folder", &c.run.folder, {.doc = "Folder that holds the runs"});
  b.Add("run.seed", &c.run.seed, {.doc = "Random seed for task order and sampling"});
  b.Add("run.mode", &c.run.mode,
        {.doc = "async: generation never waits for the learner; one-step: train on the previous "
                "batch; sync: generate, then train",
         .choices = {"async", "one-step", "sync"}});
  b.Add("run.steps", &c.run.steps, {.doc = "Number of learner steps", .min = 0, .max = kMany});
  b.Add("run.minutes", &c.run.minutes,
        {.doc = "Time limit of the run in minutes; 0: no limit", .min = 0});
  b.Add("model.path", &c.model.path, {.doc = "Hugging Face directory of the policy"});
  b.Add("model.init", &c.model.init,
        {.doc = "Weights to start from: files: those in model.path; random: new ones in the shape "
                "of its config.json, from run.seed, never written to it",
         .choices = {"files", "random"}});
  b.Add("model.tokenizer", &c.model.tokenizer,
        {.doc = "Directory with the tokenizer and chat template; empty: model.path"});
  b.Add("model.adapter", &c.model.adapter, {.doc = "PEFT adapter to start from; empty: none"});
  b.Add("model.protocol", &c.model.protocol,
        {.doc = "chat: the model's own chat template and tool calls; answer: the same without "
                "tools, the answer is one fenced block; compact: an answer and <|end|>, for small "
                "models; hermes: the earlier name of chat",
         .choices = {"chat", "compact", "answer", "hermes"}});
  b.Add("model.device", &c.model.device,
        {.doc = "Device of engine and learner: cpu, cuda, cuda:N; auto: a GPU if there is one"});
  b.Add("model.system_prompt", &c.model.system_prompt,
        {.doc = "System prompt; empty: chat has a built-in one, answer none"});
  b.Add("tasks.train", &c.tasks.train, {.doc = "Training tasks (JSONL)"});
  b.Add("tasks.eval", &c.tasks.eval, {.doc = "Held-out tasks (JSONL); empty: no evaluation"});
  b.Add("tasks.eval_limit", &c.tasks.eval_limit,
        {.doc = "Number of held-out tasks to use, from the start of the file; 0: all"});
  b.Add("tasks.weights", &c.tasks.weights,
        {.doc = "Sampling weight of tasks by tag, tag = weight", .min = 0, .max = 1000});
  b.Add("tasks.floor", &c.tasks.floor,
        {.doc = "Minimum probability of a task; it is drawn with probability 4p(1-p), where p is "
                "its newest pass rate; 1: always drawn",
         .min = 0,
         .max = 1});
}

void BindRollout(RunConfig& c, Binder& b) {
  auto& r = c.rollout;
  b.Add("rollout.group_size", &r.group_size,
        {.doc = "Episodes per group (G): attempts at one task that are compared with each other",
         .min = 1,
         .max = 1024});
  b.Add("rollout.groups_per_step", &r.groups_per_step,
        {.doc = "Groups per batch; batch size B = groups_per_step * group_size",
         .min = 1,
         .max = 65536});
  b.Add("rollout.max_in_flight", &r.max_in_flight,
        {.doc = "Maximum number of episodes in flight", .min = 1, .max = 65536});
  b.Add("rollout.max_turns", &r.max_turns,
        {.doc = "Maximum number of turns per episode", .min = 1, .max = 1000});
  b.Add("rollout.max_turn_tokens", &r.max_turn_tokens,
        {.doc = "Maximum number of tokens the model writes per turn", .min = 1, .max = 1 << 20});
  b.Add("rollout.max_context", &r.max_context,
        {.doc = "Maximum number of tokens per episode; 0: the model's context length"});
  b.Add("rollout.temperature", &r.temperature,
        {.doc = "Sampling temperature in training; the learner applies it too",
         .min = 0.01,
         .max = 10});
  b.Add("rollout.observation_tokens", &r.observation_tokens,
        {.doc = "Maximum number of tokens of tool results appended after a turn",
         .min = 1,
         .max = 1 << 20});
  b.Add("rollout.calls_per_turn", &r.calls_per_turn,
        {.doc = "Maximum number of tool calls per turn", .min = 1, .max = 64});
  b.Add("rollout.tool_retries", &r.tool_retries,
        {.doc = "Retries of a tool call after a system failure", .min = 0, .max = 20});
  b.Add("rollout.on_unavailable", &r.on_unavailable,
        {.doc = "After the last retry: stale keeps the episode out of training; skip tells the "
                "agent that the tool is unavailable",
         .choices = {"stale", "skip"}});
  b.Add("rollout.cache_on_swap", &r.cache_on_swap,
        {.doc = "Key-value cache on a weight update: keep it, or rebuild it under the new weights",
         .choices = {"keep", "rebuild"}});
  b.Add(
      "rollout.cache_mb", &r.cache_mb,
      {.doc =
           "Memory of the key-value cache; 0: 512 on a CPU, a quarter of the free memory on a GPU",
       .max = 1 << 24});
  b.Add("rollout.prefill_chunk", &r.prefill_chunk,
        {.doc = "Maximum number of prompt tokens per engine step, so that prefill does not stall "
                "decoding",
         .min = 1,
         .max = 65536});
  BindBackground(c.background, b);
  b.Add("engine.versions", &c.engine.versions,
        {.doc = "Number of weight versions held at once, so that a request can pin one; each needs "
                "the memory of a whole set; 1 on a GPU",
         .min = 1,
         .max = 64});
}

void BindReplay(RunConfig& c, Binder& b) {
  b.Add("staleness.max_steps", &c.staleness.max_steps,
        {.doc = "How many steps ahead of the learner episodes may be issued (η); 0: synchronous",
         .max = 1000});
  b.Add("staleness.hard_max_steps", &c.staleness.hard_max_steps,
        {.doc = "Maximum token age in steps; older tokens never enter a loss", .max = 100000});
  b.Add("staleness.max_minutes", &c.staleness.max_minutes,
        {.doc = "Maximum token age in minutes; 0: no limit", .min = 0});
  b.Add("staleness.too_old", &c.staleness.too_old,
        {.doc = "What to do with tokens that are too old: drop the trajectory or mask the tokens",
         .choices = {"drop", "mask"}});
  b.Add("replay.selection", &c.replay.selection,
        {.doc = "Groups for a batch: fifo: the oldest; uniform: at random; prioritized: by reward "
                "deviation",
         .choices = {"fifo", "uniform", "prioritized"}});
  b.Add("replay.priority_exponent", &c.replay.priority_exponent,
        {.doc = "prioritized: a group's weight is its reward deviation to this power",
         .min = 0,
         .max = 10});
  b.Add("replay.max_uses", &c.replay.max_uses,
        {.doc = "Maximum number of steps that may use a trajectory", .min = 1, .max = 1000});
  b.Add("replay.samples_per_insert", &c.replay.samples_per_insert,
        {.doc = "Maximum average number of uses per group; bounds both the learner and the gate; "
                "0: max_uses",
         .max = 1000});
  b.Add("replay.capacity", &c.replay.capacity,
        {.doc = "Maximum number of groups in the buffer; the most used are evicted first, then the "
                "oldest",
         .min = 1,
         .max = 1 << 20});
  b.Add("replay.min_groups", &c.replay.min_groups,
        {.doc = "Minimum number of groups in the buffer before a step", .max = 1 << 20});
  b.Add(
      "replay.rescore_groups", &c.replay.rescore_groups,
      {.doc = "Groups to score again when a scorer's version rises; highest reward deviation first",
       .max = 1 << 20});
  b.Add("replay.drop_zero_variance", &c.replay.drop_zero_variance,
        {.doc = "Drop groups whose rewards are all equal; they have no gradient"});
}

void BindLearner(RunConfig& c, Binder& b) {
  auto& l = c.learner;
  b.Add("learner.objective", &l.objective,
        {.doc = "Objective preset (docs/objectives.md): grpo, dapo, gspo, .."});
  b.Add("learner.options", &l.options,
        {.doc = "Changes to the preset, such as \"clip_high=0.28\""});
  b.Add("learner.learning_rate", &l.learning_rate,
        {.doc = "Peak learning rate of AdamW", .min = 0, .max = 1});
  b.Add("learner.warmup_steps", &l.warmup_steps,
        {.doc = "Learning-rate warm-up steps", .max = kMany});
  b.Add(
      "learner.decay", &l.decay,
      {.doc = "Learning-rate schedule after warm-up", .choices = {"constant", "cosine", "linear"}});
  b.Add("learner.weight_decay", &l.weight_decay,
        {.doc = "AdamW weight decay", .min = 0, .max = 10});
  b.Add("learner.beta1", &l.beta1, {.doc = "AdamW beta1", .min = 0, .max = 0.9999});
  b.Add("learner.beta2", &l.beta2, {.doc = "AdamW beta2", .min = 0, .max = 0.999999});
  b.Add("learner.max_grad_norm", &l.max_grad_norm,
        {.doc = "Gradient clipping norm; 0: no clipping", .min = 0});
  b.Add("learner.minibatches", &l.minibatches,
        {.doc = "Minibatches per batch; each is one optimizer update", .min = 1, .max = 1024});
  b.Add("learner.epochs", &l.epochs, {.doc = "Passes over each batch", .min = 1, .max = 100});
  b.Add("learner.token_budget", &l.token_budget,
        {.doc = "Maximum number of tokens per microbatch; affects memory, not the result; 0: up to "
                "16384, as many as fit by `tidemill plan`",
         .max = 1 << 26});
  b.Add("learner.recompute", &l.recompute,
        {.doc = "Activation checkpointing: less memory, a third more arithmetic, the same result"});
  b.Add("learner.moments", &l.moments,
        {.doc = "Optimizer moments: float32: 8 bytes per trained parameter; int8: 2 bytes, and on "
                "a GPU weights and gradients in bfloat16, weights with their low 16 bits beside "
                "them; auto: float32 where it fits (plan.md)",
         .choices = {"auto", "float32", "int8"}});
  b.Add("learner.optimizer_state", &l.optimizer_state,
        {.doc = "Where a GPU's learner keeps what only the optimizer needs: gpu; host: in pinned "
                "memory, 4.1 bytes per parameter that every update copies in and out (all weights, "
                "with int8 moments); auto: gpu where it fits (plan.md); no effect on a CPU",
         .choices = {"auto", "gpu", "host"}});
  b.Add(
      "learner.reserve_multiprocessors", &l.reserve_multiprocessors,
      {.doc = "Multiprocessors of the GPU that the learner leaves free for an engine on the same "
              "GPU, rounded up to what the GPU can set apart; 0: none; no effect on a CPU (gpu.md)",
       .max = 1024});
  b.Add("learner.checkpoint_every_steps", &l.checkpoint_every_steps,
        {.doc = "Steps between checkpoints; 0: only at the end", .max = kMany});
  b.Add("learner.keep_checkpoints", &l.keep_checkpoints,
        {.doc = "Number of recent checkpoints to keep; the one before the newest stays in any case",
         .min = 1,
         .max = 10000});
  b.Add("learner.lora_rank", &l.lora_rank,
        {.doc = "Train a LoRA adapter of this rank; 0: train all weights", .max = 4096});
  b.Add("learner.lora_alpha", &l.lora_alpha,
        {.doc = "LoRA alpha; the adapter's scale is alpha / rank", .min = 0});
}

void BindCommand(Binder& b, RunConfig::CommandKeys& c) {
  b.Add("name", &c.name, {.doc = "Tool name, as the model calls it", .required = true});
  b.Add("description", &c.description, {.doc = "Tool description for the model"});
  b.Add("command", &c.command,
        {.doc = "Command line; {x} is replaced by the call's argument x, always as one word",
         .min = 1,
         .required = true});
  b.Add("files", &c.files, {.doc = "Workspace files that enter the box; empty: all"});
  b.Add("parser", &c.parser,
        {.doc = "Format of the tool's output", .choices = {"text", "diagnostics", "tests"}});
  b.Add("changes", &c.changes, {.doc = "Keep the files the tool wrote as the new workspace"});
  b.Add("background", &c.background,
        {.doc = "Whether its calls go on in the background: never, where the agent asks for it, or "
                "always",
         .choices = {"never", "allowed", "always"}});
  b.Add("background_files", &c.background_files,
        {.doc = "Files that a background call writes: keep them where nothing it touches changed "
                "meanwhile; false: drop them"});
  b.Add("wall_ms", &c.wall_ms, {.doc = "0: inherit from [tools]"});
  b.Add("cpu_ms", &c.cpu_ms, {.doc = "0: inherit from [tools]"});
  b.Add("memory_mb", &c.memory_mb, {.doc = "0: inherit from [tools]"});
  b.Add("processes", &c.processes, {.doc = "0: inherit from [tools]"});
  b.Add("output_kb", &c.output_kb, {.doc = "0: inherit from [tools]"});
  b.Add("disk_mb", &c.disk_mb, {.doc = "0: inherit from [tools]"});
}

void BindReward(RunConfig& c, Binder& b) {
  b.Add("reward.weights", &c.reward.weights,
        {.doc = "Weights of the scorers: tests, compiled, lint, length, format, literal, review, "
                "proof, judge, command",
         .min = -1000,
         .max = 1000});
  b.Add(
      "reward.all_or_nothing", &c.reward.all_or_nothing,
      {.doc = "The tests scorer gives 1 if all tests pass, else 0; false: the share that passed"});
  b.Add("reward.lint_penalty", &c.reward.lint_penalty,
        {.doc = "Penalty of the lint scorer for each finding", .min = 0, .max = 1});
  b.Add("reward.turn_weight", &c.reward.turn_weight,
        {.doc = "Weight of a turn's gain in visible tests passed", .min = 0, .max = 100});
  b.Add("reward.turn_discount", &c.reward.turn_discount,
        {.doc = "Factor on the reward for every turn after the first", .min = 0, .max = 1});
  b.Add("reward.time_weight", &c.reward.time_weight,
        {.doc = "Taken from the reward for every second in which the agent waited for a tool and "
                "wrote nothing",
         .min = 0,
         .max = 1000});
  b.Add("reward.retries", &c.reward.retries,
        {.doc = "Retries of a scorer after a system failure", .max = 20});
  b.Add("reward.command", &c.reward.command,
        {.doc = "Program and arguments of the scorer \"command\": JSON in, JSON out"});
  b.Add("reward.command_version", &c.reward.command_version,
        {.doc = "Version of the command scorer, until an answer reports another",
         .min = 1,
         .max = kMany});
  b.Add("reward.command_timeout", &c.reward.command_timeout,
        {.doc = "Time limit of the command scorer or the judge", .min = 10, .max = 3.6e6});
  b.Add("reward.command_output_kb", &c.reward.command_output_kb,
        {.doc = "Maximum output of the command scorer per answer", .min = 1, .max = 65536});
  b.Add("reward.command_slots", &c.reward.command_slots,
        {.doc = "Number of scorer commands that run at once", .min = 1, .max = 1024});
  b.Add("reward.command_stays", &c.reward.command_stays,
        {.doc = "The command scorer, the judge or the prover (proof_command) is started once and "
                "answers one JSON object per line, matched by \"id\"; command_slots questions are "
                "open at once"});
  b.Add("reward.review_weights", &c.reward.review_weights,
        {.doc = "Weights of the review's sub-scores", .min = 0, .max = 1000});
  b.Add("reward.review_threshold", &c.reward.review_threshold,
        {.doc = "Sub-scores below this get a second, closer review", .min = 0, .max = 1});
  b.Add("reward.review_cpu_ms", &c.reward.review_cpu_ms,
        {.doc = "CPU time of the tests that earns full marks for performance; 0: that of the "
                "fastest correct answer so far",
         .min = 0});
  b.Add("reward.review_judge", &c.reward.review_judge,
        {.doc = "Program that gives the review's sub-scores; empty: built-in tools"});
  b.Add("reward.proof_command", &c.reward.proof_command,
        {.doc = "Program that answers for the scorer proof, cbmc for example; empty: the prover"});
}

void BindTools(RunConfig& c, Binder& b) {
  b.Add("tools.slots", &c.tools.slots,
        {.doc = "Number of tool calls that run at once; 0: derived from the number of cores",
         .max = 4096});
  b.Add("tools.cache", &c.tools.cache,
        {.doc = "Number of cached tool results; 0: no cache", .max = 1 << 24});
  b.Add(
      "tools.wait", &c.tools.wait,
      {.doc = "Artificial latency of tool calls, median, to test slow tools; 0: none", .max = 6e5});
  b.Add("tools.wait_tail", &c.tools.wait_tail,
        {.doc = "Artificial latency of tool calls, 99.9th percentile and maximum", .max = 6e5});
  b.Add("tools.wall_ms", &c.tools.wall_ms, {.doc = "Wall-clock limit of a command", .min = 1});
  b.Add("tools.cpu_ms", &c.tools.cpu_ms, {.doc = "CPU time limit of a command", .min = 1});
  b.Add("tools.memory_mb", &c.tools.memory_mb, {.doc = "Memory limit of a box", .min = 1});
  b.Add("tools.processes", &c.tools.processes,
        {.doc = "Maximum number of processes and threads in a box", .min = 1});
  b.Add("tools.output_kb", &c.tools.output_kb, {.doc = "Maximum output of a command", .min = 1});
  b.Add("tools.disk_mb", &c.tools.disk_mb,
        {.doc = "Size of the box's writable file system", .min = 1});
  b.Add(
      "tools.shells", &c.tools.shells,
      {.doc = "Maximum number of boxes of the tool bash, one per episode", .min = 1, .max = 4096});
  b.Add("tools.roots", &c.tools.roots,
        {.doc = "Folder of unpacked root file systems; empty: ~/.cache/tidemill/roots, for root "
                "/var/cache/tidemill/roots"});
  b.Add("tools.own_user", &c.tools.own_user,
        {.doc = "Where the executor is root and the machine has no users for boxes (a container "
                "without them), run boxes as the executor's own user; false: refuse to start"});
  b.Add("tools.interpret", &c.tools.interpret,
        {.doc = "Run the visible tests of the built-in family in an interpreter where that gives "
                "what a box gives; see verifiers.md"});
  b.AddTables("tools.command", &c.tools.command, BindCommand,
              {.doc = "Custom tools, one [[tools.command]] table each; see tools.md", .max = 64});
}

void BindRest(RunConfig& c, Binder& b) {
  b.Add("eval.samples", &c.eval.samples,
        {.doc = "Episodes per held-out task", .min = 1, .max = 1024});
  b.Add("eval.max_turns", &c.eval.max_turns,
        {.doc = "Maximum number of turns in evaluation; 0: as in training", .max = 1000});
  b.Add("eval.temperature", &c.eval.temperature,
        {.doc = "Sampling temperature in evaluation; 0: greedy", .min = 0, .max = 10});
  b.Add("eval.every_steps", &c.eval.every_steps,
        {.doc = "Steps between evaluations during training; 0: none", .max = kMany});
  b.Add("eval.before", &c.eval.before, {.doc = "Evaluate before the first step"});
  b.Add("eval.after", &c.eval.after, {.doc = "Evaluate after the last step"});
  b.Add("eval.greedy", &c.eval.greedy, {.doc = "Also evaluate with greedy decoding"});
  b.Add("eval.also_max_turns", &c.eval.also_max_turns,
        {.doc = "Also evaluate with this many turns; 0: no", .max = 1000});
  b.Add("bus.lease", &c.bus.lease,
        {.doc = "Lease time: how soon the work of a dead worker is redelivered",
         .min = 100,
         .max = 3.6e6});
  b.Add("bus.patience", &c.bus.patience,
        {.doc = "How long to wait for an answer before the request is sent again",
         .min = 1000,
         .max = 8.64e7});
  b.Add("bus.group_patience", &c.bus.group_patience,
        {.doc = "How long to wait for the report on a group before it is issued again",
         .min = 60000,
         .max = 2.592e9});
  b.Add("bus.weights", &c.bus.weights,
        {.doc = "How a rollout worker gets weights: shm (same host), files (shared folder), bus "
                "(the broker), auto: the first of these that works",
         .choices = {"auto", "shm", "files", "bus"}});
  b.Add("bus.capacity", &c.bus.capacity,
        {.doc = "Maximum number of messages in a topic", .min = 16, .max = 1 << 24});
  b.Renamed("serve", "dashboard");
  b.Add("dashboard.web", &c.dashboard.web,
        {.doc = "Serve the dashboard during training; --no-web turns it off"});
  b.Add("dashboard.host", &c.dashboard.host,
        {.doc = "Listen address of the dashboard; outside loopback a bearer token is required"});
  b.Add("dashboard.port", &c.dashboard.port,
        {.doc = "Port of the dashboard; 0: any free port", .max = 65535});
  b.Add("dashboard.if_taken", &c.dashboard.if_taken,
        {.doc = "If the port is taken: free: use another port; none: train without a dashboard",
         .choices = {"free", "none"}});
  b.Add("dashboard.token_file", &c.dashboard.token_file,
        {.doc = "File with bearer tokens, one per line; empty: none"});
  b.Add("dashboard.tensorboard", &c.dashboard.tensorboard,
        {.doc = "Also write the metrics of each step for TensorBoard"});
  b.Add("threads.engine", &c.threads.engine,
        {.doc = "Threads of the engine; 0: derived from the number of cores", .max = 1024});
  b.Add("threads.trainer", &c.threads.trainer,
        {.doc = "Threads of the trainer; 0: derived from the number of cores", .max = 1024});
}

// The gate keeps (η + 1) batches of groups that may still be used; the buffer must hold them, or
// they would be evicted as fast as they come.
Status CheckReplay(const RunConfig& config, const Binder& binder) {
  const uint64_t ahead = config.run.mode == "sync"       ? 0
                         : config.run.mode == "one-step" ? 1
                                                         : config.staleness.max_steps;
  const uint64_t groups = (ahead + 1) * config.task_groups();
  if (config.replay.capacity < groups) {
    return binder.Error("replay.capacity", "must be at least " + std::to_string(groups) +
                                               ": groups_per_step for each step in flight");
  }
  if (config.replay.min_groups > groups) {
    return binder.Error("replay.min_groups", "must be at most " + std::to_string(groups) +
                                                 ": no more groups are issued before a step");
  }
  if (config.replay.samples_per_insert > config.replay.max_uses) {
    return binder.Error("replay.samples_per_insert", "must not be above replay.max_uses");
  }
  return Ok();
}

}  // namespace

void BindRunConfig(RunConfig& config, Binder& binder) {
  BindRunAndModel(config, binder);
  BindRollout(config, binder);
  BindGateway(config, binder);
  BindAgent(config, binder);
  BindLiveLearning(config, binder);
  BindLive(config, binder);
  BindMemory(config, binder);
  BindReplay(config, binder);
  BindLearner(config, binder);
  BindCreditAndRanks(config, binder);
  BindReward(config, binder);
  BindJudges(config, binder);
  BindTeacher(config, binder);
  BindTools(config, binder);
  BindRest(config, binder);
}

Status CheckRunConfig(const RunConfig& config, const Binder& binder) {
  if (config.model.path.empty()) {
    return binder.Error("model.path", "is missing: the Hugging Face directory of the policy");
  }
  if (config.model.init == "random" && !config.model.adapter.empty()) {
    return binder.Error("model.adapter", "belongs to trained weights, and model.init is random");
  }
  if (config.learner.token_budget > 0 && config.learner.token_budget < 64) {
    return binder.Error("learner.token_budget", "must be 0 or at least 64");
  }
  TM_RETURN_IF_ERROR(CheckLiveLearning(config, binder));
  TM_RETURN_IF_ERROR(CheckJudges(config, binder));
  if (config.rollout.max_in_flight < config.rollout.group_size) {
    return binder.Error("rollout.max_in_flight",
                        "is less than rollout.group_size: no group could start");
  }
  if (config.run.mode == "async" && config.staleness.hard_max_steps < config.staleness.max_steps) {
    return binder.Error(
        "staleness.hard_max_steps",
        "is less than staleness.max_steps: episodes would be too old when they are used");
  }
  TM_RETURN_IF_ERROR(CheckBackground(config.background, binder));
  TM_RETURN_IF_ERROR(CheckReplay(config, binder));
  TM_RETURN_IF_ERROR(CheckLive(config, binder));
  TM_RETURN_IF_ERROR(CheckMemory(config, binder));
  TM_RETURN_IF_ERROR(CheckTeacher(config, binder));
  if (config.reward.weights.empty()) return binder.Error("reward.weights", "names no scorer");
  if (config.reward.weights.count("command") != 0 && config.reward.command.empty()) {
    return binder.Error("reward.weights", "names \"command\", but reward.command is empty");
  }
  return Ok();
}

}  // namespace tidemill
