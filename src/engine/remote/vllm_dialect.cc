// vLLM 0.32: /inference/v1/generate with token ids, and the development routes for weights.
#include <cmath>

#include "engine/remote/server_dialect.h"
#include "engine/remote/wire_reading.h"

namespace tidemill {
namespace {

constexpr int32_t kVllmTopMax = 20;  // its --max-logprobs
constexpr char kVllmRoute[] = "/inference/v1/generate";
// vLLM puts this in front of the ids of its requests.
constexpr char kVllmIdPrefix[] = "generate-tokens-";
constexpr int kVllmCanaryPriority = -1000;

class VllmReader final : public ServedReader {
 public:
  Result<ServedPart> Read(std::string_view bytes) override {
    ServedPart part;
    TM_RETURN_IF_ERROR(events_.Add(bytes));
    while (const auto data = events_.Next()) {
      if (*data == "[DONE]") continue;
      TM_RETURN_IF_ERROR(ReadChunk(*data, part));
    }
    return part;
  }
  Result<ServedPart> Finish() override { return ServedPart(); }

  static Status ReadChoice(const ServerJson& choice, ServedPart& part) {
    TM_RETURN_IF_ERROR(ReadTokens(choice, part));
    const auto end = choice.find("finish_reason");
    if (end == choice.end() || end->is_null()) return Ok();
    const std::string reason = end->is_string() ? end->get<std::string>() : end->dump();
    if (reason != "stop" && reason != "length" && reason != "abort") {
      return Unavailable("its answer ends with \"" + reason + "\"");
    }
    part.end = reason == "stop"     ? ServedEnd::kStop
               : reason == "length" ? ServedEnd::kLength
                                    : ServedEnd::kAbort;
    const auto versions = choice.find("weight_versions");
    if (versions == choice.end()) return Ok();
    TM_ASSIGN_OR_RETURN(part.versions, ReadSpans(*versions));
    return Ok();
  }

 private:
  static Status ReadChunk(std::string_view data, ServedPart& part) {
    TM_ASSIGN_OR_RETURN(const ServerJson chunk, ReadServerJson(data));
    if (chunk.contains("error")) return Unavailable("it reports: " + chunk["error"].dump());
    const auto usage = chunk.find("usage");
    if (usage != chunk.end() && usage->is_object()) {
      const auto details = usage->find("prompt_tokens_details");
      if (details != usage->end() && details->is_object()) {
        part.cached_tokens = details->value("cached_tokens", 0u);
      }
    }
    const auto choices = chunk.find("choices");
    if (choices == chunk.end() || !choices->is_array()) {
      return Unavailable("its answer has no \"choices\"");
    }
    if (choices->empty()) return Ok();
    if (!choices->front().is_object()) return Unavailable("its answer's choice is no object");
    return ReadChoice(choices->front(), part);
  }

  static Status ReadTokens(const ServerJson& choice, ServedPart& part) {
    const auto ids = choice.find("token_ids");
    if (ids == choice.end() || !ids->is_array() || ids->empty()) return Ok();
    const auto logprobs = choice.find("logprobs");
    const ServerJson* content = nullptr;
    if (logprobs != choice.end() && logprobs->is_object()) {
      const auto found = logprobs->find("content");
      if (found != logprobs->end() && found->is_array()) content = &*found;
    }
    if (content == nullptr || content->size() != ids->size()) {
      return Unavailable("its answer has tokens without their log-probabilities");
    }
    for (size_t i = 0; i < ids->size(); ++i) {
      const ServerJson& drawn = (*content)[i];
      TM_ASSIGN_OR_RETURN(const TokenId id, ReadTokenId((*ids)[i]));
      if (!drawn.is_object() || !drawn.contains("logprob")) {
        return Unavailable("its answer has a token without a log-probability");
      }
      TM_ASSIGN_OR_RETURN(const float logprob, ReadLogprob(drawn["logprob"]));
      part.ids.push_back(id);
      part.logprobs.push_back(logprob);
      std::vector<TokenLogprob> top;
      const auto others = drawn.find("top_logprobs");
      if (others != drawn.end() && others->is_array()) {
        for (const ServerJson& other : *others) {
          if (!other.is_object() || !other.contains("token_id") || !other.contains("logprob")) {
            return Unavailable("its answer has a candidate that is none");
          }
          TM_ASSIGN_OR_RETURN(const TokenId candidate, ReadTokenId(other["token_id"]));
          TM_ASSIGN_OR_RETURN(const float score, ReadLogprob(other["logprob"]));
          top.push_back({.id = candidate, .logprob = score});
        }
      }
      part.top.push_back(std::move(top));
    }
    return Ok();
  }

