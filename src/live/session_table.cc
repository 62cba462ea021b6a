#include "live/session_table.h"

#include <algorithm>
#include <charconv>

#include "core/random.h"
#include "live/canonical.h"
#include "live/session_name.h"

namespace tidemill {
namespace {

WireJson KnownFirst(const Session& session, const SessionMatch& match, const WireJson& messages) {
  if (match.context_turn == 0) return messages;
  WireJson known = session.MessagesOf(match.context_turn, match.context_messages);
  for (size_t i = known.size(); i < messages.size(); ++i) known.push_back(messages[i]);
  return known;
}

KnownAnswer KnownAnswerOf(const LiveTurn& turn, size_t message) {
  const auto& ids = turn.record.answer().ids();
  // Redacted text is encoded anew.
  const int kept =
      turn.record.output_redacted() ? 0 : std::min<int>(turn.record.kept(), ids.size());
  KnownAnswer known{.message = message,
                    .ids = std::vector<TokenId>(ids.begin(), ids.begin() + kept),
                    .tail = kept == 0 ? "" : turn.record.tail(),
                    .reasoning = false};
  const auto reasoning = turn.answer.find("reasoning_content");
  known.reasoning = reasoning != turn.answer.end() && reasoning->is_string() &&
                    !reasoning->get_ref<const std::string&>().empty();
  return known;
}

}  // namespace

uint64_t SessionTable::Own(const std::string& tenant, uint64_t key) {
  return MixHash(StableHash(tenant), key);
}

void SessionTable::ForEach(const std::function<void(const Session&)>& visit) const {
  for (const auto& [number, entry] : sessions_) visit(*entry.session);
}

const Session* SessionTable::Find(uint64_t number) const {
  const auto it = sessions_.find(number);
  return it == sessions_.end() ? nullptr : it->second.session.get();
}

SessionTable::Place SessionTable::FindNamed(const std::string& tenant,
                                            const std::string& name) const {
  if (const auto it = by_name_.find({tenant, name}); it != by_name_.end()) return {it->second, 0};
  uint64_t number = 0;
  const char* end = name.data() + name.size();
  if (name.size() < 2 || name[0] != 's' ||
      std::from_chars(name.data() + 1, end, number).ptr != end) {
    return {};
  }
  const Session* session = Find(number);
  // A name given by the client is the session's only one.
  if (session == nullptr || session->record().tenant() != tenant ||
      !session->record().name().empty()) {
    return {};
  }
  return {number, 0};
}

SessionTable::Place SessionTable::FindAnswer(const std::string& tenant,
                                             const std::string& request_id, uint32_t choice) const {
  const auto it = by_request_.find(request_id);
  const Session* session = it == by_request_.end() ? nullptr : Find(it->second);
  if (session == nullptr || session->record().tenant() != tenant) return {};
  for (const auto& [number, turn] : session->turns()) {
    if (turn.record.request_id() == request_id && turn.record.choice() == choice) {
      return {it->second, number};
    }
  }
  return {};
}

void SessionTable::Index(const Session& session, const LiveTurn& turn) {
  by_request_[turn.record.request_id()] = session.record().number();
  if (turn.answer.is_null()) return;
  const std::string& tenant = session.record().tenant();
  const uint64_t number = session.record().number();
  by_question_.emplace(Own(tenant, turn.context), number);
  by_conversation_.emplace(Own(tenant, ChainKey(turn.context, turn.answer_key)), number);
  if (IsSpokenAnswer(turn.answer)) by_answer_.emplace(Own(tenant, turn.answer_key), number);
}

Status SessionTable::Restore(const StoredSession& stored) {
  Entry entry;
  entry.session = std::make_unique<Session>(stored.session);
  entry.stored = true;
  entry.active_ms = stored.session.started_ms();
  Status status = stored.damage.empty() ? Ok() : Corrupt(stored.damage);
  const uint64_t number = stored.session.number();
  for (const v1::SessionTurn& turn : stored.turns) {
    const Status added = entry.session->Add(turn);
    if (!added.ok()) {
      if (status.ok()) status = added;
      break;
    }
    entry.active_ms = std::max(entry.active_ms, turn.answer().finished_ms());
    Question& question = entry.questions[turn.question()];
    question.body_hash = turn.body_hash();
    question.answered = question.answered || !turn.cut();
    question.unconfirmed = true;
    by_body_[{stored.session.tenant(), turn.body_hash()}] = {number, turn.question()};
  }
  for (const auto& [turn_number, turn] : entry.session->turns()) {
    Question& question = entry.questions[turn.record.question()];
    question.unconfirmed = question.unconfirmed && !turn.continued;
    Index(*entry.session, turn);
  }
  if (!stored.session.name().empty()) {
    by_name_[{stored.session.tenant(), stored.session.name()}] = number;
  }
  new_sessions_.Taken(number);
  sessions_[number] = std::move(entry);
  if (stored.session.closed_ms() == 0) ++open_;
  return status.WithContext("session " + std::to_string(number));
}

SessionTable::Entry& SessionTable::NewSession(const TurnQuestion& question, const std::string& name,
                                              const std::string& named_by, const CasesNote& note) {
  v1::Session record;
  record.set_number(new_sessions_.Take());
  record.set_tenant(question.tenant.name);
  record.set_name(name);
  record.set_named_by(named_by);
  record.set_agent(CleanName(AgentName(question.headers)));
  record.set_trainable(question.tenant.consent == Consent::kTrain);
  record.set_started_ms(question.wall_ms);
  record.set_task_class(CleanName(TaskClass(question.headers)));
  record.mutable_shown_cases()->Add(note.numbers.begin(), note.numbers.end());
  record.set_cases_text(note.text);
  Entry& entry = sessions_[record.number()];
  if (!name.empty()) by_name_[{record.tenant(), name}] = record.number();
  entry.session = std::make_unique<Session>(std::move(record));
  ++counters_.sessions;
  counters_.with_cases += note.text.empty() ? 0 : 1;
  ++open_;
  return entry;
}

std::optional<SessionTable::Resolved> SessionTable::ByRetry(const TurnQuestion& question,
                                                            const std::string& name) {
  const auto it = by_body_.find({question.tenant.name, question.body_sha256});
  if (it == by_body_.end()) return std::nullopt;
  Entry& entry = sessions_.at(it->second.first);
  if (!name.empty() && entry.session->record().name() != name) return std::nullopt;
  const Question& earlier = entry.questions.at(it->second.second);
  const bool again = earlier.open > 0 || !earlier.answered || earlier.unconfirmed ||
                     IsDeclaredRetry(question.headers);
  if (!again) return std::nullopt;
  return Resolved{&entry, it->second.second};
}

SessionTable::Entry* SessionTable::ByPrefix(const std::string& tenant,
                                            const LiveConversation& conversation) {
  auto newest = [&](const auto& index, uint64_t key) -> Entry* {
    uint64_t best = 0;
    const auto [begin, end] = index.equal_range(Own(tenant, key));
    for (auto it = begin; it != end; ++it) best = std::max(best, it->second);
    if (best == 0 || sessions_.at(best).session->record().tenant() != tenant) return nullptr;
    return &sessions_.at(best);
  };
  for (size_t i = conversation.keys.size(); i-- > 0;) {
    if (conversation.messages[i].value("role", "") != "assistant") continue;
    if (Entry* entry = newest(by_conversation_, conversation.chain[i + 1])) return entry;
    // The question is ours, the answer was rewritten.
    if (Entry* entry = newest(by_question_, conversation.chain[i])) return entry;
  }
  // The history was edited: an answer of ours in a conversation that begins alike.
  Entry* best = nullptr;
  uint32_t longest = 0;
  for (size_t i = conversation.keys.size(); i-- > 0;) {
    if (!IsSpokenAnswer(conversation.messages[i])) continue;
    Entry* entry = newest(by_answer_, conversation.keys[i]);
    if (entry == nullptr) continue;
    const uint32_t shared = entry->session->Find(conversation).context_messages;
    if (shared > longest) best = entry, longest = shared;
  }
  return best;
}

SessionTable::Resolved SessionTable::Resolve(const TurnQuestion& question,
                                             const LiveConversation& conversation,
                                             const CasesNote& note) {
  const std::string& bound = question.tenant.session;
  SessionName name = bound.empty() ? NameSession(question.headers, question.request.session_hints)
                                   : SessionName{bound, "key"};
  name.name = CleanName(name.name);
  if (const auto retry = ByRetry(question, name.name)) return *retry;
  if (!name.name.empty()) {
    const auto it = by_name_.find({question.tenant.name, name.name});
    if (it != by_name_.end()) return {&sessions_.at(it->second), 0};
  } else if (Entry* entry = ByPrefix(question.tenant.name, conversation)) {
    return {entry, 0};
  }
  return {&NewSession(question, name.name, name.named_by, note), 0};
}

void SessionTable::Reopen(Entry& entry) {
  v1::Session& record = entry.session->record();
  if (record.closed_ms() == 0) return;
  record.set_closed_ms(0);
  record.clear_close_reason();
  entry.stored = false;  // the next turn brings the record along
  ++open_;
}

std::string SessionTable::CleanName(const std::string& name) const {
  return options_.redaction ? options_.redaction->CleanName(name) : name;
}

Result<LivePlan> SessionTable::Open(const TurnQuestion& question, CleanMessages clean,
                                    const CasesNote& note) {
  LiveConversation conversation(std::move(clean.messages));
  const Resolved resolved = Resolve(question, conversation, note);
  Entry& entry = *resolved.entry;
  Session& session = *entry.session;
  if (session.turns().size() + entry.pending.size() >= options_.max_turns) {
    return Full("session " + std::to_string(session.record().number()) + " has " +
                std::to_string(options_.max_turns) + " turns, the most a session may have");
  }
  Reopen(entry);
  if (question.tenant.consent != Consent::kTrain) session.record().set_trainable(false);

  Ticket ticket;
  ticket.session = session.record().number();
  ticket.tenant = question.tenant.name;
  ticket.request_id = question.request_id;
  ticket.body_hash = question.body_sha256;
  ticket.side = DeclaredSide(question.headers);
  ticket.tools = !question.request.tools.empty();
  ticket.end = question.headers.contains(kSessionEndHeader);
  ticket.choices = std::max(1, question.request.sampling.n);
  ticket.started_ms = question.wall_ms;
  const size_t prompts = std::max<size_t>(1, question.request.prompts.size());
  ticket.waited_for = ticket.choices * static_cast<int>(prompts);
  for (size_t i = 0; i < prompts; ++i) {
    const uint32_t number =
        resolved.question != 0 && i == 0 ? resolved.question : session.TakeQuestion();
    Question& asked = entry.questions[number];
    asked.body_hash = question.body_sha256;
    ++asked.open;
    ticket.questions.push_back(number);
    if (i == 0) by_body_[{question.tenant.name, question.body_sha256}] = {ticket.session, number};
  }
  resolved.question != 0 ? ++counters_.retries : counters_.questions += prompts;
  ++entry.open;
  entry.active_ms = std::max(entry.active_ms, question.wall_ms);

  LivePlan plan;
  ticket.match = session.Find(conversation);
  ticket.messages = KnownFirst(session, ticket.match, conversation.messages);
  ticket.secrets = std::move(clean.secrets);
  plan.messages = ticket.messages;
  // Where a secret was taken out, and where nothing is known, the client's own words are rendered.
  for (size_t i = 0; i < plan.messages.size(); ++i) {
    if (i >= ticket.match.context_messages || HoldsRedaction(plan.messages[i])) {
      plan.messages[i] = question.request.messages[i];
    }
  }
  for (const SessionMatch::Answer& answer : ticket.match.answers) {
    plan.answers.push_back(KnownAnswerOf(session.turns().at(answer.turn), answer.message));
  }
  plan.ticket = new_tickets_.Take();
  plan.session = ticket.session;
  plan.session_name = session.record().name().empty() ? "s" + std::to_string(ticket.session)
                                                      : session.record().name();
  plan.cases = session.record().cases_text();
  plan.started_ms = session.record().started_ms();
  tickets_.emplace(plan.ticket, std::move(ticket));
  return plan;
}

void SessionTable::Begin(uint64_t ticket, std::vector<CleanPrompt> prompts) {
  tickets_.at(ticket).prompts = std::move(prompts);
}

}  // namespace tidemill
