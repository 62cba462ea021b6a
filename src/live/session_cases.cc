#include "live/session_cases.h"

#include "core/text.h"
#include "tasks/case_record.h"

namespace tidemill {
namespace {

constexpr size_t kQuestionBytes = 2'000;  // of a longer one the beginning
constexpr size_t kAnswerBytes = 16'000;   // a longer one is no case: a part of it would mislead

std::string ContentOf(const WireJson& message) {
  const auto content = message.find("content");
  return content != message.end() && content->is_string() ? content->get<std::string>() : "";
}

bool HasRole(const WireJson& message, const char* role) {
  return message.value("role", "") == role;
}

std::string LastQuestion(const WireJson& messages) {
  for (size_t i = messages.size(); i-- > 0;) {
    if (HasRole(messages[i], "user")) return Beginning(ContentOf(messages[i]), kQuestionBytes);
  }
  return "";
}

std::string NoteText(const std::vector<v1::ShownCase>& cases, size_t count) {
  std::string text = "Earlier questions, what was answered, and how good it was:\n\n";
  for (size_t i = count; i-- > 0;) {
    text += "Question:\n" + cases[i].prompt() + "\nAnswer, which was " +
            (cases[i].solved() ? "good" : "bad") + ":\n" + cases[i].answer() + "\n\n";
  }
  return text;
}

}  // namespace

CasesNote NoteOf(const std::vector<v1::ShownCase>& cases, size_t max_tokens,
                 const std::function<size_t(const std::string& text)>& tokens) {
  CasesNote note;
  for (size_t count = cases.size(); count > 0; --count) {
    std::string text = NoteText(cases, count);
    if (tokens(text) > max_tokens) continue;
    note.text = std::move(text);
    for (size_t i = 0; i < count; ++i) note.numbers.push_back(cases[i].number());
    break;
  }
  return note;
}

WireJson WithCases(WireJson messages, const std::string& note) {
  if (note.empty()) return messages;
  if (!messages.empty() && HasRole(messages[0], "system")) {
    messages[0]["content"] = ContentOf(messages[0]) + "\n\n" + note;
    return messages;
  }
  for (WireJson& message : messages) {
    if (!HasRole(message, "user")) continue;
    message["content"] = note + "The question now:\n" + ContentOf(message);
    break;
  }
  return messages;
}

std::string FirstQuestion(const WireJson& messages) {
  for (const WireJson& message : messages) {
    if (HasRole(message, "assistant")) return "";
  }
  return LastQuestion(messages);
}

std::optional<v1::CaseRecord> SessionCase(const Session& session, uint32_t number, double score) {
  const auto it = session.turns().find(number);
  if (it == session.turns().end() || score == 0) return std::nullopt;
  const LiveTurn& turn = it->second;
  if (turn.answer.is_null() || turn.answer.contains("tool_calls")) return std::nullopt;
  const std::string question = LastQuestion(session.MessagesOf(number, turn.context_size));
  const std::string answer = ContentOf(turn.answer);
  const bool blank = answer.find_first_not_of(" \t\r\n") == std::string::npos;
  if (question.empty() || blank || answer.size() > kAnswerBytes) return std::nullopt;
  const v1::Session& of = session.record();
  v1::CaseRecord record;
  record.mutable_id()->set_task("session-" + std::to_string(of.number()));
  record.mutable_id()->set_group(of.number());
  record.mutable_id()->set_member(number);
  record.mutable_id()->set_attempt(1);
  record.set_scope(TenantScope(of.tenant()));
  record.set_prompt(question);
  record.set_answer(answer);
  record.set_solved(score > 0);
  record.set_reward(score);
  record.set_group_members(1);
  *record.mutable_shown() = of.shown_cases();
  record.set_at_ms(turn.record.answer().finished_ms());
  record.set_tenant(of.tenant());
  record.set_session(of.number());
  return record;
}

}  // namespace tidemill
