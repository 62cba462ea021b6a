#include "live/next_state.h"

#include <algorithm>
#include <charconv>

#include "core/text.h"
#include "core/topics.h"

namespace tidemill {
namespace {

constexpr size_t kAnswersAtOnce = 64;
constexpr size_t kTextMax = size_t{256} << 10;  // of each text; judges cut further

QuestionOptions QuestionsWith(const NextStateOptions& options) {
  QuestionOptions questions;
  questions.inbox = InboxTopic(options.worker, "live");
  questions.most = options.most;
  questions.patience = options.patience;
  questions.secret = options.secret;
  return questions;
}

std::string RoleOf(const WireJson& message) {
  return message.is_object() ? message.value("role", "") : "";
}

// A message's text, its calls of tools included.
std::string TextOfMessage(const WireJson& message) {
  std::string text;
  if (const auto content = message.find("content");
      content != message.end() && content->is_string()) {
    text = content->get<std::string>();
  }
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return text;
  for (const WireJson& call : *calls) {
    const auto function = call.find("function");
    if (function == call.end() || !function->is_object()) continue;
    const auto arguments = function->find("arguments");
    text += (text.empty() ? "" : "\n") + function->value("name", "") + "(" +
            (arguments == function->end() ? "" : arguments->dump()) + ")";
  }
  return text;
}

bool IsTrainable(const Session& session, const v1::SessionTurn& turn) {
  return session.record().trainable() && !turn.cut() && turn.side().empty() &&
         turn.untrainable().empty() && turn.redacted() == 0 && !turn.output_redacted();
}

}  // namespace

uint64_t SessionOfQuestion(const std::string& request_id) {
  uint64_t session = 0;
  if (request_id.size() < 2 || request_id[0] != 's') return 0;
  const char* const end = request_id.data() + request_id.size();
  const auto [at, error] = std::from_chars(request_id.data() + 1, end, session);
  return error == std::errc() && at != end && *at == '.' ? session : 0;
}

std::optional<NextState> NextStateOf(const Session& session, uint32_t turn) {
  const LiveTurn& later = session.turns().at(turn);
  const uint32_t before = later.record.context_turn();
  if (before == 0) return std::nullopt;
  const LiveTurn& judged = session.turns().at(before);
  // Only where the conversation goes on right behind the answer.
  if (judged.answer.is_null() || later.record.context_messages() != judged.context_size + 1)
    return std::nullopt;
  if (!IsTrainable(session, judged.record)) return std::nullopt;
  std::string next;
  for (const WireJson& message : later.messages) {
    const std::string role = RoleOf(message);
    if (role == "assistant") break;
    next += (next.empty() ? "" : "\n") + role + ": " + TextOfMessage(message);
  }
  if (next.empty()) return std::nullopt;
  NextState state;
  state.turn = before;
  const WireJson messages = session.MessagesOf(before, judged.context_size);
  for (auto it = messages.rbegin(); it != messages.rend(); ++it) {
    if (RoleOf(*it) != "user") continue;
    state.request.set_prompt(Beginning(TextOfMessage(*it), kTextMax));
    break;
  }
  v1::JudgedTurn& one = *state.request.add_turns();
  one.set_text(Beginning(TextOfMessage(judged.answer), kTextMax));
  one.set_next(Beginning(next, kTextMax));
  state.request.set_session(JudgedSession(session.record().number()));
  return state;
}

NextStateJudges::NextStateJudges(Bus& bus, Outbox& outbox, NextStateOptions options,
                                 LiveCounters& counters)
    : bus_(bus),
      options_(std::move(options)),
      questions_(bus, outbox, QuestionsWith(options_)),
      counters_(counters) {}

void NextStateJudges::Attach(Waker& waker) {
  questions_.Attach(waker);
}

void NextStateJudges::Ask(const Session& session, uint32_t turn, Time now) {
  const auto state = NextStateOf(session, turn);
  if (!state) return;
  const uint64_t number = session.record().number();
  for (const std::string& judge : options_.judges) {
    if (open() >= options_.most) {
      ++counters_.unanswered;
      continue;
    }
    About about{state->request, number, state->turn, 0};
    about.request.set_judge(judge);
    ++counters_.asked;
    Send(std::move(about), now);
  }
}

void NextStateJudges::Send(About about, Time now) {
  v1::JudgeRequest request = about.request;
  request.set_request_id(JudgedSession(about.session) + "." + std::to_string(about.turn) + "." +
                         request.judge() + "." + std::to_string(about.tries));
  questions_.Ask(kJudgeTopic, std::move(request), std::move(about), now);
}

void NextStateJudges::TryAgain(About about, Time now) {
  if (forgotten_.contains(about.session)) return;
  if (about.tries >= options_.retries) {
    ++counters_.unanswered;
    return;
  }
  const Duration delay = BackOff(options_.retry_delay, about.tries++);
  ++waiting_;
  later_.Put(now + delay, std::move(about));
}

std::vector<v1::Signal> NextStateJudges::Take(Time now, int64_t wall_ms) {
  for (About& about : later_.TakeDue(now)) {
    --waiting_;
    if (!forgotten_.contains(about.session)) Send(std::move(about), now);
  }
  std::vector<v1::Signal> signals;
  for (auto& [about, status, answer, lease] :
       questions_.TakeAnswers<v1::JudgeAnswer>(kAnswersAtOnce)) {
    if (status.ok()) (void)bus_.Ack(lease);
    if (!status.ok() || !answer.available() || answer.judgements_size() == 0) {
      TryAgain(std::move(about), now);
      continue;
    }
    const v1::Judgement& said = answer.judgements(0);
    if (forgotten_.contains(about.session) || said.value() == 0) continue;
    v1::Signal& signal = signals.emplace_back();
    signal.set_session(about.session);
    signal.set_turn(about.turn);
    signal.set_source("judge");
    signal.set_by(about.request.judge());
    signal.set_score(std::clamp(said.value(), -1.0, 1.0));
    signal.set_text(said.reason());
    signal.set_at_ms(wall_ms);
  }
  for (auto& lost : questions_.TakeLost(now)) TryAgain(std::move(lost.about), now);
  return signals;
}

void NextStateJudges::Forget(uint64_t session) {
  forgotten_.insert(session);
}

}  // namespace tidemill
