// Everything a run can be told, with its defaults. Each key is declared once, in BindRunConfig;
// from that come the checks, the saved config and the table in docs/config.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "config/background_keys.h"
#include "config/config.h"

namespace tidemill {

struct RunConfig {
  struct Run {
    std::string name;  // empty: from the date and time
    std::string folder = "runs";
    uint64_t seed = 1;
    std::string mode = "async";
    uint64_t steps = 200;
    double minutes = 0;
  } run;

  struct Model {
    std::string path;
    std::string init = "files";
    std::string tokenizer;
    std::string adapter;
    std::string protocol = "chat";
    std::string device = "auto";
    std::string system_prompt;

    // The directory with tokenizer, chat template and generation settings.
    const std::string& tokenizer_path() const { return tokenizer.empty() ? path : tokenizer; }
  } model;

  struct Tasks {
    std::string train;
    std::string eval;
    uint32_t eval_limit = 0;
    std::map<std::string, double> weights;
    double floor = 1;
  } tasks;

  struct Rollout {
    uint32_t group_size = 8;
    uint32_t groups_per_step = 8;
    uint32_t max_in_flight = 256;
    uint32_t max_turns = 4;
    uint32_t max_turn_tokens = 512;
    uint32_t max_context = 0;
    double temperature = 1.0;
    uint32_t observation_tokens = 512;
    uint32_t calls_per_turn = 8;
    uint32_t tool_retries = 3;
    std::string on_unavailable = "stale";
    std::string cache_on_swap = "keep";
    uint32_t cache_mb = 0;
    uint32_t prefill_chunk = 512;
  } rollout;

  BackgroundOptions background;

  struct Engine {
    uint32_t versions = 1;
  } engine;

  struct Gateway {
    double share = 0.5;
    std::string host = "127.0.0.1";
    uint32_t port = 0;
    std::string keys;
    bool strict_model = false;
    std::string tool_format = "auto";
    uint32_t max_requests = 2048;
    uint32_t max_running = 1024;
    uint32_t max_answer_tokens = 0;
    uint32_t body_mb = 32;
    std::chrono::milliseconds heartbeat{15000};
    std::string access_log;
  } gateway;

  // A limit of 0: the preset's, or the default.
  struct Agent {
    std::string preset;
    std::vector<std::string> command, environment, mounts;
    std::string model = "policy";
    std::string sampling = "run";
    uint32_t slots = 64;
    uint32_t max_tokens = 0;
    std::chrono::milliseconds idle{0};
    uint32_t give_up = 16;
    std::string last_file;
    uint32_t wall_ms = 0, cpu_ms = 0, memory_mb = 0, processes = 0, output_kb = 0, disk_mb = 0;

    bool used() const { return !preset.empty() || !command.empty(); }
  } agent;

  struct Memory {
    bool on = false;
    bool only = false;
    std::string retrieval = "learned";
    uint32_t key_layers = 0;
    uint32_t cases = 8;
    uint32_t case_tokens = 512;
    uint32_t capacity = 100'000;
    bool failures = true;
    std::string explore = "thompson";
    double epsilon = 0.1;
  } memory;

  struct Live {
    bool on = false;
    std::chrono::milliseconds idle{30 * 60 * 1000};
    uint32_t batch = 16;
    double task_share = 0.5;
    uint32_t window = 64;
    uint32_t compare_min = 4;
    uint32_t siblings = 0;
    double kl_coefficient = 0;
    double kl_max = 0;
    double tenant_share = 0.5;
    double outlier = 6;
    double sudden_change = 1;
    std::vector<std::string> redact;
    bool release = false;
    double gate_margin = 0.05;
    uint32_t gate_failures = 3;
    double canary_share = 0.1;
    std::chrono::milliseconds canary_time{600000};
    uint32_t canary_answers = 20;
    double alarm_entropy = 0;
    double alarm_kl = 0;
    double alarm_malformed = 1;
    double alarm_questions = 1;
  } live;

  struct Staleness {
    uint32_t max_steps = 1;
    uint32_t hard_max_steps = 4;
    double max_minutes = 0;
    std::string too_old = "drop";
  } staleness;

  struct Replay {
    std::string selection = "fifo";
    double priority_exponent = 1;
    uint32_t max_uses = 1;
    uint32_t samples_per_insert = 0;
    uint32_t capacity = 4096;
    uint32_t min_groups = 0;
    bool drop_zero_variance = true;
    uint32_t rescore_groups = 64;
  } replay;

  struct Learner {
    std::string objective = "grpo";
    std::vector<std::string> options;
    double learning_rate = 1e-5;
    uint64_t warmup_steps = 10;
    std::string decay = "constant";
    double weight_decay = 0.0;
    double beta1 = 0.9;
    double beta2 = 0.95;
    double max_grad_norm = 1.0;
    uint32_t minibatches = 1;
    uint32_t epochs = 1;
    uint32_t token_budget = 0;
    bool recompute = false;
    std::string moments = "auto";
    std::string optimizer_state = "auto";
    uint32_t reserve_multiprocessors = 0;
    uint64_t checkpoint_every_steps = 50;
    uint32_t keep_checkpoints = 3;
    uint32_t lora_rank = 0;
    double lora_alpha = 16;
    std::string credit = "episode";
    double turn_weight = 1.0;
    double turn_discount = 1.0;
    uint32_t overlong_buffer = 0;
    double overlong_weight = 1.0;
    uint32_t ranks = 1;
    std::string rank_address, rank_secret_file;
    std::chrono::milliseconds rank_timeout{120000};
    std::chrono::milliseconds rank_join{300000};
  } learner;

