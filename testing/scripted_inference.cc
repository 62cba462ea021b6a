#include "testing/scripted_inference.h"

#include <algorithm>
#include <filesystem>

#include "testing/ledger_backend.h"

namespace tidemill {
namespace {

constexpr size_t kKeptBySalt = 8;
constexpr size_t kCacheBlock = 16;
constexpr uint64_t kHalfLoaded = uint64_t{1} << 40;  // added to a number: weights half of which are

uint64_t HashOf(std::span<const TokenId> tokens, uint64_t weights) {
  uint64_t last = 0;
  for (const TokenId token : tokens) {
    last = LedgerMix(LedgerMix(last, static_cast<uint64_t>(token)), weights);
  }
  return last;
}

std::string JsonText(const nlohmann::json& json) {
  return json.dump();
}

}  // namespace

struct ScriptedInference::Request {
  std::string id, salt;
  std::vector<TokenId> ids;  // all so far
  size_t prompt = 0;
  uint64_t hash = 0;  // what was computed of them, as it was
  uint64_t seed = 0;
  double temperature = 1;
  size_t max_tokens = 0;
  std::vector<TokenId> stops;
  bool stream = false, begun = false;
  int top = 0;
  uint32_t cached = 0;
  std::vector<float> logprobs;
  std::vector<VersionSpan> spans;
  std::unique_ptr<ScriptedReply> reply;