  EventData events_;
};

class VllmDialect final : public ServerDialect {
 public:
  std::string_view name() const override { return "vllm"; }

  Status Check(const TurnParams& turn) const override {
    if (turn.sampling.top_logprobs > kVllmTopMax) {
      return Invalid("top_logprobs must be at most " + std::to_string(kVllmTopMax) +
                     " with engine.backend = vllm");
    }
    return Ok();
  }
  Status Check(CacheOnSwap) const override { return Ok(); }

  HttpAsk Generate(const TurnAsk& turn) const override {
    ServerJson params = {{"temperature", turn.sampling.temperature},
                         {"top_p", turn.sampling.top_p},
                         {"top_k", turn.sampling.top_k},
                         {"min_p", turn.sampling.min_p},
                         {"seed", turn.seed & INT64_MAX},
                         {"max_tokens", turn.max_new_tokens},
                         {"stop_token_ids", turn.stop_ids},
                         {"ignore_eos", true},
                         {"logprobs", std::max(0, turn.sampling.top_logprobs)},
                         {"detokenize", false}};
    return JsonAsk(kVllmRoute, {{"request_id", turn.id},
                                {"token_ids", turn.ids},
                                {"cache_salt", turn.salt},
                                {"priority", turn.live ? -1 : 0},
                                {"stream", true},
                                {"stream_options", {{"include_usage", true}}},
                                {"sampling_params", std::move(params)}});
  }
  std::unique_ptr<ServedReader> NewReader() const override {
    return std::make_unique<VllmReader>();
  }
  HttpAsk Abort(const std::string& turn_id) const override {
    return JsonAsk("/inference/v1/abort_requests", {{"request_ids", {kVllmIdPrefix + turn_id}}});
  }

  std::vector<ControlCall> Greeting() const override {
    return {{"asking for its health", PlainAsk("GET", "/health")},
            {"asking for its model", PlainAsk("GET", "/v1/models")},
            {"asking whether it is paused", PlainAsk("GET", "/is_paused")},
            {"opening the way for weights",
             JsonAsk("/init_weight_transfer_engine", {{"init_info", ServerJson::object()}})}};
  }
  Status ReadGreeting(size_t call, int status, const std::string& body,
                      ServerAbilities& abilities) const override {
    if (call == 0) return status == 200 ? Ok() : Unavailable("it is not ready");
    if (call == 2 && status == 404) {
      return Invalid("it has no routes for weights; start vLLM with VLLM_SERVER_DEV_MODE=1");
    }
    if (call == 3 && status != 200) {
      return Invalid("it takes no weights; start vLLM with the plugin tidemill_vllm and " +
                     std::string("--weight-transfer-config '{\"backend\":\"tidemill\"}' (") +
                     ServerSays(status, body).message() + ")");
    }
    if (status != 200) return Unavailable(ServerSays(status, body).message());
    if (call != 1) return Ok();
    TM_ASSIGN_OR_RETURN(const ServerJson models, ReadServerJson(body));
    const auto data = models.find("data");
    if (data == models.end() || !data->is_array() || data->empty() || !data->front().is_object()) {
      return Unavailable("it names no model");
    }
    const ServerJson& model = data->front();
    if (model.contains("max_model_len") && model["max_model_len"].is_number_unsigned()) {
      abilities.max_context = model["max_model_len"].get<int32_t>();
    }
    return Ok();
  }

