#include "bench/gateway_under_test.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/served_config.h"
#include "core/files.h"
#include "engine/torch/torch_engine.h"
#include "gateway/wire.h"
#include "model/model_config.h"
#include "model/tokenizer_writer.h"
#include "model/torch/device.h"

namespace tidemill {
namespace {

constexpr uint64_t kBareTenant = 77;
constexpr int kSampleWords = 400;

// What agents' prompts are made of, more or less.
constexpr std::array kWords = {
    "the",     "function", "return",   "value",  "if",      "string",   "file",   "error",
    "to",      "class",    "int",      "const",  "message", "index",    "(self)", "with",
    "print",   "import",   "for",      "result", "a",       "def main", "test",   "== 0",
    "request", "and",      "buffer",   "of",     "src/",    "in range", "json",   "count += 1",
    "user",    "answer",   "parse",    "is",     "vector",  "size()",   "not",    "null",
    "while",   "path",     "tokens[i", "]",      "{",       "}\n",      "//",     "model",
    "config",  "number",   "switch",   "else",   "compile", "list",     "name",   "data"};

}  // namespace

double PercentileOf(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

GatewayUnderTest::~GatewayUnderTest() {
  gateway_.reset();
  if (made_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(made_, ignored);
}

Status GatewayUnderTest::Open() {
  TM_ASSIGN_OR_RETURN(device_, ResolveDevice(options_.device));
  TM_ASSIGN_OR_RETURN(weights_, StartWeights());
  EngineOptions engine_options;
  engine_options.threads = options_.threads;
  TM_ASSIGN_OR_RETURN(engine_options.cache_bytes, DefaultCacheBytes(device_));
  TM_ASSIGN_OR_RETURN(auto engine, NewEngine(weights_, 1, engine_options));
  plan_.context_tokens = engine->max_context();
  channel_ = NewLocalWeightChannel();
  engine_ =
      std::make_unique<EngineThread>(std::move(engine), *channel_, clock_, EngineThreadOptions{});
  TM_ASSIGN_OR_RETURN(ServedPolicy policy, ReadServedPolicy(Directory()));
  policy_.emplace(std::move(policy));
  policy_->end_ids.clear();  // every answer has its full length
  recorder_ = std::make_unique<PlainRecorder>(*policy_);
  tokens_per_word_ = 1;
  const std::string sample = Text(kSampleWords);
  tokens_per_word_ =
      static_cast<double>(policy_->tokenizer.Encode(sample, SpecialTokens::kAsText).size()) /
      kSampleWords;
  return Ok();
}

Status GatewayUnderTest::StartGateway() {
  GatewayOptions serve;
  serve.plan = plan_;
  TM_ASSIGN_OR_RETURN(
      gateway_, Gateway::Start(std::move(serve), *policy_, *engine_, *recorder_, clock_, metrics_));
  return Ok();
}

Result<std::shared_ptr<const PolicyWeights>> GatewayUnderTest::StartWeights() {
  if (!options_.model.empty()) {
    TM_ASSIGN_OR_RETURN(auto loaded, PolicyWeights::Load(options_.model, {.device = device_,
                                                                          .dtype = Dtype::kF32}));
    return WeightsToSample(loaded);
  }
  const ModelConfig config = ServedConfig(259);
  made_ = (std::filesystem::temp_directory_path() /
           ("tidemill-bench-gateway-" + std::to_string(clock_.WallMs())))
              .string();
  TM_RETURN_IF_ERROR(MakeDirectories(made_));
  TM_ASSIGN_OR_RETURN(
      const std::string tokenizer,
      TokenizerJson(ByteTokenizerSpec({"<|endoftext|>", "<|im_start|>", "<|im_end|>"})));
  TM_RETURN_IF_ERROR(WriteFileAtomically(made_ + "/tokenizer.json", tokenizer));
  TM_RETURN_IF_ERROR(WriteModelConfig(config, made_));
  return PolicyWeights::NewRandom(config, options_.seed);
}

std::string GatewayUnderTest::Text(int tokens) {
  std::string text;
  const int words = std::max(1, static_cast<int>(tokens / tokens_per_word_));
  for (int i = 0; i < words; ++i) {
    if (i > 0) text += ' ';
    text += kWords[random_.Below(kWords.size())];
  }
  return text;
}

Result<BenchQuestion> GatewayUnderTest::Ask(const Wish& wish) {
  BenchQuestion question;
  nlohmann::json body = {{"model", "bench"},
                         {"max_tokens", wish.tokens},
                         {"stream", true},
                         {"stream_options", {{"include_usage", true}}}};
  const std::string text = Text(wish.prompt);
  const Api api = policy_->chat ? Api::kChat : Api::kCompletions;
  if (policy_->chat) {
    nlohmann::json messages = nlohmann::json::array();
    if (!wish.history.empty()) {
      messages.push_back({{"role", "user"}, {"content", wish.history}});
      messages.push_back({{"role", "assistant"}, {"content", "Done."}});
    }
    messages.push_back({{"role", "user"}, {"content", text}});
    body["messages"] = std::move(messages);
    if (wish.every_token) body["logprobs"] = true;
  } else {
    body["prompt"] = wish.history + text;
    if (wish.every_token) body["logprobs"] = 0;
  }
  if (wish.token_ids) body["return_token_ids"] = true;
  question.body = body.dump();
  const ParsedRequest parsed = ParseRequest(api, question.body, WireLimits{});
  if (!parsed.ok()) return Invalid(parsed.error.message);
  const Tenant tenant;
  const std::map<std::string, std::string> headers;
  const TurnQuestion asked{.request = *parsed.request,
                           .tenant = tenant,
                           .headers = headers,
                           .request_id = "bench",
                           .body_sha256 = "",
                           .wall_ms = clock_.WallMs()};
  TM_ASSIGN_OR_RETURN(TurnPrompt prompt, recorder_->Prepare(asked));
  const TurnPlan plan =
      PlanTurns(*policy_, plan_, *parsed.request, prompt, {.seed = random_.Next()});
  if (plan.error) return Invalid(plan.error->message);
  question.prompt = std::move(prompt.prompts[0]);
  question.turn = plan.choices[0].params;
  return question;
}

Result<std::vector<BenchQuestion>> GatewayUnderTest::Ask(int count, const Wish& wish) {
  std::vector<BenchQuestion> questions;
  for (int i = 0; i < count; ++i) {
    TM_ASSIGN_OR_RETURN(BenchQuestion question, Ask(wish));
    questions.push_back(std::move(question));
  }
  return questions;
}

SequenceId GatewayUnderTest::StartBare(const BenchQuestion& question) {
  SequenceStart start;
  start.id = ++sequence_;
  start.prompt = question.prompt;
  start.turn = question.turn;
  start.tenant = kBareTenant;
  start.service = SequenceClass::kLive;
  start.stream = true;
  engine_->Start(std::move(start));
  return sequence_;
}

Result<std::vector<StreamTimes>> GatewayUnderTest::Stream(
    const std::vector<BenchQuestion>& questions, const StreamAllOptions& options) const {
  std::vector<std::string> bodies;
  for (const BenchQuestion& question : questions) bodies.push_back(question.body);
  return StreamAll(gateway_->port(), policy_->chat ? "/v1/chat/completions" : "/v1/completions",
                   bodies, options);
}

void GatewayUnderTest::Publish() {
  ++published_;
  (void)channel_->Publish({published_, published_, weights_});
}

size_t GatewayUnderTest::open() const {
  const GatewayLoop::Counts counts = gateway_->counts();
  return counts.waiting + counts.running;
}

}  // namespace tidemill
