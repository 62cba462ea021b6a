// Promises: a request is held until its result is there, or answered with 408 so that it comes
// again.
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "tinker/routes.h"
#include "tinker/wire_json_fields.h"

namespace tidemill {
namespace {

constexpr const char* kProtobufType = "application/x-protobuf";

HttpResponse JsonResponse(int status, std::string body) {
  HttpResponse response;
  response.status = status;
  response.body = std::move(body);
  return response;
}

// Nothing is known of the promise any more: a sample is asked anew, anything else has failed.
HttpResponse Lost(const std::string& promise) {
  return JsonResponse(410, DumpWire({{"detail", "the promise " + Beginning(promise, 120) +
                                                    " is unknown or was forgotten"}}));
}

HttpResponse TryAgain(const std::string& promise) {
  return JsonResponse(
      408, DumpWire({{"type", "try_again"}, {"request_id", promise}, {"queue_state", "active"}}));
}

// What stands in the books or in memory; nothing: no such promise of the tenant.
Result<std::optional<OpResult>> Settled(const TinkerParts& parts, const Poll& poll) {
  if (SamplePromises::IsId(poll.promise)) return parts.samples.Find(poll.promise, poll.tenant);
  const auto op = OpOfPromise(poll.promise);
  if (!op) return std::optional<OpResult>();
  TM_ASSIGN_OR_RETURN(const auto model, parts.books.Model(op->model));
  if (!model || model->tenant != poll.tenant) return std::optional<OpResult>();
  return parts.books.ResultOf(op->model, op->seq);
}

HttpResponse ResultResponse(const Poll& poll, OpResult result) {
  if (!result.binary) return JsonResponse(200, std::move(result.body));
  if (poll.binary) {
    HttpResponse response = JsonResponse(200, std::move(result.body));
    response.content_type = kProtobufType;
    return response;
  }
  Result<std::string> json = SamplePromises::IsId(poll.promise) ? SampleAnswerJson(result.body)
                                                                : TrainOutputJson(result.body);
  return json.ok() ? JsonResponse(200, std::move(*json)) : RefusalOf(json.status());
}

// False: it is not settled yet.
bool Tell(const TinkerParts& parts, Poll& poll) {
  Result<std::optional<OpResult>> settled = Settled(parts, poll);
  if (!settled.ok()) {
    poll.reply->Send(RefusalOf(settled.status()));
  } else if (!*settled) {
    poll.reply->Send(Lost(poll.promise));
  } else if (!(*settled)->done) {
    return false;
  } else {
    poll.reply->Send(ResultResponse(poll, std::move(**settled)));
  }
  return true;
}

}  // namespace

HttpResponse RefusalOf(const Status& status) {
  const auto number = [&] {
    switch (status.code()) {
      case Code::kInvalid:
      case Code::kExists:
        return 400;
      case Code::kNotFound:
        return 404;
      case Code::kClosed:
        return 410;
      case Code::kFull:
        return 429;
      case Code::kUnavailable:
      case Code::kTimeout:
        return 503;
      default:
        return 500;
    }
  }();
  HttpResponse response = JsonResponse(number, DumpWire({{"detail", status.message()}}));
  if (number == 429 || number == 503) response.headers.emplace_back("Retry-After", "1");
  return response;
}

void RetrieveFuture(const TinkerAsk& ask, std::unique_ptr<HttpReply> reply) {
  const TinkerParts& parts = ask.parts;
  const Result<WireJson> json = ParseFields(ask.http.body);
  if (!json.ok()) return reply->Send(RefusalOf(json.status()));
  Result<std::string> id = TextField(*json, "request_id");
  if (!id.ok()) return reply->Send(RefusalOf(id.status()));
  auto poll = std::make_unique<Poll>();
  poll->promise = std::move(*id);
  poll->tenant = ask.tenant.name;
  poll->binary = ask.http.Header("accept").find(kProtobufType) != std::string_view::npos;
  poll->reply = std::move(reply);
  if (Tell(parts, *poll)) return;
  const std::string promise = poll->promise;
  if (auto back = parts.polls.Add(std::move(poll), parts.clock.Now() + parts.limits.poll_for)) {
    return back->reply->Send(TryAgain(promise));
  }
  // It may have been settled between the look and the wait.
  TellWaiting(parts, promise);
}

void TellWaiting(const TinkerParts& parts, const std::string& promise) {
  for (std::unique_ptr<Poll>& poll : parts.polls.Take(promise)) {
    if (Tell(parts, *poll)) continue;
    const Time until = parts.clock.Now() + parts.limits.poll_for;
    if (auto back = parts.polls.Add(std::move(poll), until)) {
      back->reply->Send(TryAgain(promise));
    }
  }
}

void TellDue(const TinkerParts& parts) {
  for (const std::unique_ptr<Poll>& poll : parts.polls.TakeDue(parts.clock.Now())) {
    poll->reply->Send(TryAgain(poll->promise));
  }
}

}  // namespace tidemill
