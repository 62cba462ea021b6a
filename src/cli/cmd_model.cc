// tidemill model score | generate | tokenize | render | new | merge | import: one model directory,
// from the command line.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/commands.h"
#include "cli/model_import.h"
#include "cli/model_render.h"
#include "cli/model_tokenize.h"
#include "core/files.h"
#include "core/shipped_files.h"
#include "core/threads.h"
#include "engine/torch/torch_engine.h"
#include "learner/torch/checkpoint.h"
#include "model/generation_config.h"
#include "model/random_weights.h"
#include "model/tokenizer.h"
#include "model/torch/model.h"
#include "model/torch/score.h"

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;

// The words of every subcommand; each uses its own.
struct ModelWords {
  std::string model;
  std::string adapter;
  std::string prompt;
  std::string text_file;
  std::string config;
  std::string tokenizer;
  std::string out;
  std::vector<int32_t> ids;
  std::vector<std::string> stop;
  SamplingParams sampling;
  int32_t max_tokens = 64;
  uint64_t seed = 0;
  bool greedy = false;
  bool ignore_eos = false;
  bool json = false;
};

Result<std::shared_ptr<const PolicyWeights>> LoadWeights(const ModelWords& words) {
  for (const std::string& dir : {words.model, words.adapter}) {
    if (!dir.empty()) TM_RETURN_IF_ERROR(CheckModelWeights(dir));
  }
  // On the CPU everything is computed in single precision, whatever the files hold.
  TM_ASSIGN_OR_RETURN(auto weights,
                      PolicyWeights::Load(words.model, {.device = "cpu", .dtype = Dtype::kF32}));
  if (words.adapter.empty()) return weights;
  TM_ASSIGN_OR_RETURN(auto adapter, LoadAdapter(words.adapter, weights->config()));
  return PolicyWeights::WithAdapter(weights, std::move(adapter));
}

// The ids that were given, or those of the text.
Result<std::vector<TokenId>> InputIds(const ModelWords& words) {
  if (!words.ids.empty()) return words.ids;
  TM_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::Read(words.model));
  std::vector<TokenId> ids = tokenizer.Encode(words.prompt, SpecialTokens::kRecognise);
  if (ids.empty()) return Invalid("the prompt has no tokens");
  return ids;
}

bool GaveOneInput(const CLI::App& command) {
  return (command.count("--ids") > 0) != (command.count("--prompt") > 0);
}

int WrongInput() {
  return Wrong(Invalid("give either --ids or --prompt"));
}

int Score(const ModelWords& words) {
  const auto weights = LoadWeights(words);
  if (!weights.ok()) return Fail(weights.status());
  const auto ids = InputIds(words);
  if (!ids.ok()) return Fail(ids.status());
  const auto logprobs = ScoreTokens(**weights, *ids);
  if (!logprobs.ok()) return Fail(logprobs.status());
  if (words.json) {
    PrintJson({{"ids", *ids}, {"logprobs", *logprobs}});
    return 0;
  }
  for (size_t i = 0; i < logprobs->size(); ++i) {
    std::printf("%d\t%.6f\n", (*ids)[i + 1], static_cast<double>((*logprobs)[i]));
  }
  return 0;
}

// The tokens after which the model's author wants a text to end.
std::vector<TokenId> EndTokens(const std::string& dir, const ModelConfig& config) {
  const auto generation = ReadGenerationConfig(dir);
  if (generation.ok() && !generation->eos_token_ids.empty()) return generation->eos_token_ids;
  return config.eos_token_ids;
}

const char* FinishName(TurnFinish finish) {
  switch (finish) {
    case TurnFinish::kStop:
      return "stop";
    case TurnFinish::kLength:
      return "length";
    case TurnFinish::kContext:
      return "context";
    case TurnFinish::kCancelled:
      return "cancelled";
    case TurnFinish::kInterrupted:
      return "interrupted";
  }
  return "stop";
}