  std::vector<ControlCall> Update(const WeightFiles& files, CacheOnSwap cache,
                                  bool repair) const override {
    using When = ControlCall::When;
    const ServerJson file = {
        {"path", files.file}, {"bytes", files.bytes}, {"checksum", files.checksum}};
    const std::string version = std::to_string(files.version);
    std::vector<ControlCall> calls;
    if (!repair) {
      calls.push_back({"prefetching", JsonAsk("/collective_rpc", {{"method", "tidemill_prefetch"},
                                                                  {"args", {file.dump()}}})});
    }
    calls.push_back({"pausing", PlainAsk("POST", "/pause?mode=keep"), When::kFrozen});
    if (repair) {
      // An update that failed half-way is closed first; where none is open this is refused.
      calls.push_back({"closing the update that failed",
                       JsonAsk("/finish_weight_update", ServerJson::object()), When::kFrozen,
                       /*may_fail=*/true});
    }
    calls.push_back(
        {"starting the update", PlainAsk("POST", "/start_weight_update"), When::kFrozen});
    calls.push_back(
        {"updating", JsonAsk("/update_weights", {{"update_info", file}}), When::kFrozen});
    calls.push_back({"finishing the update",
                     JsonAsk("/finish_weight_update", {{"weight_version", version}}),
                     When::kFrozen});
    if (cache == CacheOnSwap::kRebuild) {
      calls.push_back({"forgetting cached pages",
                       PlainAsk("POST", "/reset_prefix_cache?reset_running_requests=true"),
                       When::kFrozen});
    }
    calls.push_back({"resuming", PlainAsk("POST", "/resume"), When::kResume});
    return calls;
  }
  Result<ControlOutcome> ReadUpdate(const ControlCall& call, int status,
                                    const std::string& body) const override {
    if (status != 200) return ServerSays(status, body);
    if (call.what != "prefetching") return ControlOutcome::kDone;
    // One answer for each rank: "reading", "ready", or what is wrong.
    TM_ASSIGN_OR_RETURN(const ServerJson json, ReadServerJson(body));
    const auto results = json.find("results");
    if (results == json.end() || !results->is_array()) return ServerSays(status, body);
    ControlOutcome outcome = ControlOutcome::kDone;
    for (const ServerJson& rank : *results) {
      if (rank == "reading") {
        outcome = ControlOutcome::kAgain;
      } else if (rank != "ready") {
        return Unavailable("a rank of it cannot read the weights: " + rank.dump());
      }
    }
    return outcome;
  }

  HttpAsk Score(const std::vector<TokenId>& ids, const std::string& salt) const override {
    // The one most likely token: where what is reported is what was drawn from, its
    // log-probability is 0.
    ServerJson params = {{"temperature", 1.0}, {"top_k", 1},    {"max_tokens", 1},
                         {"ignore_eos", true}, {"logprobs", 0}, {"prompt_logprobs", 0},
                         {"detokenize", false}};
    return JsonAsk(kVllmRoute, {{"request_id", salt},
                                {"token_ids", ids},
                                {"cache_salt", salt},
                                {"priority", kVllmCanaryPriority},
                                {"stream", false},
                                {"sampling_params", std::move(params)},
                                // The answer names log-probabilities by token id.
                                {"return_token_ids", true}});
  }
  Result<Scores> ReadScore(int status, const std::string& body) const override {
    if (status == 403 || status == 404) {
      return Invalid("it takes no token ids; start vLLM with --enable-scale-out");
    }
    if (status == 400 && body.find("priority") != std::string::npos) {
      return Invalid("it knows no priorities; start vLLM with --scheduling-policy priority");
    }
    if (status != 200) return ServerSays(status, body);
    TM_ASSIGN_OR_RETURN(const ServerJson json, ReadServerJson(body));
    const auto choices = json.find("choices");
    const auto given = json.find("prompt_logprobs"), ids = json.find("prompt_token_ids");
    if (choices == json.end() || !choices->is_array() || choices->size() != 1 ||
        given == json.end() || !given->is_array() || ids == json.end() || !ids->is_array() ||
        ids->size() != given->size()) {
      return Unavailable("its answer has no log-probabilities of the prompt");
    }
    ServedPart drawn;
    TM_RETURN_IF_ERROR(VllmReader::ReadChoice(choices->front(), drawn));
    if (drawn.logprobs.size() != 1 || std::abs(drawn.logprobs[0]) > 1e-6f) {
      return Invalid("it reports other log-probabilities than it draws from; start vLLM with " +
                     std::string("--logprobs-mode processed_logprobs"));
    }
    Scores scores;
    if (drawn.versions.size() == 1) scores.version = drawn.versions.front().version;
    for (size_t i = 1; i < given->size(); ++i) {
      const ServerJson& place = (*given)[i];
      const std::string id = (*ids)[i].dump();
      if (!place.is_object() || !place.contains(id) || !place[id].is_object() ||
          !place[id].contains("logprob")) {
        return Unavailable("its answer has no log-probability of token " + id);
      }
      TM_ASSIGN_OR_RETURN(const float logprob, ReadLogprob(place[id]["logprob"]));
      scores.logprobs.push_back(logprob);
    }
    return scores;
  }

  HttpAsk Load() const override { return PlainAsk("GET", "/metrics"); }
  std::optional<uint32_t> ReadLoad(int status, const std::string& body) const override {
    if (status != 200) return std::nullopt;
    const auto running = ReadMetric(body, "vllm:num_requests_running");
    const auto waiting = ReadMetric(body, "vllm:num_requests_waiting");
    if (!running || !waiting) return std::nullopt;
    return static_cast<uint32_t>(*running + *waiting);
  }
};

}  // namespace

std::unique_ptr<ServerDialect> NewVllmDialect() {
  return std::make_unique<VllmDialect>();
}

}  // namespace tidemill
