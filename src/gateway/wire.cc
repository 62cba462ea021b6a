#include "gateway/wire.h"

#include <fmt/chrono.h>

#include <ctime>

#include "gateway/translators.h"
#include "gateway/wire_json.h"

namespace tidemill {
namespace {

void ReadBody(const WireObject& body, ChatRequest& request) {
  switch (request.api) {
    case Api::kChat:
      return ReadChatBody(body, request);
    case Api::kCompletions:
      return ReadCompletionsBody(body, request);
    case Api::kResponses:
      return ReadResponsesBody(body, request);
    case Api::kMessages:
    case Api::kCountTokens:
      return ReadMessagesBody(body, request);
    case Api::kGenerate:
      return ReadGenerateBody(body, request);
    case Api::kTokenize:
      return ReadTokenizeBody(body, request);
    case Api::kDetokenize:
      return ReadDetokenizeBody(body, request);
    case Api::kEmbeddings:
      return ReadEmbeddingsBody(body, request);
  }
}

WireJson ModelObject(const ServedModel& model, bool anthropic) {
  if (!anthropic) {
    return {{"id", model.name},
            {"object", "model"},
            {"created", model.created_s},
            {"owned_by", "tidemill"},
            {"max_model_len", model.context_tokens},
            {"context_length", model.context_tokens}};
  }
  return {{"type", "model"},
          {"id", model.name},
          {"display_name", model.name},
          {"created_at", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                                     fmt::gmtime(static_cast<std::time_t>(model.created_s)))},
          {"lifecycle", "active"},
          {"max_input_tokens", model.context_tokens},
          {"max_tokens", model.context_tokens}};
}

}  // namespace

std::optional<Api> ApiOfPath(std::string_view path) {
  if (path == "/v1/chat/completions") return Api::kChat;
  if (path == "/v1/completions") return Api::kCompletions;
  if (path == "/v1/responses") return Api::kResponses;
  if (path == "/v1/messages") return Api::kMessages;
  if (path == "/v1/messages/count_tokens") return Api::kCountTokens;
  if (path == "/inference/v1/generate") return Api::kGenerate;
  if (path == "/tokenize") return Api::kTokenize;
  if (path == "/detokenize") return Api::kDetokenize;
  if (path == "/v1/embeddings") return Api::kEmbeddings;
  return std::nullopt;
}

ParsedRequest ParseRequest(Api api, std::string_view body, const WireLimits& limits) {
  ParsedRequest parsed;
  Result<WireJson> json = ParseWire(body, limits);
  if (!json.ok()) {
    parsed.error = {.message = "The body is not accepted: " + json.status().message(),
                    .code = "invalid_json"};
    return parsed;
  }
  WireParse parse(api, limits);
  const WirePlace outermost;
  ChatRequest request;
  request.api = api;
  {
    const WireObject object(parse, *json, outermost, "");
    if (!parse.failed()) ReadBody(object, request);
  }
  if (parse.failed()) {
    parsed.error = parse.error();
    return parsed;
  }
  request.ignored = parse.ignored();
  request.unknown = parse.unknown();
  parsed.request = std::move(request);
  return parsed;
}

std::string ModelBody(const ServedModel& model, bool anthropic) {
  return DumpWire(ModelObject(model, anthropic));
}

std::string ModelsBody(const std::vector<ServedModel>& models, bool anthropic) {
  WireJson list = WireJson::array();
  for (const ServedModel& model : models) list.push_back(ModelObject(model, anthropic));
  if (!anthropic) return DumpWire({{"object", "list"}, {"data", std::move(list)}});
  return DumpWire({{"data", std::move(list)},
                   {"has_more", false},
                   {"first_id", models.front().name},
                   {"last_id", models.back().name}});
}

}  // namespace tidemill