struct Generated {
  TurnOutput turn;
  std::string text;  // empty without a tokenizer
};

Result<Generated> RunGenerate(const ModelWords& words, const PolicyWeights& loaded,
                              std::shared_ptr<const PolicyWeights> weights,
                              std::vector<TokenId> ids) {
  const auto tokenizer = Tokenizer::Read(words.model);
  EngineOptions options;
  const int64_t wanted = static_cast<int64_t>(ids.size()) + std::max(words.max_tokens, 1);
  options.max_context =
      static_cast<int32_t>(std::min(wanted, loaded.config().max_position_embeddings));
  options.max_sequences = 1;
  options.cache_bytes = uint64_t{1} << 40;  // as much as one sequence needs, which is less
  if (tokenizer.ok()) {
    options.token_bytes = [&](TokenId id) { return std::string(tokenizer->TokenBytes(id)); };
  }
  TurnParams turn{.sampling = words.sampling, .max_new_tokens = words.max_tokens};
  if (words.greedy) turn.sampling.temperature = 0;
  if (!words.ignore_eos) turn.stop_ids = EndTokens(words.model, loaded.config());
  turn.stop_strings = words.stop;
  turn.seed = words.seed;
  TM_ASSIGN_OR_RETURN(const auto engine, NewEngine(std::move(weights), 0, options));
  TM_RETURN_IF_ERROR(engine->Add({.id = 1, .prompt = std::move(ids), .turn = std::move(turn)}));
  while (engine->Work()) {
    TM_ASSIGN_OR_RETURN(std::vector<TurnOutput> finished, engine->Step());
    if (finished.empty()) continue;
    Generated generated{.turn = std::move(finished.front()), .text = {}};
    if (tokenizer.ok()) generated.text = tokenizer->Decode(generated.turn.ids);
    return generated;
  }
  return Internal("the engine stopped without an answer");
}

int Generate(const ModelWords& words) {
  const auto weights = LoadWeights(words);
  if (!weights.ok()) return Fail(weights.status());
  const auto ids = InputIds(words);
  if (!ids.ok()) return Fail(ids.status());
  const auto generated = RunGenerate(words, **weights, *weights, *ids);
  if (!generated.ok()) return Fail(generated.status());
  if (!words.json) {
    if (!generated->text.empty()) std::printf("%s\n", Shown(generated->text).c_str());
    return 0;
  }
  Json report{{"ids", generated->turn.ids},
              {"logprobs", generated->turn.logprobs},
              {"finish", FinishName(generated->turn.finish)}};
  if (!generated->text.empty()) report["text"] = generated->text;
  PrintJson(report);
  return 0;
}

// The files beside the weights that do not change with them.
Status CopyTokenizer(const std::string& from, const std::string& to) {
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
                           "special_tokens_map.json", "generation_config.json"}) {
    const std::filesystem::path source = std::filesystem::path(from) / name;
    std::error_code error;
    if (!std::filesystem::exists(source, error)) continue;
    std::filesystem::copy_file(source, std::filesystem::path(to) / name,
                               std::filesystem::copy_options::overwrite_existing, error);
    if (error) return Internal("cannot copy " + source.string() + ": " + error.message());
  }
  return Ok();
}

Status RefuseExisting(const std::string& out) {
  if (!std::filesystem::exists(std::filesystem::path(out) / "config.json")) return Ok();
  return Exists(out + " already contains a model; choose another directory");
}

int SayWritten(const ModelWords& words, const ModelConfig& config) {
  const int64_t parameters = config.ParameterCount();
  if (words.json) {
    PrintJson({{"out", words.out}, {"parameters", parameters}});
  } else {
    std::printf("%s: %lld parameters\n", words.out.c_str(), static_cast<long long>(parameters));
  }
  return 0;
}

