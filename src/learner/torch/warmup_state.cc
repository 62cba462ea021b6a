#include "learner/torch/warmup_state.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/files.h"
#include "learner/torch/checkpoint.h"
#include "model/torch/model.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;
using WarmupJson = nlohmann::json;

constexpr size_t kWarmupStateBytesMax = size_t{1} << 20;
constexpr std::string_view kBest = "best.";
constexpr std::string_view kMoments = "moments.";

NamedTensors Under(std::string_view prefix, const NamedTensors& tensors, NamedTensors all) {
  for (const auto& [name, tensor] : tensors) all[std::string(prefix) + name] = tensor;
  return all;
}

NamedTensors Only(std::string_view prefix, const NamedTensors& all) {
  NamedTensors tensors;
  for (const auto& [name, tensor] : all) {
    if (name.starts_with(prefix)) tensors[name.substr(prefix.size())] = tensor;
  }
  return tensors;
}

std::string StateText(const WarmupState& s) {
  return WarmupJson{{"demonstrations", s.identity.demonstrations},
                    {"seed", s.identity.seed},
                    {"held_out", s.identity.held_out_fraction},
                    {"batch_tokens", s.identity.batch_tokens},
                    {"step", s.report.last.step},
                    {"epoch", s.report.last.epoch},
                    {"tokens", s.report.last.tokens},
                    {"seconds", s.report.last.seconds},
                    {"first_held_out_loss", s.report.first_held_out_loss},
                    {"best_held_out_loss", s.report.best_held_out_loss},
                    {"best_step", s.report.best_step},
                    {"next", s.next},
                    {"since_better", s.since_better},
                    {"cuts", s.cuts},
                    {"rate_factor", s.rate_factor},
                    {"to_beat", s.to_beat},
                    {"loss_sum", s.loss_sum},
                    {"losses", s.losses},
                    {"optimizer_steps", s.optimizer_steps}}
      .dump(1);
}

Result<WarmupState> ParseState(const std::string& path) {
  TM_ASSIGN_OR_RETURN(const std::string text, ReadFileBounded(path, kWarmupStateBytesMax));
  try {
    const WarmupJson json = WarmupJson::parse(text);
    WarmupState s;
    json.at("demonstrations").get_to(s.identity.demonstrations);
    json.at("seed").get_to(s.identity.seed);
    json.at("held_out").get_to(s.identity.held_out_fraction);
    json.at("batch_tokens").get_to(s.identity.batch_tokens);
    json.at("step").get_to(s.report.last.step);
    json.at("epoch").get_to(s.report.last.epoch);
    json.at("tokens").get_to(s.report.last.tokens);
    json.at("seconds").get_to(s.report.last.seconds);
    json.at("first_held_out_loss").get_to(s.report.first_held_out_loss);
    json.at("best_held_out_loss").get_to(s.report.best_held_out_loss);
    json.at("best_step").get_to(s.report.best_step);
    json.at("next").get_to(s.next);
    json.at("since_better").get_to(s.since_better);
    json.at("cuts").get_to(s.cuts);
    json.at("rate_factor").get_to(s.rate_factor);
    json.at("to_beat").get_to(s.to_beat);
    json.at("loss_sum").get_to(s.loss_sum);
    json.at("losses").get_to(s.losses);
    json.at("optimizer_steps").get_to(s.optimizer_steps);
    return s;
  } catch (const WarmupJson::exception& error) {
    return Corrupt(path + ": " + error.what());
  }
}

Status CheckSame(const std::string& folder, const WarmupIdentity& was, const WarmupIdentity& is) {
  const char* differs = was.demonstrations != is.demonstrations         ? "demonstrations"
                        : was.seed != is.seed                           ? "--seed"
                        : was.held_out_fraction != is.held_out_fraction ? "--held-out"
                        : was.batch_tokens != is.batch_tokens           ? "--batch-tokens"
                                                                        : nullptr;
  if (differs == nullptr) return Ok();
  return Invalid(folder + " is of a warmup with other " + differs +
                 "; give it the same to go on, or begin anew with --replace");
}

}  // namespace

std::string WarmupFolder(const std::string& output) {
  return output + ".warmup";
}

Status SaveWarmup(const WarmupState& state, const ModelConfig& config, const std::string& output) {
  CheckpointContent content;
  content.config = config;
  content.parameters = state.parameters;
  content.optimizer = Under(kMoments, state.moments, Under(kBest, state.best, {}));
  content.state = StateText(state);
  return WriteCheckpoint(content, WarmupFolder(output), "");
}

Result<WarmupState> LoadWarmup(const std::string& output, const WarmupIdentity& identity) {
  const std::string folder = WarmupFolder(output);
  if (!fs::exists(folder)) {
    return NotFound(folder + ": no interrupted warmup to go on with; leave out --resume");
  }
  TM_RETURN_IF_ERROR(CheckCheckpoint(folder));
  TM_ASSIGN_OR_RETURN(WarmupState state, ParseState(folder + "/trainer_state.json"));
  TM_RETURN_IF_ERROR(CheckSame(folder, state.identity, identity));
  TM_ASSIGN_OR_RETURN(const auto weights, PolicyWeights::Load(folder, {"cpu", Dtype::kF32}));
  state.parameters = weights->tensors();
  TM_ASSIGN_OR_RETURN(const NamedTensors rest, ReadTensors(folder + "/optimizer.safetensors"));
  state.best = Only(kBest, rest);
  state.moments = Only(kMoments, rest);
  return state;
}

void ForgetWarmup(const std::string& output) {
  std::error_code ignored;
  fs::remove_all(WarmupFolder(output), ignored);
}

}  // namespace tidemill