  size_t answered() const { return ids.size() - prompt; }
};

ScriptedInference::ScriptedInference(Options options) : options_(options) {}
ScriptedInference::~ScriptedInference() = default;

float ScriptedInference::ScoreOf(std::span<const TokenId> before, TokenId id, uint64_t weights) {
  return LedgerDraw(HashOf(before, weights), static_cast<uint64_t>(id), 0).logprob;
}

Canary ScriptedInference::CanaryOf(std::vector<TokenId> ids, uint64_t weights) {
  Canary canary;
  for (size_t i = 1; i < ids.size(); ++i) {
    canary.logprobs.push_back(ScoreOf({ids.data(), i}, ids[i], weights));
  }
  canary.ids = std::move(ids);
  return canary;
}

void ScriptedInference::Ask(const std::string&, const std::string& target, const std::string& body,
                            std::unique_ptr<ScriptedReply> reply) {
  const std::string path = target.substr(0, target.find('?'));
  const Json json = body.empty() ? Json::object() : Json::parse(body, nullptr, false);
  if (json.is_discarded()) return reply->Send(400, "application/json", R"({"error":"no JSON"})");
  const bool vllm = options_.kind == ScriptedKind::kVllm;
  if (path == "/health") return reply->Send(200, "text/plain", "");
  if (path == "/v1/models") {
    return reply->Send(
        200, "application/json",
        JsonText({{"data", {{{"id", "m"}, {"max_model_len", options_.max_context}}}}}));
  }
  if (path == "/metrics") {
    const std::string name = vllm ? "vllm:num_requests_running" : "sglang:num_running_reqs";
    const std::string queue = vllm ? "vllm:num_requests_waiting" : "sglang:num_queue_reqs";
    return reply->Send(200, "text/plain",
                       "# HELP " + name + " x\n" + name + "{engine=\"0\"} " +
                           std::to_string(requests_.size()) + ".0\n" + queue +
                           "{engine=\"0\"} 0.0\n");
  }
  if (path == (vllm ? "/inference/v1/generate" : "/generate")) {
    return Generate(json, std::move(reply));
  }
  if (vllm ? ControlVllm(target, json, *reply) : ControlSglang(path, json, *reply)) return;
  reply->Send(404, "application/json", R"({"detail":"Not Found"})");
}

bool ScriptedInference::ControlVllm(const std::string& target, const Json& body,
                                    ScriptedReply& reply) {
  const std::string path = target.substr(0, target.find('?'));
  const auto done = [&] {
    reply.Send(200, "application/json", "{}");
    return true;
  };
  const auto failed = [&](const std::string& why) {
    reply.Send(500, "application/json", JsonText({{"error", why}}));
    return true;
  };
  if (path == "/is_paused" || path == "/init_weight_transfer_engine") return done();
  if (path == "/collective_rpc") {
    reply.Send(200, "application/json", R"({"results":["ready"]})");
    return true;
  }
  if (path == "/pause") {
    paused_ = true;
    return done();
  }
  if (path == "/resume") {
    paused_ = false;
    return done();
  }
  if (path == "/start_weight_update") {
    if (updating_) return failed("an update is active");
    updating_ = true;
    return done();
  }
  if (path == "/update_weights") {
    if (!updating_) return failed("start_weight_update must be called before");
    if (!paused_ && !requests_.empty()) {
      Restart();  // an engine whose weights change in a step dies
      return failed("EngineDeadError");
    }
    Load(body.at("update_info").at("path"), reply);
    return true;
  }
  if (path == "/finish_weight_update") {
    if (!updating_) return failed("without a matching start_weight_update");
    updating_ = false;
    if (body.contains("weight_version")) version_ = body["weight_version"];
    return done();
  }
  if (path == "/reset_prefix_cache") {
    cache_.clear();
    for (const auto& request : requests_) request->hash = HashOf(request->ids, weights_);
    return done();
  }
  if (path == "/inference/v1/abort_requests") {
    for (const Json& id : body.at("request_ids")) {
      const std::string text = id;
      Abort(text.substr(std::string("generate-tokens-").size()));
    }
    return done();
  }
  return false;
}

bool ScriptedInference::ControlSglang(const std::string& path, const Json& body,
                                      ScriptedReply& reply) {
  const auto done = [&] {
    reply.Send(200, "application/json", R"({"success":true})");
    return true;
  };
  if (path == "/pause_generation") {
    paused_ = true;
    return done();
  }
  if (path == "/continue_generation") {
    paused_ = false;
    for (const auto& request : requests_) request->hash = HashOf(request->ids, weights_);
    return done();
  }
  if (path == "/update_weights_from_disk") {
    const std::string version = body.at("weight_version");
    if (Load(body.at("model_path"), reply)) version_ = version;
    return true;
  }
  if (path == "/abort_request") {
    Abort(body.at("rid"));
    return done();
  }
  return false;
}

// The number behind the last '-' of a name stands for the weights in it. Answers; whether it did.
bool ScriptedInference::Load(const std::string& path, ScriptedReply& reply) {
  if (options_.model != nullptr && faults.failing_updates == 0) {
    const bool loaded = faults.label_only || options_.model->Load(path);
    if (loaded) ++loads_;
    reply.Send(loaded ? 200 : 500, "application/json", loaded ? R"({"success":true})" : "{}");
    return loaded;
  }
  std::string name = path;
  if (const size_t dot = name.rfind(".safetensors"); dot != std::string::npos) name.resize(dot);
  const uint64_t number = std::stoull(name.substr(name.rfind('-') + 1));
  if (faults.failing_updates > 0) {
    --faults.failing_updates;
    weights_ = number + kHalfLoaded;
    torn_ = true;
    reply.Send(500, "application/json", R"({"error":"cannot read the file","success":false})");
    return false;
  }
  ++loads_;
  torn_ = faults.half_update;
  if (!faults.label_only) weights_ = faults.half_update ? number + kHalfLoaded : number;
  reply.Send(200, "application/json", R"({"success":true})");
  return true;
}

void ScriptedInference::Abort(const std::string& id) {
  for (auto it = requests_.begin(); it != requests_.end(); ++it) {
    if ((*it)->id != id) continue;
    const std::unique_ptr<Request> request = std::move(*it);
    requests_.erase(it);
    Tell(*request, request->answered(), "abort");
    return;
  }
}

void ScriptedInference::Generate(const Json& body, std::unique_ptr<ScriptedReply> reply) {
  const bool vllm = options_.kind == ScriptedKind::kVllm;
  const Json& params = body.at("sampling_params");
  const auto refuse = [&](const std::string& why) {
    reply->Send(400, "application/json", JsonText({{"error", {{"message", why}}}}));
  };
  auto request = std::make_unique<Request>();
  request->ids = body.at(vllm ? "token_ids" : "input_ids").get<std::vector<TokenId>>();
  request->prompt = request->ids.size();
  if (request->ids.empty()) return refuse("token_ids must not be empty");
  for (const TokenId id : request->ids) {
    if (id < 0 || id >= options_.vocabulary) return refuse("a token id is out of vocabulary");
  }
  request->max_tokens = params.at(vllm ? "max_tokens" : "max_new_tokens");
  if (request->prompt + request->max_tokens > static_cast<size_t>(options_.max_context)) {
    return refuse("the prompt and max_tokens are longer than max_model_len");
  }
  if (params.contains("prompt_logprobs") || body.contains("logprob_start_len")) {
    return Score(body, *reply);
  }
  request->id = body.at(vllm ? "request_id" : "rid");
  request->salt = body.at(vllm ? "cache_salt" : "extra_key");
  request->seed = params.at(vllm ? "seed" : "sampling_seed");
  request->temperature = params.value("temperature", 1.0);
  request->stops = params.at("stop_token_ids").get<std::vector<TokenId>>();
  request->stream = body.at("stream");
  request->top = vllm ? params.at("logprobs").get<int>() : body.at("top_logprobs_num").get<int>();
  request->cached = Cached(request->salt, request->ids);
  request->hash = HashOf(request->ids, weights_);
  request->reply = std::move(reply);
  requests_.push_back(std::move(request));
}

std::string ScriptedInference::VersionOf(uint64_t) const {
  if (!faults.false_version.empty()) return faults.false_version;
  if (faults.span_shift == 0 || version_ == "default") return version_;
  return std::to_string(std::stoull(version_) + faults.span_shift);
}

void ScriptedInference::Score(const Json& body, ScriptedReply& reply) const {
  const bool vllm = options_.kind == ScriptedKind::kVllm;
  const auto ids = body.at(vllm ? "token_ids" : "input_ids").get<std::vector<TokenId>>();
  Json prompt = Json::array({nullptr}), input = Json::array({{nullptr, ids[0], nullptr}});
  const std::vector<float> scores =
      options_.model != nullptr ? options_.model->Score(ids) : CanaryOf(ids, weights_).logprobs;
  for (size_t i = 1; i < ids.size(); ++i) {
    const float logprob = scores.at(i - 1);
    prompt.push_back({{std::to_string(ids[i]), {{"logprob", logprob}, {"rank", 1}}}});
    input.push_back({logprob, ids[i], nullptr});
  }
  const Json spans = {{{"version", version_}, {"start", 0}, {"end", 1}}};
  if (vllm) {
    const Json content = {{{"token_id", 1}, {"logprob", 0.0}, {"rank", 1}}};
    const Json choice = {{"index", 0},
                         {"token_ids", {1}},
                         {"logprobs", {{"content", content}}},
                         {"finish_reason", "length"},
                         {"weight_versions", spans}};
    return reply.Send(
        200, "application/json",
        JsonText({{"choices", {choice}}, {"prompt_token_ids", ids}, {"prompt_logprobs", prompt}}));
  }
  const Json meta = {{"input_token_logprobs", input},
                     {"completion_tokens", 1},
                     {"finish_reason", {{"type", "length"}}},
                     {"weight_versions", spans}};
  reply.Send(200, "application/json", JsonText({{"output_ids", {1}}, {"meta_info", meta}}));
}

bool ScriptedInference::Step() {
  if (paused_ || faults.deaf || requests_.empty()) return false;
  for (size_t i = 0; i < requests_.size();) {
    Request& request = *requests_[i];
    if (request.reply->gone() || Draw(request)) {
      requests_.erase(requests_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  return true;
}

// True: the answer is over.
bool ScriptedInference::Draw(Request& r) {
  const Drawn drawn = options_.model != nullptr
                          ? options_.model->Draw(r.ids, r.temperature, r.seed)
                          : LedgerDraw(r.hash, r.seed, static_cast<int64_t>(r.ids.size()));
  ++drawn_;
  if (torn_) ++torn_draws_;
  r.ids.push_back(drawn.id);
  r.hash = LedgerMix(LedgerMix(r.hash, static_cast<uint64_t>(drawn.id)), weights_);
  r.logprobs.push_back(drawn.logprob);
  const auto at = static_cast<uint32_t>(r.answered());
  const std::string version = VersionOf(weights_);
  if (r.spans.empty() || r.spans.back().version != version) {
    r.spans.push_back({.version = version, .start = at - 1, .end = at});
  }
  r.spans.back().end = at;
  if (faults.cut_after > 0 && static_cast<int>(at) >= faults.cut_after) {
    r.reply->Cut();
    return true;
  }
  const bool stop = std::find(r.stops.begin(), r.stops.end(), drawn.id) != r.stops.end();
  const bool over = stop || r.answered() >= r.max_tokens;
  if (r.stream || over) Tell(r, r.stream ? at - 1 : 0, over ? (stop ? "stop" : "length") : "");
  if (over) Keep(r);
  return over;
}

// Tokens [from, all) of the answer; an end other than "" is its last piece.
void ScriptedInference::Tell(Request& r, size_t from, const std::string& end) {
  const bool vllm = options_.kind == ScriptedKind::kVllm;
  Json ids = Json::array(), content = Json::array(), pairs = Json::array(), spans = Json::array();
  for (size_t i = from; i < r.answered(); ++i) {
    const TokenId id = r.ids[r.prompt + i];
    ids.push_back(id);
    Json top = Json::array();
    for (int k = 0; k < r.top; ++k) {
      top.push_back({{"token_id", (id + k) % options_.vocabulary}, {"logprob", r.logprobs[i] - k}});
    }
    content.push_back(
        {{"token_id", id}, {"logprob", r.logprobs[i]}, {"rank", 1}, {"top_logprobs", top}});
    pairs.push_back({r.logprobs[i], id, nullptr});
  }
  for (const VersionSpan& span : r.spans) {
    spans.push_back({{"version", span.version}, {"start", span.start}, {"end", span.end}});
  }
  Json piece;
  const Json reason = end.empty() ? Json(nullptr) : Json(end);
  if (vllm) {
    piece = {{"request_id", "generate-tokens-" + r.id},
             {"choices",
              {{{"index", 0},
                {"token_ids", ids},
                {"logprobs", {{"content", content}}},
                {"finish_reason", reason},
                {"weight_versions", end.empty() ? Json(nullptr) : spans}}}}};
  } else {
    piece = {{"output_ids", ids},
             {"meta_info",
              {{"id", r.id},
               {"completion_tokens", r.answered()},
               {"cached_tokens", r.cached},
               {"finish_reason", end.empty() ? Json(nullptr) : Json{{"type", end}}},
               {"weight_versions", spans},
               {"output_token_logprobs", pairs}}}};
  }
  if (!r.stream) return r.reply->Send(200, "application/json", JsonText(piece));
  if (!std::exchange(r.begun, true)) r.reply->Begin();
  std::string text = "data: " + JsonText(piece) + "\n\n";
  if (!end.empty() && vllm) {
    text += "data: " +
            JsonText({{"choices", Json::array()},
                      {"usage", {{"prompt_tokens_details", {{"cached_tokens", r.cached}}}}}}) +
            "\n\n";
  }
  if (!end.empty()) text += "data: [DONE]\n\n";
  r.reply->Write(text);
  if (!end.empty()) r.reply->End();
}

uint32_t ScriptedInference::Cached(const std::string& salt, const std::vector<TokenId>& ids) const {
  size_t most = 0;
  const auto kept = cache_.find(salt);
  if (kept == cache_.end()) return 0;
  for (const std::vector<TokenId>& other : kept->second) {
    const size_t n = std::min(other.size(), ids.size() - 1);
    const auto differs =
        std::mismatch(ids.begin(), ids.begin() + static_cast<long>(n), other.begin());
    most = std::max(most, static_cast<size_t>(differs.first - ids.begin()));
  }
  return static_cast<uint32_t>(most / kCacheBlock * kCacheBlock);
}

void ScriptedInference::Keep(const Request& request) {
  auto& kept = cache_[request.salt];
  kept.push_back(request.ids);
  if (kept.size() > kKeptBySalt) kept.erase(kept.begin());
}

void ScriptedInference::Restart() {
  for (const auto& request : requests_) request->reply->Cut();
  requests_.clear();
  cache_.clear();
  weights_ = 0;
  version_ = "default";
  paused_ = updating_ = torn_ = false;
}

}  // namespace tidemill
