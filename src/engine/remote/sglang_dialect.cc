// SGLang 0.5.23, by its sources: /generate with input_ids, and its routes for weights from disk.
#include "engine/remote/server_dialect.h"
#include "engine/remote/wire_reading.h"

namespace tidemill {
namespace {

constexpr int32_t kSglangTopMax = 64;
constexpr char kSglangRoute[] = "/generate";

// Ids come with each chunk, all of them or the new ones, as the server was started;
// "completion_tokens" counts from the beginning either way.
class SglangReader final : public ServedReader {
 public:
  Result<ServedPart> Read(std::string_view bytes) override {
    ServedPart part;
    if (whole_.empty() && !streams_) {
      const size_t begin = bytes.find_first_not_of(" \r\n");
      if (begin == std::string_view::npos) return part;
      streams_ = bytes[begin] != '{';
    }
    if (!streams_) {
      whole_.append(bytes);
      return part;
    }
    TM_RETURN_IF_ERROR(events_.Add(bytes));
    while (const auto data = events_.Next()) {
      if (*data == "[DONE]") continue;
      TM_ASSIGN_OR_RETURN(const ServerJson chunk, ReadServerJson(*data));
      TM_RETURN_IF_ERROR(ReadChunk(chunk, part));
    }
    return part;
  }
  Result<ServedPart> Finish() override {
    ServedPart part;
    if (streams_ || whole_.empty()) return part;
    TM_ASSIGN_OR_RETURN(const ServerJson json, ReadServerJson(whole_));
    TM_RETURN_IF_ERROR(ReadChunk(json, part));
    return part;
  }

 private:
  Status ReadChunk(const ServerJson& chunk, ServedPart& part) {
    if (chunk.contains("error")) return Unavailable("it reports: " + chunk["error"].dump());
    const auto ids = chunk.find("output_ids");
    const auto meta = chunk.find("meta_info");
    if (ids == chunk.end() || !ids->is_array() || meta == chunk.end() || !meta->is_object()) {
      return Unavailable("its answer has no \"output_ids\" and \"meta_info\"");
    }
    const auto count = meta->find("completion_tokens");
    if (count == meta->end() || !count->is_number_unsigned() || count->get<size_t>() < seen_) {
      return Unavailable("its answer has no count of tokens");
    }
    const size_t total = count->get<size_t>();
    TM_RETURN_IF_ERROR(ReadTokens(*ids, *meta, total, part));
    seen_ = total;
    if (meta->contains("cached_tokens") && (*meta)["cached_tokens"].is_number_unsigned()) {
      part.cached_tokens = (*meta)["cached_tokens"].get<uint32_t>();
    }
    const auto end = meta->find("finish_reason");
    if (end == meta->end() || end->is_null()) return Ok();
    const std::string reason = end->is_object() ? end->value("type", "") : end->dump();
    if (reason != "stop" && reason != "length" && reason != "abort") {
      return Unavailable("its answer ends with \"" + reason + "\"");
    }
    part.end = reason == "stop"     ? ServedEnd::kStop
               : reason == "length" ? ServedEnd::kLength
                                    : ServedEnd::kAbort;
    const auto versions = meta->find("weight_versions");
    if (versions == meta->end()) return Ok();
    TM_ASSIGN_OR_RETURN(part.versions, ReadSpans(*versions));
    return Ok();
  }

  Status ReadTokens(const ServerJson& ids, const ServerJson& meta, size_t total,
                    ServedPart& part) const {
    const size_t fresh = total - seen_;
    if (fresh == 0) return Ok();
    const auto logprobs = meta.find("output_token_logprobs");
    if (ids.size() < fresh || logprobs == meta.end() || !logprobs->is_array() ||
        logprobs->size() < fresh) {
      return Unavailable("its answer has fewer tokens or log-probabilities than it counts");
    }
    const auto tops = meta.find("output_top_logprobs");
    const bool top = tops != meta.end() && tops->is_array() && tops->size() >= fresh;
    for (size_t i = fresh; i > 0; --i) {
      const ServerJson& drawn = (*logprobs)[logprobs->size() - i];
      if (!drawn.is_array() || drawn.size() < 2 || drawn[1] != ids[ids.size() - i]) {
        return Unavailable("its answer's log-probabilities are of other tokens");
      }
      TM_ASSIGN_OR_RETURN(const TokenId id, ReadTokenId(drawn[1]));
      TM_ASSIGN_OR_RETURN(const float logprob, ReadLogprob(drawn[0]));
      part.ids.push_back(id);
      part.logprobs.push_back(logprob);
      part.top.emplace_back();
      if (!top || !(*tops)[tops->size() - i].is_array()) continue;
      for (const ServerJson& other : (*tops)[tops->size() - i]) {
        if (!other.is_array() || other.size() < 2) {
          return Unavailable("its answer has a candidate that is none");
        }
        TM_ASSIGN_OR_RETURN(const TokenId candidate, ReadTokenId(other[1]));
        TM_ASSIGN_OR_RETURN(const float score, ReadLogprob(other[0]));
        part.top.back().push_back({.id = candidate, .logprob = score});
      }
    }
    return Ok();
  }

  EventData events_;
  std::string whole_;  // of an answer that is no stream
  bool streams_ = false;
  size_t seen_ = 0;  // tokens
};

class SglangDialect final : public ServerDialect {
 public:
  std::string_view name() const override { return "sglang"; }

