#include "gateway/live_answer.h"

#include <algorithm>
#include <iterator>

#include "gateway/error_reply.h"

namespace tidemill {
namespace {

constexpr int kClientLeft = 499;  // as nginx logs it

HttpResponse EventStreamHead(const AskedTurn& asked) {
  HttpResponse head;
  head.content_type = "text/event-stream";
  head.headers = asked.reply_headers;
  head.headers.emplace_back("X-Accel-Buffering", "no");  // a proxy must not collect the events
  return head;
}

WireJson CallOf(const ChatRequest& request, const AnswerHead& head, int choice,
                const AnswerPart& part) {
  const bool anthropic = request.api == Api::kMessages;
  WireJson arguments = WireJson::parse(part.text, nullptr, false);
  if (!arguments.is_object()) arguments = part.text;
  return {{"id", CallId(anthropic ? "toolu_" : "call_", head, choice, part.call)},
          {"type", "function"},
          {"function", {{"name", part.name}, {"arguments", std::move(arguments)}}}};
}

void Join(AnswerDelta& held, AnswerDelta delta) {
  for (OutputEvent& event : delta.events) AppendEvent(std::move(event), held.events);
  std::move(delta.tokens.begin(), delta.tokens.end(), std::back_inserter(held.tokens));
}

}  // namespace

WireJson AnswerMessage(const ChatRequest& request, const AnswerHead& head, int choice,
                       const AnswerChoice& answer) {
  if (HasRawPrompts(request.api)) return nullptr;
  WireJson message = {{"role", "assistant"}, {"content", answer.TextOf(AnswerPart::Kind::kText)}};
  const std::string reasoning = answer.TextOf(AnswerPart::Kind::kReasoning);
  if (!reasoning.empty()) message["reasoning_content"] = reasoning;
  for (const AnswerPart& part : answer.parts) {
    if (part.kind != AnswerPart::Kind::kCall) continue;
    message["tool_calls"].push_back(CallOf(request, head, choice, part));
  }
  return message;
}

LiveAnswer::LiveAnswer(std::unique_ptr<AskedTurn> asked, const ServedPolicy& policy,
                       size_t slow_bytes)
    : asked_(std::move(asked)), policy_(policy), slow_bytes_(slow_bytes) {
  const TurnReaderOptions reader =
      ReaderOptionsFor(policy, asked_->request, asked_->prompt.thinking_open);
  choices_.reserve(asked_->choices.size());
  for (size_t i = 0; i < asked_->choices.size(); ++i) {
    choices_.emplace_back(TurnReader(policy, reader));
  }
  if (asked_->request.stream) stream_ = MakeAnswerStream(asked_->request, asked_->head);
  written_ = asked_->arrived;
  asked_->report.stream = asked_->request.stream;
  asked_->report.choices = choice_count();
}

SequenceStart LiveAnswer::Start(int choice, SequenceId sequence, uint64_t share_group) {
  const size_t prompt = static_cast<size_t>(choice / asked_->request.sampling.n);
  SequenceStart start;
  start.id = sequence;
  start.prompt = asked_->prompt.prompts[prompt];
  start.share_group = asked_->request.sampling.n > 1 ? share_group : 0;
  start.turn = asked_->choices[static_cast<size_t>(choice)].params;
  // Without consent nothing of it outlives the answer, not even in the cache.
  start.tenant = asked_->tenant.consent == Consent::kNone ? 0 : asked_->tenant.id;
  start.session = asked_->prompt.session;
  start.service = SequenceClass::kLive;
  start.stream = true;
  start.pin_version = asked_->prompt.pin_version;
  start.policy = asked_->policy;
  return start;
}

bool LiveAnswer::Push(int number, const TurnDelta& delta, Time now) {
  Choice& choice = choices_[static_cast<size_t>(number)];
  if (choice.state != State::kRunning || over_) return false;
  if (asked_->report.first_token_s == 0 && !delta.part.ids.empty()) {
    asked_->report.first_token_s = Seconds(now - asked_->arrived);
  }
  if (!delta.part.versions.empty()) asked_->report.version = delta.part.versions.back().version;
  AnswerDelta told = choice.reader.Push(delta.part, delta.done);
  told.choice = number;
  AppendPart(choice.output, delta.part);
  choice.answer.Add(told);
  if (stream_) {
    choice.held.choice = number;
    Join(choice.held, std::move(told));
  }
  if (!delta.done && !choice.reader.closed()) return false;
  choice.state = State::kComplete;
  choice.answer.end = EndOf(choice, asked_->choices[static_cast<size_t>(number)]);
  return true;
}

AnswerEnd LiveAnswer::EndOf(const Choice& choice, const PlannedChoice& planned) const {
  AnswerEnd end;
  if (choice.reader.closed()) return end;
  const TurnOutput& output = choice.output;
  switch (output.finish) {
    case TurnFinish::kStop:
      if (output.stop.string < 0) break;
      end.reason = AnswerEnd::Reason::kStopString;
      end.stop = planned.params.stop_strings[static_cast<size_t>(output.stop.string)];
      break;
    case TurnFinish::kLength:
      end.reason = planned.context_bound ? AnswerEnd::Reason::kContext : AnswerEnd::Reason::kLength;
      break;
    case TurnFinish::kContext:
    case TurnFinish::kCancelled:
    case TurnFinish::kInterrupted:  // no answer of a client is
      end.reason = AnswerEnd::Reason::kContext;
      break;
  }
  return end;
}

RecordedTurn LiveAnswer::Record(int number) const {
  const auto index = static_cast<size_t>(number);
  RecordedTurn turn;
  turn.ticket = asked_->prompt.ticket;
  turn.choice = number;
  turn.params = asked_->choices[index].params;
  turn.output = choices_[index].output;
  turn.message = AnswerMessage(asked_->request, asked_->head, number, choices_[index].answer);
  return turn;
}

void LiveAnswer::Stored(int number) {
  Choice& choice = choices_[static_cast<size_t>(number)];
  if (choice.state == State::kComplete) choice.state = State::kStored;
}

// Of a prompt with several answers the first counts: the others share with it.
int64_t LiveAnswer::CachedTokens() const {
  int64_t cached = 0;
  for (size_t i = 0; i < choices_.size(); i += static_cast<size_t>(asked_->request.sampling.n)) {
    cached += choices_[i].output.cached_tokens;
  }
  return cached;
}

TokenUsage LiveAnswer::Usage() const {
  TokenUsage usage;
  for (const auto& ids : asked_->prompt.prompts) usage.prompt += static_cast<int64_t>(ids.size());
  for (const Choice& choice : choices_) {
    usage.completion += static_cast<int64_t>(choice.output.ids.size());
    usage.reasoning += choice.reader.reasoning_tokens();
  }
  // Keys of one session each share a cache. What is in it would tell one what another asked.
  if (asked_->tenant.session.empty()) usage.cached = CachedTokens();
  return usage;
}

std::string LiveAnswer::OpenStream() {
  if (open_) return "";
  open_ = true;
  asked_->reply->Begin(EventStreamHead(*asked_));
  return stream_->Open(Usage());
}

void LiveAnswer::Flush(Time now) {
  if (over_) return;
  const auto told = [](const Choice& c) { return c.state == State::kTold; };
  if (!stream_) {
    const bool all = std::all_of(choices_.begin(), choices_.end(),
                                 [](const Choice& c) { return c.state == State::kStored; });
    if (!all) return;
    SendWhole();
    return Finish(200, now);
  }
  if (asked_->reply->Behind(slow_bytes_)) return;
  std::string bytes;
  for (size_t i = 0; i < choices_.size(); ++i) {
    Choice& choice = choices_[i];
    if (!choice.held.events.empty() || !choice.held.tokens.empty()) {
      bytes += OpenStream();
      bytes += stream_->Write(choice.held);
      choice.held = {};
    }
    if (choice.state != State::kStored) continue;
    bytes += OpenStream();
    bytes += stream_->Finish(static_cast<int>(i), choice.answer.end);
    choice.state = State::kTold;
  }
  const bool complete = std::all_of(choices_.begin(), choices_.end(), told);
  if (complete) bytes += stream_->Close(Usage());
  if (!bytes.empty()) {
    asked_->reply->Write(std::move(bytes));
    written_ = now;
  }
  if (!complete) return;
  asked_->reply->End();
  Finish(200, now);
}

// The first answer to a prompt has its log-probabilities.
std::vector<PromptRecord> LiveAnswer::PromptOf(int choice) const {
  std::vector<PromptRecord> records;
  const ChatRequest& request = asked_->request;
  if (!request.sampling.prompt_logprobs && !request.echoes) return records;
  const auto prompt = static_cast<size_t>(choice / request.sampling.n);
  const TurnOutput& output = choices_[prompt * static_cast<size_t>(request.sampling.n)].output;
  const auto bytes = [&](TokenId id) { return std::string(policy_.tokenizer.TokenBytes(id)); };
  for (const TokenId id : asked_->prompt.prompts[prompt]) {
    PromptRecord& record = records.emplace_back();
    record.token.id = id;
    record.token.bytes = bytes(id);
    const size_t at = records.size() - 1;
    if (at == 0 || at > output.prompt.size()) continue;
    const PromptLogprob& known = output.prompt[at - 1];
    record.scored = true;
    record.token.logprob = known.logprob;
    for (const TokenLogprob& top : known.top) {
      record.token.top.push_back({.id = top.id, .bytes = bytes(top.id), .logprob = top.logprob});
    }
  }
  return records;
}

void LiveAnswer::SendWhole() {
  Answer answer;
  answer.usage = Usage();
  for (int i = 0; i < choice_count(); ++i) {
    answer.choices.push_back(choices_[static_cast<size_t>(i)].answer);
    answer.choices.back().prompt = PromptOf(i);
    answer.choices.back().embedding = choices_[static_cast<size_t>(i)].output.prompt_state;
  }
  HttpResponse response;
  response.headers = asked_->reply_headers;
  response.body = WholeBody(asked_->request, asked_->head, answer);
  asked_->reply->Send(std::move(response));
}

void LiveAnswer::Beat(Time now, Duration every) {
  if (over_ || !stream_ || now - written_ < every) return;
  std::string bytes = OpenStream();
  if (!asked_->reply->Behind(slow_bytes_)) bytes += stream_->Heartbeat();
  if (!bytes.empty()) asked_->reply->Write(std::move(bytes));
  written_ = now;
}

void LiveAnswer::Fail(const ApiError& error, Time now) {
  if (over_) return;
  asked_->report.error =
      error.code.empty() ? std::string(ErrorType(asked_->request.api, error.status)) : error.code;
  if (open_) {
    asked_->reply->Write(stream_->Fail(error));
    asked_->reply->End();
  } else {
    asked_->reply->Send(ErrorReply(asked_->request.api, error, asked_->reply_headers));
  }
  Finish(error.status, now);
}

void LiveAnswer::Leave(Time now) {
  if (!over_) Finish(kClientLeft, now);
}

void LiveAnswer::Finish(int status, Time now) {
  over_ = true;
  const TokenUsage usage = Usage();
  RequestReport& report = asked_->report;
  report.status = status;
  report.total_s = Seconds(now - asked_->arrived);
  report.prompt_tokens = usage.prompt;
  report.cached_tokens = CachedTokens();
  report.completion_tokens = usage.completion;
  if (status == 200) {
    report.finish = OpenAiFinish(choices_[0].answer.end, choices_[0].answer.HasCalls());
  }
}

}  // namespace tidemill