int New(const ModelWords& words) {
  constexpr size_t kConfigBytesMax = size_t{1} << 20;
  if (const Status status = RefuseExisting(words.out); !status.ok()) return Fail(status);
  const std::string shape = ShapeFolder(words.config);
  const std::string file = shape == words.config ? words.config : shape + "/config.json";
  const auto json = ReadFileBounded(file, kConfigBytesMax);
  if (!json.ok()) return Fail(json.status());
  const auto config = ParseModelConfig(*json, words.config);
  if (!config.ok()) return Wrong(config.status());
  if (!words.tokenizer.empty()) {
    const auto tokenizer = Tokenizer::Read(words.tokenizer);
    if (!tokenizer.ok()) return Fail(tokenizer.status());
    if (tokenizer->vocab_size() > config->vocab_size) {
      return Fail(Invalid(words.config + ": \"vocab_size\" is " +
                          std::to_string(config->vocab_size) + ", the tokenizer has " +
                          std::to_string(tokenizer->vocab_size()) + " tokens"));
    }
  }
  Status status = WriteRandomModel(*config, words.seed, AvailableCores(), words.out);
  if (status.ok() && !words.tokenizer.empty()) status = CopyTokenizer(words.tokenizer, words.out);
  if (!status.ok()) return Fail(status);
  return SayWritten(words, *config);
}

int Merge(const ModelWords& words) {
  if (const Status status = RefuseExisting(words.out); !status.ok()) return Fail(status);
  // Kept in the type of the base, so that it stays what its files say.
  const auto base = PolicyWeights::Load(words.model);
  if (!base.ok()) return Fail(base.status());
  auto adapter = LoadAdapter(words.adapter, (*base)->config());
  if (!adapter.ok()) return Fail(adapter.status());
  const auto adapted = PolicyWeights::WithAdapter(*base, *adapter);
  if (!adapted.ok()) return Fail(adapted.status());
  const auto merged = PolicyWeights::Merged(*adapted);
  if (!merged.ok()) return Fail(merged.status());
  Status status = (*merged)->Save(words.out);
  if (status.ok()) status = CopyTokenizer(words.model, words.out);
  if (!status.ok()) return Fail(status);
  return SayWritten(words, (*merged)->config());
}

// Shared by the callbacks, which run after the Add functions have returned.
using SharedWords = std::shared_ptr<ModelWords>;

void AddModelOptions(CLI::App& command, ModelWords& words) {
  command.add_option("DIR,--model", words.model, "Hugging Face model directory")->required();
  command.add_flag("--json", words.json, "Print one JSON object on standard output");
}

void AddInputOptions(CLI::App& command, ModelWords& words) {
  AddModelOptions(command, words);
  command.add_option("--adapter", words.adapter, "LoRA adapter in PEFT's layout");
  command.add_option("--ids", words.ids, "Token ids, separated by commas")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--prompt", words.prompt, "Text; special tokens in it are recognised");
}

void AddScore(CLI::App& model, const SharedWords& words, Exit& exit) {
  CLI::App* command =
      model.add_subcommand("score", "Print the log-probability of every token after the first");
  AddInputOptions(*command, *words);
  command->callback([words, &exit, command] {
    exit.code = GaveOneInput(*command) ? Score(*words) : WrongInput();
  });
}

void AddGenerate(CLI::App& model, const SharedWords& words, Exit& exit) {
  CLI::App* command = model.add_subcommand("generate", "Generate a continuation of a text");
  AddInputOptions(*command, *words);
  command->add_option("--max-tokens", words->max_tokens, "Maximum number of new tokens")
      ->capture_default_str();
  CLI::Option* temperature =
      command->add_option("--temperature", words->sampling.temperature)->capture_default_str();
  command->add_flag("--greedy", words->greedy, "Greedy decoding")->excludes(temperature);
  command->add_option("--top-p", words->sampling.top_p)->capture_default_str();
  command->add_option("--top-k", words->sampling.top_k, "0: off")->capture_default_str();
  command->add_option("--min-p", words->sampling.min_p)->capture_default_str();
  command->add_option("--seed", words->seed)->capture_default_str();
  command->add_option("--stop", words->stop, "Stop string; may be repeated")
      ->allow_extra_args(false);
  command->add_flag("--ignore-eos", words->ignore_eos, "Do not stop at the model's end tokens");
  command->callback([words, &exit, command] {
    exit.code = GaveOneInput(*command) ? Generate(*words) : WrongInput();
  });
}

