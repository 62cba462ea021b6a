// The keys of [learner]: the objective, the optimizer, who gets credit, and the learner's
// processes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/section.h"

namespace tidemill {

struct LearnerConfig {
  TM_SECTION("learner");
  TM_KEY(std::string, objective, "grpo",
         {.doc = "Objective preset (docs/objectives.md): grpo, dapo, gspo, .."});
  TM_KEY(std::vector<std::string>, options, {},
         {.doc = "Changes to the preset, such as \"clip_high=0.28\""});
  TM_KEY(double, learning_rate, 1e-5, {.doc = "Peak learning rate of AdamW", .min = 0, .max = 1});
  TM_KEY(uint64_t, warmup_steps, 10, {.doc = "Learning-rate warm-up steps", .max = 1e9});
  TM_KEY(std::string, decay, "constant",
         {.doc = "Learning-rate schedule after warm-up",
          .choices = {"constant", "cosine", "linear"}});
  TM_KEY(double, weight_decay, 0.0, {.doc = "AdamW weight decay", .min = 0, .max = 10});
  TM_KEY(double, beta1, 0.9, {.doc = "AdamW beta1", .min = 0, .max = 0.9999});
  TM_KEY(double, beta2, 0.95, {.doc = "AdamW beta2", .min = 0, .max = 0.999999});
  TM_KEY(double, max_grad_norm, 1.0, {.doc = "Gradient clipping norm; 0: no clipping", .min = 0});
  TM_KEY(uint32_t, minibatches, 1,
         {.doc = "Minibatches per batch; each is one optimizer update", .min = 1, .max = 1024});
  TM_KEY(uint32_t, epochs, 1, {.doc = "Passes over each batch", .min = 1, .max = 100});
  TM_KEY(
      uint32_t, token_budget, 0,
      {.doc = "Maximum number of tokens per microbatch; affects memory, not the result; 0: up to "
              "16384, as many as fit by `tidemill plan`",
       .max = 1 << 26});
  TM_KEY(
      bool, recompute, false,
      {.doc = "Activation checkpointing: less memory, a third more arithmetic, the same result"});
  TM_KEY(std::string, moments, "auto",
         {.doc = "Optimizer moments: float32: 8 bytes per trained parameter; int8: 2 bytes, and on "
                 "a GPU weights and gradients in bfloat16, weights with their low 16 bits beside "
                 "them; auto: float32 where it fits (plan.md)",
          .choices = {"auto", "float32", "int8"}});
  TM_KEY(
      std::string, optimizer_state, "auto",
      {.doc = "Where a GPU's learner keeps what only the optimizer needs: gpu; host: in pinned "
              "memory, 4.1 bytes per parameter that every update copies in and out (all weights, "
              "with int8 moments); auto: gpu where it fits (plan.md); no effect on a CPU",
       .choices = {"auto", "gpu", "host"}});
  TM_KEY(
      uint32_t, reserve_multiprocessors, 0,
      {.doc = "Multiprocessors of the GPU that the learner leaves free for an engine on the same "
              "GPU, rounded up to what the GPU can set apart; 0: none; no effect on a CPU (gpu.md)",
       .max = 1024});
  TM_KEY(uint64_t, checkpoint_every_steps, 50,
         {.doc = "Steps between checkpoints; 0: only at the end", .max = 1e9});
  TM_KEY(
      uint32_t, keep_checkpoints, 3,
      {.doc = "Number of recent checkpoints to keep; the one before the newest stays in any case",
       .min = 1,
       .max = 10000});
  TM_KEY(uint32_t, lora_rank, 0,
         {.doc = "Train a LoRA adapter of this rank; 0: train all weights", .max = 4096});
  TM_KEY(double, lora_alpha, 16,
         {.doc = "LoRA alpha; the adapter's scale is alpha / rank", .min = 0});
  TM_KEY(bool, lora_experts, false,
         {.doc = "The adapter is on experts too, in models that have them"});
  TM_KEY(double, balance_loss, 0.0,
         {.doc = "Coefficient of the loss that balances experts (models.md); 0: off; not with "
                 "learner.recompute",
          .min = 0,
          .max = 100});
  TM_KEY(
      double, balance_bias, 0.0,
      {.doc = "Step by which the bias of a router's choice moves after each update, up for experts "
              "with fewer tokens than the mean, down for the others (models.md); 0: off",
       .min = 0,
       .max = 1});
  TM_KEY(bool, replay_experts, true,
         {.doc = "Train each token through the experts that drew it; false: through those that the "
                 "learner's routers choose"});
  TM_KEY(
      std::string, credit, "episode",
      {.doc = "episode: every turn gets the episode's advantage; turn, state: add the turn's "
              "return compared with the group's turns of the same number, or in the same workspace",
       .choices = {"episode", "turn", "state"}});
  TM_KEY(double, turn_weight, 1.0,
         {.doc = "Weight of the per-turn comparison", .min = 0, .max = 100});
  TM_KEY(double, turn_discount, 1.0,
         {.doc = "Discount of later turns' rewards in a turn's return", .min = 0, .max = 1});
  TM_KEY(
      uint32_t, overlong_buffer, 0,
      {.doc = "Length penalty: number of tokens before the limit where it starts (DAPO); 0: off"});
  TM_KEY(double, overlong_weight, 1.0,
         {.doc = "Length penalty of an answer at the limit", .min = 0, .max = 1000});
  TM_KEY(std::vector<std::string>, group_command, {},
         {.doc = "Program that stays and says of each group which members are trained on, and "
                 "with which advantages: JSON lines, see training.md"});
  TM_KEY(milliseconds, group_timeout, milliseconds(30000),
         {.doc = "Time limit of learner.group_command for a group", .min = 10, .max = 3.6e6});
  TM_KEY(uint32_t, group_slots, 4,
         {.doc = "Number of groups that learner.group_command has at once", .min = 1, .max = 1024});
  TM_KEY(uint32_t, ranks, 1,
         {.doc = "Number of learner processes, rank 0 included", .min = 1, .max = 64});
  TM_KEY(std::string, rank_address, "",
         {.doc = "HOST:PORT where rank 0 listens for `tidemill rank --join HOST:PORT`; empty: rank "
                 "0 starts the other ranks itself"});
  TM_KEY(std::string, rank_secret_file, "",
         {.doc = "File with the secret of the ranks, created if missing; only ranks with a copy of "
                 "it can join at learner.rank_address"});
  TM_KEY(milliseconds, rank_timeout, milliseconds(120000),
         {.doc = "How long rank 0 waits for a rank's share of a step before it counts as hung",
          .min = 100,
          .max = 86400000});
  TM_KEY(milliseconds, rank_join, milliseconds(300000),
         {.doc = "How long rank 0 waits for the other ranks; then it starts with those present",
          .min = 1000,
          .max = 86400000});
  TM_KEY(std::string, backend, "own",
         {.doc = "What trains: own, in this process and its ranks; fsdp2: a torchrun group of "
                 "learner.ranks ranks; see backends.md",
          .choices = {"own", "fsdp2"}});
  TM_KEY(std::vector<std::string>, command,
         (std::vector<std::string>{"torchrun", "--standalone", "--nproc-per-node", "{ranks}", "-m",
                                   "tidemill_fsdp", "--socket", "{socket}"}),
         {.doc = "Command that starts the ranks of fsdp2; {ranks} stands for learner.ranks, "
                 "{socket} for the socket of rank 0"});
  TM_KEY(std::string, precision, "auto",
         {.doc = "What fsdp2 computes in: bfloat16 (gradients are summed in float32), float32, "
                 "auto: bfloat16 on a GPU",
          .choices = {"auto", "float32", "bfloat16"}});

  bool own() const { return backend == "own"; }
};

}  // namespace tidemill
