// The sections that the wiring of a run reads itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/section.h"

namespace tidemill {

struct RunSection {
  TM_SECTION("run");
  TM_KEY(std::string, name, "", {.doc = "Name of the run and its folder; empty: date and time"});
  TM_KEY(std::string, folder, "runs", {.doc = "Folder that holds the runs"});
  TM_KEY(uint64_t, seed, 1, {.doc = "Random seed for task order and sampling"});
  TM_KEY(std::string, mode, "async",
         {.doc = "async: generation never waits for the learner; one-step: train on the previous "
                 "batch; sync: generate, then train",
          .choices = {"async", "one-step", "sync"}});
  TM_KEY(uint64_t, steps, 200, {.doc = "Number of learner steps", .min = 0, .max = 1e9});
  TM_KEY(double, minutes, 0, {.doc = "Time limit of the run in minutes; 0: no limit", .min = 0});
};

struct PolicyConfig {
  TM_SECTION("model");
  TM_KEY(std::string, path, "", {.doc = "Hugging Face directory of the policy"});
  TM_KEY(std::string, init, "files",
         {.doc = "Weights to start from: files: those in model.path; random: new ones in the shape "
                 "of its config.json, from run.seed, never written to it",
          .choices = {"files", "random"}});
  TM_KEY(std::string, tokenizer, "",
         {.doc = "Directory with the tokenizer and chat template; empty: model.path"});
  TM_KEY(std::string, adapter, "", {.doc = "PEFT adapter to start from; empty: none"});
  TM_KEY(std::string, protocol, "chat",
         {.doc = "chat: the model's own chat template and tool calls; answer: the same without "
                 "tools, the answer is one fenced block; compact: an answer and <|end|>, for small "
                 "models; hermes: the earlier name of chat",
          .choices = {"chat", "compact", "answer", "hermes"}});
  TM_KEY(std::string, device, "auto",
         {.doc = "Device of engine and learner: cpu, cuda, cuda:N; auto: a GPU if there is one"});
  TM_KEY(std::string, system_prompt, "",
         {.doc = "System prompt; empty: chat has a built-in one, answer none"});

  // The directory with tokenizer, chat template and generation settings.
  const std::string& tokenizer_path() const { return tokenizer.empty() ? path : tokenizer; }
};

// [policy.NAME]: a policy of the run. What it does not say is as in [learner] and [staleness].
struct PolicyTable {
  std::string name{};
  TM_SECTION("");
  TM_KEY(bool, train, true,
         {.doc = "Train the policy's adapter; false: the policy stays as it is (policies.md)"});
  TM_KEY(
      std::string, adapter, "",
      {.doc = "PEFT adapter to start from; empty: a new one or, of a policy that is not trained, "
              "none: the base alone"});
  TM_KEY(std::optional<uint32_t>, rank, {},
         {.doc = "Rank of the new adapter; default: learner.lora_rank", .min = 1, .max = 4096});
  TM_KEY(std::optional<double>, alpha, {},
         {.doc = "LoRA alpha of the new adapter; default: learner.lora_alpha", .min = 0});
  TM_KEY(std::optional<std::string>, objective, {},
         {.doc = "Objective preset; default: learner.objective"});
  TM_KEY(KeyWords, options, {}, {.doc = "Changes to the preset; default: learner.options"});
  TM_KEY(std::optional<double>, learning_rate, {},
         {.doc = "Peak learning rate; default: learner.learning_rate", .min = 0, .max = 1});
  TM_KEY(std::optional<uint64_t>, warmup_steps, {},
         {.doc = "Learning-rate warm-up steps; default: learner.warmup_steps", .max = 1e9});
  TM_KEY(std::optional<uint32_t>, groups_per_step, {},
         {.doc = "Groups in one of its steps; default: rollout.groups_per_step",
          .min = 1,
          .max = 1 << 20});
  TM_KEY(std::optional<uint32_t>, max_steps, {},
         {.doc = "How many of its steps ahead episodes may be issued; default: staleness.max_steps",
          .max = 1000});
  TM_KEY(std::optional<uint32_t>, hard_max_steps, {},
         {.doc = "Maximum token age in its steps; default: staleness.hard_max_steps",
          .max = 100000});
};

struct TaskConfig {
  TM_SECTION("tasks");
  TM_KEY(std::string, train, "", {.doc = "Training tasks (JSONL)"});
  TM_KEY(std::string, eval, "", {.doc = "Held-out tasks (JSONL); empty: no evaluation"});
  TM_KEY(uint32_t, eval_limit, 0,
         {.doc = "Number of held-out tasks to use, from the start of the file; 0: all"});
  TM_KEY(KeyNumbers, weights, {},
         {.doc = "Sampling weight of tasks by tag, tag = weight", .min = 0, .max = 1000});
  TM_KEY(double, floor, 1,
         {.doc = "Minimum probability of a task; it is drawn with probability 4p(1-p), where p is "
                 "its newest pass rate; 1: always drawn",
          .min = 0,
          .max = 1});
};

struct BusConfig {
  TM_SECTION("bus");
  TM_KEY(milliseconds, lease, milliseconds(30000),
         {.doc = "Lease time: how soon the work of a dead worker is redelivered",
          .min = 100,
          .max = 3.6e6});
  TM_KEY(milliseconds, patience, milliseconds(600000),
         {.doc = "How long to wait for an answer before the request is sent again",
          .min = 1000,
          .max = 8.64e7});
  TM_KEY(milliseconds, group_patience, milliseconds(3600000),
         {.doc = "How long to wait for the report on a group before it is issued again",
          .min = 60000,
          .max = 2.592e9});
  TM_KEY(std::string, weights, "auto",
         {.doc = "How a rollout worker gets weights: shm (same host), files (shared folder), bus "
                 "(the broker), auto: the first of these that works",
          .choices = {"auto", "shm", "files", "bus"}});
  TM_KEY(uint32_t, capacity, 16384,
         {.doc = "Maximum number of messages in a topic", .min = 16, .max = 1 << 24});
};

struct ThreadConfig {
  TM_SECTION("threads");
  TM_KEY(uint32_t, engine, 0,
         {.doc = "Threads of the engine; 0: derived from the number of cores", .max = 1024});
  TM_KEY(uint32_t, trainer, 0,
         {.doc = "Threads of the trainer; 0: derived from the number of cores", .max = 1024});
};

}  // namespace tidemill
