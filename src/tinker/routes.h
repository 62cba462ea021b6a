// The requests of the API, one function each. They are called by HTTP workers, several at a time.
#pragma once

#include <memory>
#include <string>

#include "gateway/tenant.h"
#include "gateway/wire_json.h"
#include "http/http_message.h"
#include "http/http_reply.h"
#include "tinker/parts.h"

namespace tidemill {

// One request of a client whose key was good.
struct TinkerAsk {
  const TinkerParts& parts;
  const Tenant& tenant;
  const HttpRequest& http;
  std::string id{};    // of the path, where it names something: a run, a session, a sampler
  std::string part{};  // what follows: "weights/NAME"
};

using Answered = Result<WireJson>;

// client_routes.cc
Answered ClientConfig(const TinkerAsk& ask);
Answered DynamicConfig(const TinkerAsk& ask);
Answered CreateSession(const TinkerAsk& ask);
Answered Heartbeat(const TinkerAsk& ask);
Answered FinishSession(const TinkerAsk& ask);
Answered TakeTelemetry(const TinkerAsk& ask);
Answered Capabilities(const TinkerAsk& ask);
Answered ListSessions(const TinkerAsk& ask);
Answered ShowSession(const TinkerAsk& ask);

// model_routes.cc
Answered CreateModel(const TinkerAsk& ask);
Answered LoadWeights(const TinkerAsk& ask);
Answered GetInfo(const TinkerAsk& ask);
Answered ForwardBackward(const TinkerAsk& ask);
Answered Forward(const TinkerAsk& ask);
Answered OptimStep(const TinkerAsk& ask);
Answered SaveWeights(const TinkerAsk& ask);
Answered SaveForSampler(const TinkerAsk& ask);

// sample_routes.cc
Answered CreateSampler(const TinkerAsk& ask);
Answered ShowSampler(const TinkerAsk& ask);
Answered Sample(const TinkerAsk& ask);

// registry_routes.cc
Answered ListRuns(const TinkerAsk& ask);
Answered ShowRun(const TinkerAsk& ask);
Answered ListCheckpoints(const TinkerAsk& ask);
Answered WeightsInfo(const TinkerAsk& ask);
Answered DeleteCheckpoint(const TinkerAsk& ask);
Answered SetLifetime(const TinkerAsk& ask);
Answered Publish(const TinkerAsk& ask);
Answered Unpublish(const TinkerAsk& ask);

// promise_routes.cc: retrieve_future, whose answer may come later.
void RetrieveFuture(const TinkerAsk& ask, std::unique_ptr<HttpReply> reply);
// To whoever waits for the promise, which is settled, or was forgotten.
void TellWaiting(const TinkerParts& parts, const std::string& promise);
// To those whose time is up: they are to ask again.
void TellDue(const TinkerParts& parts);

// {"detail": why} with the status that clients understand: what they must not repeat is a 400.
HttpResponse RefusalOf(const Status& status);

}  // namespace tidemill
