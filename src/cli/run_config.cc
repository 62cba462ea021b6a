#include "cli/run_config.h"

namespace tidemill {
namespace {

constexpr double kMany = 1e9;

void BindRunAndModel(RunConfig& c, Binder& b) {
  b.Add("run.name", &c.run.name,
        {.doc = "Name of the run and of its folder; empty: date and time"});
  b.Add("run.folder", &c.run.folder, {.doc = "Where runs are kept"});
  b.Add("run.seed", &c.run.seed, {.doc = "Decides the order of tasks and every draw"});
  b.Add("run.mode", &c.run.mode,
        {.doc = "async: nothing waits; one-step: train on the batch before; sync: generate all, "
                "then train",
         .choices = {"async", "one-step", "sync"}});
  b.Add("run.steps", &c.run.steps, {.doc = "Steps of the learner", .min = 0, .max = kMany});
  b.Add("run.minutes", &c.run.minutes, {.doc = "Stop after this long; 0: no limit", .min = 0});
  b.Add("model.path", &c.model.path, {.doc = "Hugging Face directory of the policy"});
  b.Add("model.adapter", &c.model.adapter, {.doc = "PEFT adapter to start from; empty: none"});
  b.Add("model.protocol", &c.model.protocol,
        {.doc =
             "hermes: tool calls in a chat; answer: one fenced block, no tools; compact: an answer "
             "and <|end|>, for small models",
         .choices = {"hermes", "compact", "answer"}});
  b.Add("model.device", &c.model.device,
        {.doc =
             "What engine and learner compute on: cpu, cuda, cuda:N; auto: a GPU if there is one"});
  b.Add("model.system_prompt", &c.model.system_prompt,
        {.doc = "Of hermes (empty: built in) and answer (empty: none)"});
  b.Add("tasks.train", &c.tasks.train, {.doc = "Tasks to learn from (JSONL)"});
  b.Add("tasks.eval", &c.tasks.eval, {.doc = "Held-out tasks (JSONL); empty: no evaluation"});
  b.Add("tasks.eval_limit", &c.tasks.eval_limit,
        {.doc = "Use only the first so many of them; 0: all"});
  b.Add("tasks.weights", &c.tasks.weights,
        {.doc = "How often tasks with a tag are drawn, tag = weight", .min = 0, .max = 1000});
  b.Add("tasks.floor", &c.tasks.floor,
        {.doc = "A task's chance when its turn comes is 4p(1-p), p its newest pass rate, but at "
                "least this; 1: always",
         .min = 0,
         .max = 1});
}

void BindRollout(RunConfig& c, Binder& b) {
  auto& r = c.rollout;
  b.Add(
      "rollout.group_size", &r.group_size,
      {.doc = "Episodes of one task that are compared with each other (G)", .min = 1, .max = 1024});
  b.Add("rollout.groups_per_step", &r.groups_per_step,
        {.doc = "Groups in a step's batch; B = groups_per_step * group_size",
         .min = 1,
         .max = 65536});
  b.Add("rollout.max_in_flight", &r.max_in_flight,
        {.doc = "Most episodes running at once", .min = 1, .max = 65536});
  b.Add("rollout.max_turns", &r.max_turns,
        {.doc = "Most turns of an episode", .min = 1, .max = 1000});
  b.Add("rollout.max_turn_tokens", &r.max_turn_tokens,
        {.doc = "Most tokens the model writes in one turn", .min = 1, .max = 1 << 20});
  b.Add("rollout.max_context", &r.max_context,
        {.doc = "Most tokens of an episode; 0: the model's"});
  b.Add("rollout.temperature", &r.temperature,
        {.doc = "Of sampling in training; the learner applies it too", .min = 0.01, .max = 10});
  b.Add("rollout.observation_tokens", &r.observation_tokens,
        {.doc = "Most tokens of tool results appended after a turn", .min = 1, .max = 1 << 20});
  b.Add("rollout.calls_per_turn", &r.calls_per_turn,
        {.doc = "Most tool calls in one turn", .min = 1, .max = 64});
  b.Add("rollout.tool_retries", &r.tool_retries,
        {.doc = "How often a call is repeated after a failure of ours", .min = 0, .max = 20});
  b.Add("rollout.on_unavailable", &r.on_unavailable,
        {.doc = "After the retries: stale keeps the episode out of training, skip tells the agent",
         .choices = {"stale", "skip"}});
  b.Add("rollout.cache_on_swap", &r.cache_on_swap,
        {.doc = "What becomes of keys and values when new weights arrive",
         .choices = {"keep", "rebuild"}});
  b.Add("rollout.cache_mb", &r.cache_mb,
        {.doc = "Memory for keys and values; 0: 512 on a CPU, a quarter of what is free on a GPU",
         .max = 1 << 24});
  b.Add("rollout.prefill_chunk", &r.prefill_chunk,
        {.doc = "Prompt tokens computed in one step, so that decoding does not stall",
         .min = 1,
         .max = 65536});
}

void BindLearning(RunConfig& c, Binder& b) {
  b.Add("staleness.max_steps", &c.staleness.max_steps,
        {.doc = "How many steps ahead of the learner episodes may be issued (η); 0: synchronous",
         .max = 1000});
  b.Add("staleness.hard_max_steps", &c.staleness.hard_max_steps,
        {.doc = "No token older than this enters a loss", .max = 100000});
  b.Add("staleness.max_minutes", &c.staleness.max_minutes,
        {.doc = "Nor one drawn longer ago than this; 0: no bound", .min = 0});
  b.Add("staleness.too_old", &c.staleness.too_old,
        {.doc = "drop the trajectory, or mask the tokens", .choices = {"drop", "mask"}});
  b.Add("replay.selection", &c.replay.selection,
        {.doc = "Which groups a step takes: the oldest, any, or those whose rewards vary more",
         .choices = {"fifo", "uniform", "prioritized"}});
  b.Add("replay.priority_exponent", &c.replay.priority_exponent,
        {.doc = "prioritized: a group's chance is the deviation of its rewards to this power",
         .min = 0,
         .max = 10});
  b.Add("replay.max_uses", &c.replay.max_uses,
        {.doc = "How many steps may use a trajectory", .min = 1, .max = 1000});
  b.Add("replay.samples_per_insert", &c.replay.samples_per_insert,
        {.doc = "Uses of a group on average: the learner waits rather than use more, and no more "
                "is issued than that needs; 0: max_uses",
         .max = 1000});
  b.Add("replay.capacity", &c.replay.capacity,
        {.doc = "Groups kept for training; the one used most, of those the oldest, goes first",
         .min = 1,
         .max = 1 << 20});
  b.Add("replay.min_groups", &c.replay.min_groups,
        {.doc = "No step while there are fewer groups than this", .max = 1 << 20});
  b.Add("replay.rescore_groups", &c.replay.rescore_groups,
        {.doc = "When a scorer's version rises, so many groups, those whose rewards vary most, are "
                "scored again",
         .max = 1 << 20});
  b.Add("replay.drop_zero_variance", &c.replay.drop_zero_variance,
        {.doc = "Leave out groups whose rewards are all equal: they teach nothing"});
  auto& l = c.learner;
  b.Add("learner.objective", &l.objective,
        {.doc = "Preset of docs/objectives.md: grpo, dapo, gspo, .."});
  b.Add("learner.options", &l.options, {.doc = "Changes to the preset, \"clip_high=0.28\""});
  b.Add("learner.learning_rate", &l.learning_rate,
        {.doc = "Peak learning rate of AdamW", .min = 0, .max = 1});
  b.Add("learner.warmup_steps", &l.warmup_steps,
        {.doc = "Steps over which it rises", .max = kMany});
  b.Add("learner.decay", &l.decay,
        {.doc = "After that", .choices = {"constant", "cosine", "linear"}});
  b.Add("learner.weight_decay", &l.weight_decay, {.doc = "Of AdamW", .min = 0, .max = 10});
  b.Add("learner.beta1", &l.beta1, {.doc = "Of AdamW", .min = 0, .max = 0.9999});
  b.Add("learner.beta2", &l.beta2, {.doc = "Of AdamW", .min = 0, .max = 0.999999});
  b.Add("learner.max_grad_norm", &l.max_grad_norm,
        {.doc = "Gradients are scaled down to this norm; 0: never", .min = 0});
  b.Add("learner.minibatches", &l.minibatches,
        {.doc = "Optimizer updates a batch is cut into", .min = 1, .max = 1024});
  b.Add("learner.epochs", &l.epochs, {.doc = "Passes over a batch", .min = 1, .max = 100});
  b.Add(
      "learner.token_budget", &l.token_budget,
      {.doc = "Tokens computed at once; bounds memory, not the result", .min = 64, .max = 1 << 26});
  b.Add("learner.recompute", &l.recompute,
        {.doc = "Activation checkpointing: less memory, a third more arithmetic, the same result"});
  b.Add("learner.checkpoint_every_steps", &l.checkpoint_every_steps,
        {.doc = "0: only at the end", .max = kMany});
  b.Add("learner.keep_checkpoints", &l.keep_checkpoints,
        {.doc = "The newest so many, and the best", .min = 1, .max = 10000});
  b.Add("learner.lora_rank", &l.lora_rank,
        {.doc = "Train an adapter of this rank; 0: all weights", .max = 4096});
  b.Add("learner.lora_alpha", &l.lora_alpha, {.doc = "Its scale is alpha / rank", .min = 0});
  b.Add("learner.credit", &l.credit,
        {.doc = "episode: every turn gets its episode's advantage; turn, state: plus its return "
                "against those of the "
                "group's members in the same turn, or in the same workspace",
         .choices = {"episode", "turn", "state"}});
  b.Add("learner.turn_weight", &l.turn_weight,
        {.doc = "Weight of that comparison", .min = 0, .max = 100});
  b.Add("learner.turn_discount", &l.turn_discount,
        {.doc = "Of later turns' rewards in a turn's return", .min = 0, .max = 1});
  b.Add("learner.overlong_buffer", &l.overlong_buffer,
        {.doc = "Tokens before the limit over which length is punished (DAPO); 0: off"});
  b.Add("learner.overlong_weight", &l.overlong_weight,
        {.doc = "What an answer at the limit loses", .min = 0, .max = 1000});
  b.Add("learner.ranks", &l.ranks,
        {.doc = "Processes that take a step together, this one included", .min = 1, .max = 64});
  b.Add(
      "learner.rank_address", &l.rank_address,
      {.doc = "HOST:PORT where `tidemill rank --join HOST:PORT` joins from other machines; empty: "
              "the others are started here"});
  b.Add("learner.rank_timeout", &l.rank_timeout,
        {.doc = "A rank that is so much later with its share of a step than the first hangs",
         .min = 100,
         .max = 86400000});
  b.Add("learner.rank_join", &l.rank_join,
        {.doc = "So long the first waits for the others; then it begins with those who came",
         .min = 1000,
         .max = 86400000});
}

void BindCommand(Binder& b, RunConfig::CommandKeys& c) {
  b.Add("name", &c.name, {.doc = "What the model calls it", .required = true});
  b.Add("description", &c.description, {.doc = "What the model is told of it"});
  b.Add("command", &c.command,
        {.doc = "Words of its command line; {x} is the call's argument x, never more than one word",
         .min = 1,
         .required = true});
  b.Add("files", &c.files, {.doc = "What of the workspace enters the box; empty: all"});
  b.Add("parser", &c.parser,
        {.doc = "What its output is", .choices = {"text", "diagnostics", "tests"}});
  b.Add("changes", &c.changes, {.doc = "The files it leaves are the workspace afterwards"});
  b.Add("wall_ms", &c.wall_ms, {.doc = "As of [tools]; 0: that"});
  b.Add("cpu_ms", &c.cpu_ms, {.doc = "As of [tools]; 0: that"});
  b.Add("memory_mb", &c.memory_mb, {.doc = "As of [tools]; 0: that"});
  b.Add("processes", &c.processes, {.doc = "As of [tools]; 0: that"});
  b.Add("output_kb", &c.output_kb, {.doc = "As of [tools]; 0: that"});
  b.Add("disk_mb", &c.disk_mb, {.doc = "As of [tools]; 0: that"});
}

void BindRewardAndTools(RunConfig& c, Binder& b) {
  b.Add(
      "reward.weights", &c.reward.weights,
      {.doc = "Scorers and their weights: tests, compiled, lint, length, format, literal, review, "
              "command",
       .min = -1000,
       .max = 1000});
  b.Add("reward.all_or_nothing", &c.reward.all_or_nothing,
        {.doc = "The tests scorer gives 1 for all tests, else 0; otherwise the share passed"});
  b.Add("reward.lint_penalty", &c.reward.lint_penalty,
        {.doc = "The lint scorer takes this off for each finding", .min = 0, .max = 1});
  b.Add("reward.turn_weight", &c.reward.turn_weight,
        {.doc = "Weight of a turn's gain in visible tests passed", .min = 0, .max = 100});
  b.Add("reward.turn_discount", &c.reward.turn_discount,
        {.doc = "The reward is multiplied by this for every turn after the first",
         .min = 0,
         .max = 1});
  b.Add("reward.retries", &c.reward.retries,
        {.doc = "How often grading is repeated after a failure of ours", .max = 20});
  b.Add("reward.command", &c.reward.command,
        {.doc = "The program of the scorer \"command\", with its arguments: JSON in, JSON out"});
  b.Add("reward.command_version", &c.reward.command_version,
        {.doc = "Its version, until an answer says another", .min = 1, .max = kMany});
  b.Add("reward.command_timeout", &c.reward.command_timeout,
        {.doc = "How long it (or the judge) may take", .min = 10, .max = 3.6e6});
  b.Add("reward.command_output_kb", &c.reward.command_output_kb,
        {.doc = "Most output of one answer", .min = 1, .max = 65536});
  b.Add("reward.command_slots", &c.reward.command_slots,
        {.doc = "How many run at once", .min = 1, .max = 1024});
  b.Add("reward.review_weights", &c.reward.review_weights,
        {.doc = "What the scorer \"review\" is made of", .min = 0, .max = 1000});
  b.Add("reward.review_threshold", &c.reward.review_threshold,
        {.doc = "A sub-score below this gets a second, closer look", .min = 0, .max = 1});
  b.Add("reward.review_cpu_ms", &c.reward.review_cpu_ms,
        {.doc = "CPU time of the tests that is worth full marks for performance; 0: the fastest "
                "right answer to the task so far",
         .min = 0});
  b.Add("reward.review_judge", &c.reward.review_judge,
        {.doc = "A program that gives the review's sub-scores; empty: tools do"});
  b.Add("tools.slots", &c.tools.slots,
        {.doc = "Tool calls running at once; 0: from the cores", .max = 4096});
  b.Add("tools.cache", &c.tools.cache,
        {.doc = "Results of identical requests kept; 0: off", .max = 1 << 24});
  b.Add("tools.wait", &c.tools.wait,
        {.doc = "Waiting added to the agent's calls, to try out slow tools: median; 0: none",
         .max = 6e5});
  b.Add("tools.wait_tail", &c.tools.wait_tail,
        {.doc = "One call in a thousand waits this long, none longer", .max = 6e5});
  b.Add("tools.wall_ms", &c.tools.wall_ms, {.doc = "Wall-clock limit of a command", .min = 1});
  b.Add("tools.cpu_ms", &c.tools.cpu_ms, {.doc = "CPU time limit", .min = 1});
  b.Add("tools.memory_mb", &c.tools.memory_mb, {.doc = "Memory limit", .min = 1});
  b.Add("tools.processes", &c.tools.processes, {.doc = "Most processes and threads", .min = 1});
  b.Add("tools.output_kb", &c.tools.output_kb, {.doc = "Most output", .min = 1});
  b.Add("tools.disk_mb", &c.tools.disk_mb, {.doc = "Most it may write", .min = 1});
  b.AddTables("tools.command", &c.tools.command, BindCommand,
              {.doc = "Tools of one's own, each under [[tools.command]]; see tools.md", .max = 64});
}

void BindRest(RunConfig& c, Binder& b) {
  b.Add("eval.samples", &c.eval.samples,
        {.doc = "Episodes a held-out task", .min = 1, .max = 1024});
  b.Add("eval.max_turns", &c.eval.max_turns, {.doc = "0: as in training", .max = 1000});
  b.Add("eval.temperature", &c.eval.temperature, {.doc = "0: greedy", .min = 0, .max = 10});
  b.Add("eval.every_steps", &c.eval.every_steps,
        {.doc = "Evaluate while training goes on; 0: not", .max = kMany});
  b.Add("eval.before", &c.eval.before, {.doc = "Evaluate before the first step"});
  b.Add("eval.after", &c.eval.after, {.doc = "Evaluate after the last step"});
  b.Add("eval.greedy", &c.eval.greedy, {.doc = "Evaluate with the most likely tokens as well"});
  b.Add("eval.also_max_turns", &c.eval.also_max_turns,
        {.doc = "Evaluate with this many turns as well, to see what they bring; 0: not",
         .max = 1000});
  b.Add("bus.lease", &c.bus.lease,
        {.doc = "How soon the work of a dead worker goes to another", .min = 100, .max = 3.6e6});
  b.Add("bus.patience", &c.bus.patience,
        {.doc = "An answer that takes longer was lost, and is asked for again",
         .min = 1000,
         .max = 8.64e7});
  b.Add("bus.weights", &c.bus.weights,
        {.doc = "How a rollout worker gets weights: shm (same host), files (shared folder), or "
                "auto: shm where it can",
         .choices = {"auto", "shm", "files"}});
  b.Add("bus.capacity", &c.bus.capacity,
        {.doc = "Messages a topic holds before it pushes back", .min = 16, .max = 1 << 24});
  b.Add("serve.web", &c.serve.web,
        {.doc = "The dashboard of the run while it trains; --no-web turns it off"});
  b.Add("serve.host", &c.serve.host,
        {.doc = "Address it listens on; outside loopback a token is asked for"});
  b.Add("serve.port", &c.serve.port, {.doc = "Its port; 0: a free one", .max = 65535});
  b.Add("serve.if_taken", &c.serve.if_taken,
        {.doc = "Where the port is taken: a free one, or none (no dashboard). Training goes on",
         .choices = {"free", "none"}});
  b.Add("serve.token_file", &c.serve.token_file,
        {.doc = "File of bearer tokens, one a line; empty: none"});
  b.Add("serve.tensorboard", &c.serve.tensorboard,
        {.doc = "Write the metrics of each step for TensorBoard into the run's folder as well"});
  b.Add("threads.engine", &c.threads.engine,
        {.doc = "Threads of generation; 0: from the cores", .max = 1024});
  b.Add("threads.trainer", &c.threads.trainer,
        {.doc = "Threads of learning; 0: from the cores", .max = 1024});
}

// The gate keeps (η + 1) batches of groups that may still be used; the buffer must hold them, or
// they would be evicted as fast as they come.
Status CheckReplay(const RunConfig& config, const Binder& binder) {
  const uint64_t ahead = config.run.mode == "sync"       ? 0
                         : config.run.mode == "one-step" ? 1
                                                         : config.staleness.max_steps;
  const uint64_t groups = (ahead + 1) * config.rollout.groups_per_step;
  if (config.replay.capacity < groups) {
    return binder.Error("replay.capacity", "must be at least " + std::to_string(groups) +
                                               ": the groups of a step for each step ahead");
  }
  if (config.replay.min_groups > groups) {
    return binder.Error("replay.min_groups", "must be at most " + std::to_string(groups) +
                                                 ": more are not issued before a step is taken");
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
  BindLearning(config, binder);
  BindRewardAndTools(config, binder);
  BindRest(config, binder);
}

Status CheckRunConfig(const RunConfig& config, const Binder& binder) {
  if (config.model.path.empty()) {
    return binder.Error("model.path", "is missing; it names the policy's Hugging Face directory");
  }
  if (config.tasks.train.empty())
    return binder.Error("tasks.train", "is missing; it names a JSONL of tasks");
  if (config.rollout.max_in_flight < config.rollout.group_size) {
    return binder.Error("rollout.max_in_flight",
                        "is less than rollout.group_size: no group could start");
  }
  if (config.run.mode == "async" && config.staleness.hard_max_steps < config.staleness.max_steps) {
    return binder.Error(
        "staleness.hard_max_steps",
        "is less than staleness.max_steps: what is issued would be too old when it is used");
  }
  TM_RETURN_IF_ERROR(CheckReplay(config, binder));
  if (config.reward.weights.empty()) return binder.Error("reward.weights", "names no scorer");
  return Ok();
}

}  // namespace tidemill