  // A model that judges, [[judge]].
  struct JudgeKeys {
    std::string name, endpoint, model, key_file, key_env, ca_file;
    uint32_t concurrency = 8;
    std::chrono::milliseconds timeout{60000};
    uint32_t retries = 3;
    std::chrono::milliseconds patience{120000};
    uint32_t per_minute = 0;
    uint32_t cache = 4096;
    double price_in = 0, price_out = 0;
    std::string task = "outcome";
    std::string rubric;
    std::map<std::string, double> criteria = {};
    std::string answer = "json";
    std::string form = "full";
    uint32_t votes = 1;
    std::string aggregate = "majority";
    double temperature = 0.7;
    uint32_t max_tokens = 512;
    uint32_t text_kb = 16;
    uint32_t version = 1;
    std::string second;
    bool reward = true;
    bool live = false;
    double weight = 1;
    double clip = 1;
    std::string normalize = "none";
    uint32_t pairs = 4;
  };

  // How scorers that do not execute are checked.
  struct Audit {
    double share = 0;
    double false_accepts = 0.01;
    double alarm_at = 0.1;
    double false_alarms = 0.01;
    bool unbiased = false;
    std::vector<std::string> trust = {};
  };

  // Who scores tokens for distillation.
  struct Teacher {
    std::string model, endpoint, endpoint_model, key_file, key_env, ca_file;
    bool policy = false;
    std::string hints = "none";
    uint32_t concurrency = 64;
    uint32_t batch_tokens = 4096;
    uint32_t retries = 6;
    std::chrono::milliseconds timeout{60000};

    bool used() const { return policy || !model.empty() || !endpoint.empty(); }
  } teacher;

  struct Reward {
    std::map<std::string, double> weights = {{"tests", 1.0}};
    bool all_or_nothing = false;
    double lint_penalty = 0.1;
    double turn_weight = 0;
    double turn_discount = 1;
    double time_weight = 0;
    uint32_t retries = 3;
    std::vector<std::string> command = {};
    uint32_t command_version = 1;
    std::chrono::milliseconds command_timeout{30000};
    uint32_t command_output_kb = 256;
    uint32_t command_slots = 2;
    bool command_stays = false;
    std::map<std::string, double> review_weights = {
        {"correctness", 0.4}, {"style", 0.2}, {"performance", 0.2}, {"security", 0.2}};
    double review_threshold = 0.5;
    double review_cpu_ms = 0;
    std::vector<std::string> review_judge = {};
    std::vector<std::string> proof_command = {};
    std::string order_by = {};
    uint32_t order_ahead = 16;
    std::chrono::milliseconds order_wait{10000};
    std::vector<JudgeKeys> judges = {};
    Audit audit = {};
  } reward;

  // A tool of one's own, [[tools.command]]. A limit of 0: the one of [tools].
  struct CommandKeys {
    std::string name, description;
    std::vector<std::string> command, files;
    std::string parser = "text";
    bool changes = true;
    std::string background = "never";
    bool background_files = false;
    uint32_t wall_ms = 0, cpu_ms = 0, memory_mb = 0, processes = 0, output_kb = 0, disk_mb = 0;
  };

  struct Tools {
    uint32_t slots = 0;
    uint32_t cache = 4096;
    std::chrono::milliseconds wait{0};
    std::chrono::milliseconds wait_tail{0};
    uint32_t wall_ms = 10000;
    uint32_t cpu_ms = 5000;
    uint32_t memory_mb = 512;
    uint32_t processes = 64;
    uint32_t output_kb = 256;
    uint32_t disk_mb = 64;
    uint32_t shells = 256;
    std::string roots;
    bool own_user = false;
    bool interpret = false;
    std::vector<CommandKeys> command;
  } tools;

  struct Eval {
    uint32_t samples = 4;
    uint32_t max_turns = 0;
    double temperature = 1.0;
    uint64_t every_steps = 0;
    bool before = true;
    bool after = true;
    bool greedy = false;
    uint32_t also_max_turns = 0;
  } eval;

  struct Bus {
    std::chrono::milliseconds lease{30000};
    std::chrono::milliseconds patience{600000};
    std::chrono::milliseconds group_patience{3600000};
    uint32_t capacity = 16384;
    std::string weights = "auto";
  } bus;

  struct Dashboard {
    bool web = true;
    std::string host = "127.0.0.1";
    uint32_t port = 8321;
    std::string if_taken = "free";
    std::string token_file;
    bool tensorboard = true;
  } dashboard;

  struct Threads {
    uint32_t engine = 0;
    uint32_t trainer = 0;
  } threads;

  // Of tasks, in one step. With sessions, their share of the step decides.
  uint32_t task_groups() const;
  uint32_t batch_episodes() const { return rollout.group_size * task_groups(); }
  // Trajectories of sessions, in one step.
  uint32_t live_episodes() const { return live.on ? live.batch : 0; }
};

// `config` must outlive the binder.
void BindRunConfig(RunConfig& config, Binder& binder);
// Parts of it, in gateway_config.cc: the keys of [gateway] and [live].
void BindGateway(RunConfig& config, Binder& binder);
void BindLive(RunConfig& config, Binder& binder);
Status CheckLive(const RunConfig& config, const Binder& binder);  // a part of CheckRunConfig

// What keys must have in common, after loading; every message names the key and its place.
Status CheckRunConfig(const RunConfig& config, const Binder& binder);

}  // namespace tidemill