void AddTokenize(CLI::App& model, const SharedWords& words, Exit& exit) {
  CLI::App* command = model.add_subcommand("tokenize", "Convert text to token ids, or ids to text");
  AddModelOptions(*command, *words);
  command->add_option("--text-file", words->text_file, "Text file; -: standard input");
  command->add_option("--ids", words->ids, "Token ids, separated by commas")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->callback([words, &exit, command] {
    const auto given = [command](const char* name) { return command->count(name) > 0; };
    exit.code = RunModelTokenize(
        words->model, given("--text-file") ? std::optional(words->text_file) : std::nullopt,
        given("--ids") ? std::optional(words->ids) : std::nullopt, words->json);
  });
}

void AddRender(CLI::App& model, Exit& exit) {
  CLI::App* command = model.add_subcommand("render",
                                           "Render a conversation with the model's chat template "
                                           "(exit status 1: the template rejects it)");
  const auto words = std::make_shared<ModelRenderWords>();
  command
      ->add_option("CONVERSATION", words->conversation,
                   "JSON: messages, tools (a list or null), add_generation_prompt, kwargs")
      ->required();
  command->add_option("--model", words->model, "Model directory with the template");
  command->add_option("--template", words->template_file, "Jinja template file");
  command->add_option(
      "--now", words->now,
      "Time for templates that print it, such as 2025-03-14T09:26:53; default: now");
  command->add_option("--bos", words->bos, "Beginning-of-text token");
  command->add_option("--eos", words->eos, "End-of-text token");
  command->add_flag("--json", words->json,
                    "Print the text, the ranges that came from the conversation and, with --model, "
                    "the token ids as JSON");
  command->callback([words, &exit] { exit.code = RunModelRender(*words); });
}

void AddNew(CLI::App& model, const SharedWords& words, Exit& exit) {
  CLI::App* command = model.add_subcommand("new", "Create a model with random weights");
  command
      ->add_option("--config", words->config,
                   "A config.json, or a shape that comes with the program (0.5b to 235b-a22b)")
      ->required();
  command->add_option("--out", words->out, "Directory to create")->required();
  command->add_option("--tokenizer", words->tokenizer, "Directory to copy the tokenizer from");
  command->add_option("--seed", words->seed)->capture_default_str();
  command->add_flag("--json", words->json, "Print one JSON object on standard output");
  command->callback([words, &exit] { exit.code = New(*words); });
}

void AddMerge(CLI::App& model, const SharedWords& words, Exit& exit) {
  CLI::App* command = model.add_subcommand("merge", "Merge a LoRA adapter into a model");
  AddModelOptions(*command, *words);
  command->add_option("--adapter", words->adapter, "LoRA adapter in PEFT's layout")->required();
  command->add_option("--out", words->out, "Directory to create")->required();
  command->callback([words, &exit] { exit.code = Merge(*words); });
}

}  // namespace

void AddModelCommand(CLI::App& app, Exit& exit) {
  CLI::App* model = app.add_subcommand("model", "Inspect, use and create model directories");
  model->require_subcommand(1);
  const auto words = std::make_shared<ModelWords>();
  AddScore(*model, words, exit);
  AddGenerate(*model, words, exit);
  AddTokenize(*model, words, exit);
  AddRender(*model, exit);
  AddNew(*model, words, exit);
  AddMerge(*model, words, exit);
  AddModelImport(*model, exit);
}

}  // namespace tidemill