  Status Check(const TurnParams& turn) const override {
    // What it reports is not normalised over what truncation left.
    if (turn.sampling.Truncates()) {
      return Invalid(
          "top_p, top_k and min_p are not possible with engine.backend = sglang, which does not "
          "report the log-probabilities of a truncated distribution");
    }
    if (turn.sampling.top_logprobs > kSglangTopMax) {
      return Invalid("top_logprobs must be at most " + std::to_string(kSglangTopMax) +
                     " with engine.backend = sglang");
    }
    return Ok();
  }
  Status Check(CacheOnSwap cache) const override {
    if (cache == CacheOnSwap::kRebuild) return Ok();
    return Invalid(
        "rollout.cache_on_swap: keep is not possible with engine.backend = sglang, which may "
        "label a token drawn while it pauses with the wrong version; use rebuild");
  }

  HttpAsk Generate(const TurnAsk& turn) const override {
    ServerJson params = {{"temperature", turn.sampling.temperature},
                         {"sampling_seed", turn.seed & INT64_MAX},
                         {"max_new_tokens", turn.max_new_tokens},
                         {"stop_token_ids", turn.stop_ids},
                         {"ignore_eos", true}};
    return JsonAsk(kSglangRoute, {{"rid", turn.id},
                                  {"input_ids", turn.ids},
                                  {"sampling_params", std::move(params)},
                                  {"return_logprob", true},
                                  {"top_logprobs_num", std::max(0, turn.sampling.top_logprobs)},
                                  // A stream may repeat all tokens with each chunk.
                                  {"stream", turn.as_drawn},
                                  {"extra_key", turn.salt},
                                  {"priority", turn.live ? 1 : 0}});
  }
  std::unique_ptr<ServedReader> NewReader() const override {
    return std::make_unique<SglangReader>();
  }
  HttpAsk Abort(const std::string& turn_id) const override {
    return JsonAsk("/abort_request", {{"rid", turn_id}});
  }

  std::vector<ControlCall> Greeting() const override {
    return {{"asking for its health", PlainAsk("GET", "/health")},
            {"asking for its model", PlainAsk("GET", "/v1/models")}};
  }
  Status ReadGreeting(size_t call, int status, const std::string& body,
                      ServerAbilities& abilities) const override {
    if (call == 0) return status == 200 ? Ok() : Unavailable("it is not ready");
    if (status != 200) return Unavailable(ServerSays(status, body).message());
    TM_ASSIGN_OR_RETURN(const ServerJson models, ReadServerJson(body));
    const auto data = models.find("data");
    if (data != models.end() && data->is_array() && !data->empty() && data->front().is_object() &&
        data->front().contains("max_model_len") &&
        data->front()["max_model_len"].is_number_unsigned()) {
      abilities.max_context = data->front()["max_model_len"].get<int32_t>();
    }
    return Ok();
  }

  std::vector<ControlCall> Update(const WeightFiles& files, CacheOnSwap, bool) const override {
    using When = ControlCall::When;
    return {
        {"pausing", JsonAsk("/pause_generation", {{"mode", "retract"}}), When::kFrozen},
        {"updating",
         JsonAsk("/update_weights_from_disk", {{"model_path", files.folder},
                                               {"weight_version", std::to_string(files.version)},
                                               {"flush_cache", false}}),
         When::kFrozen},
        {"resuming", JsonAsk("/continue_generation", ServerJson::object()), When::kResume}};
  }
  Result<ControlOutcome> ReadUpdate(const ControlCall&, int status,
                                    const std::string& body) const override {
    if (status != 200) return ServerSays(status, body);
    const ServerJson json = ServerJson::parse(body, nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && json.contains("success") && json["success"] != true) {
      return ServerSays(500, body);
    }
    return ControlOutcome::kDone;
  }

  HttpAsk Score(const std::vector<TokenId>& ids, const std::string& salt) const override {
    ServerJson params = {{"temperature", 1.0}, {"max_new_tokens", 1}, {"ignore_eos", true}};
    return JsonAsk(kSglangRoute, {{"rid", salt},
                                  {"input_ids", ids},
                                  {"sampling_params", std::move(params)},
                                  {"return_logprob", true},
                                  {"logprob_start_len", 0},
                                  {"stream", false},
                                  {"extra_key", salt}});
  }
  Result<Scores> ReadScore(int status, const std::string& body) const override {
    if (status != 200) return ServerSays(status, body);
    TM_ASSIGN_OR_RETURN(const ServerJson json, ReadServerJson(body));
    const auto meta = json.find("meta_info");
    if (meta == json.end() || !meta->is_object() || !meta->contains("input_token_logprobs") ||
        !(*meta)["input_token_logprobs"].is_array()) {
      return Unavailable("its answer has no log-probabilities of the prompt");
    }
    Scores scores;
    const auto versions = meta->find("weight_versions");
    if (versions != meta->end()) {
      TM_ASSIGN_OR_RETURN(const std::vector<VersionSpan> spans, ReadSpans(*versions));
      if (spans.size() == 1) scores.version = spans.front().version;
    }
    const ServerJson& given = (*meta)["input_token_logprobs"];
    for (size_t i = 1; i < given.size(); ++i) {
      if (!given[i].is_array() || given[i].empty()) {
        return Unavailable("its answer has a token without a log-probability");
      }
      TM_ASSIGN_OR_RETURN(const float logprob, ReadLogprob(given[i][0]));
      scores.logprobs.push_back(logprob);
    }
    return scores;
  }

  HttpAsk Load() const override { return PlainAsk("GET", "/metrics"); }
  std::optional<uint32_t> ReadLoad(int status, const std::string& body) const override {
    if (status != 200) return std::nullopt;
    const auto running = ReadMetric(body, "sglang:num_running_reqs");
    const auto waiting = ReadMetric(body, "sglang:num_queue_reqs");
    if (!running || !waiting) return std::nullopt;
    return static_cast<uint32_t>(*running + *waiting);
  }
};

}  // namespace

std::unique_ptr<ServerDialect> NewSglangDialect() {
  return std::make_unique<SglangDialect>();
}

}  // namespace tidemill
