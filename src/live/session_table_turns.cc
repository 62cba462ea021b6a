// Turns on their way into a session, and the end of sessions.
#include <algorithm>
#include <tuple>
#include <utility>

#include "core/text.h"
#include "engine/constraint/constraint.h"
#include "engine/turn.h"
#include "gateway/wire_json.h"
#include "live/canonical.h"
#include "live/session_table.h"

namespace tidemill {
namespace {

// What changed the logits of a turn's draws, whose tokens are then not trained on; empty: nothing.
// A constraint does not, where its supports are recorded.
std::string UntrainableControl(const TurnControls& controls, bool supported) {
  if (controls.Penalizes()) return "penalty";
  if (!controls.logit_bias.empty()) return "logit_bias";
  if (controls.min_tokens > 0) return "min_tokens";
  return controls.constraint && !supported ? "constraint" : "";
}

// What of the sampling keeps a turn's tokens out of training; empty: nothing. Truncated sampling
// does not where the support of each token is known.
std::string Untrainable(const SamplingParams& sampling, const TurnOutput& output) {
  if (sampling.temperature <= 0) return "temperature";
  if (output.supports.set_of.size() == output.ids.size()) return "";
  if (sampling.top_p < 1) return "top_p";
  if (sampling.top_k > 0) return "top_k";
  return sampling.min_p > 0 ? "min_p" : "";
}

void FillSampling(const TurnParams& params, v1::Sampling& out) {
  out.set_temperature(params.sampling.temperature);
  out.set_top_p(params.sampling.top_p);
  out.set_top_k(static_cast<uint32_t>(std::max(0, params.sampling.top_k)));
  out.set_min_p(params.sampling.min_p);
  out.set_presence_penalty(params.controls.presence_penalty);
  out.set_frequency_penalty(params.controls.frequency_penalty);
  if (params.controls.repetition_penalty != 1) {
    out.set_repetition_penalty(params.controls.repetition_penalty);
  }
  out.set_biased_tokens(static_cast<uint32_t>(params.controls.logit_bias.size()));
  if (params.controls.constraint) out.set_constraint(params.controls.constraint->kind);
  out.set_max_turn_tokens(static_cast<uint32_t>(std::max(0, params.max_new_tokens)));
}

// A stop string may begin inside of a token: what of that token is before it, is text.
std::string TailOf(const TurnOutput& output, const PromptBuilder& builder) {
  std::string drawn;
  for (size_t i = output.forced; i < output.stop.token && i < output.ids.size(); ++i) {
    drawn += builder.BytesOf(output.ids[i]);
  }
  const size_t before = drawn.size();
  for (size_t i = output.stop.token; i < output.ids.size() && drawn.size() < output.stop.byte;
       ++i) {
    drawn += builder.BytesOf(output.ids[i]);
  }
  if (output.stop.byte <= before) return {};
  return ToUtf8(std::string_view(drawn).substr(before, output.stop.byte - before));
}

WireJson Behind(const WireJson& messages, size_t count) {
  WireJson rest = WireJson::array();
  for (size_t i = count; i < messages.size(); ++i) rest.push_back(messages[i]);
  return rest;
}

}  // namespace

v1::SessionTurn SessionTable::RecordOf(const Ticket& ticket, const RecordedTurn& turn, bool cut,
                                       const PromptBuilder& builder, int64_t wall_ms) const {
  const Session& session = *sessions_.at(ticket.session).session;
  const size_t which = static_cast<size_t>(turn.choice) / static_cast<size_t>(ticket.choices);
  std::vector<TokenId> prompt = ticket.prompts.at(which).ids;
  v1::SessionTurn record;
  record.set_answer_json(DumpWire(turn.message));
  FillDrawn(turn.output, *record.mutable_answer());
  const bool stopped = turn.output.stop.string >= 0;
  if (stopped) record.set_tail(TailOf(turn.output, builder));
  if (options_.redaction) Redact(ticket, ticket.prompts.at(which), builder, prompt, record);
  record.set_session(ticket.session);
  record.set_question(ticket.questions.at(which));
  record.set_choice(static_cast<uint32_t>(turn.choice % ticket.choices));
  record.set_choices(static_cast<uint32_t>(ticket.choices));
  record.set_request_id(ticket.request_id);
  record.set_body_hash(ticket.body_hash);
  const TokenPrefix prefix = session.LongestPrefix(prompt);
  record.set_prefix_turn(prefix.turn);
  record.set_prefix_tokens(prefix.tokens);
  // What the turns before have is stored there; the row of a turn's last token comes with the next.
  // Experts say something of the tokens that were taken out.
  const bool whole = record.redacted() == 0 && !record.output_redacted();
  if (const TokenExperts& experts = turn.output.experts; whole && !experts.empty()) {
    FillExperts(experts, prefix.tokens > 0 ? prefix.tokens - 1 : 0,
                *record.mutable_answer()->mutable_experts());
  }
  record.mutable_prompt_ids()->Add(prompt.begin() + prefix.tokens, prompt.end());
  record.set_context_turn(ticket.match.context_turn);
  record.set_context_messages(ticket.match.context_messages);
  record.set_messages_json(DumpWire(Behind(ticket.messages, ticket.match.context_messages)));
  for (const SessionMatch::Answer& answer : ticket.match.answers) {
    record.add_matched(answer.turn);
    record.add_matched_messages(static_cast<uint32_t>(answer.message));
  }
  record.set_rewritten(ticket.match.rewritten);
  record.mutable_answer()->set_started_ms(ticket.started_ms);
  record.mutable_answer()->set_finished_ms(wall_ms);
  FillSampling(turn.params, *record.mutable_sampling());
  record.set_forced(turn.output.forced);
  record.set_kept(stopped ? turn.output.stop.token : static_cast<uint32_t>(turn.output.ids.size()));
  record.set_cut(cut);
  const bool supported = turn.output.supports.set_of.size() == turn.output.ids.size();
  std::string untrainable = UntrainableControl(turn.params.controls, supported);
  if (untrainable.empty()) untrainable = Untrainable(turn.params.sampling, turn.output);
  record.set_untrainable(untrainable);
  record.set_side(ticket.side);
  record.set_tools(ticket.tools);
  return record;
}

void SessionTable::Redact(const Ticket& ticket, const CleanPrompt& before,
                          const PromptBuilder& builder, std::vector<TokenId>& prompt,
                          v1::SessionTurn& record) const {
  const Redaction& redaction = *options_.redaction;
  SecretSet secrets = ticket.secrets;
  WireJson answer = WireJson::parse(record.answer_json());
  size_t found = redaction.Clean(answer, secrets);
  if (found > 0) record.set_answer_json(DumpWire(answer));
  std::string tail = record.tail();
  if (redaction.Clean(tail, secrets) > 0) record.set_tail(tail);
  // A secret may begin in the prompt and end in the answer.
  const size_t shared = before.end.size();
  v1::Turn& drawn = *record.mutable_answer();
  std::vector<TokenId> ids = before.end;
  ids.insert(ids.end(), drawn.ids().begin(), drawn.ids().end());
  const std::vector<TokenId> real = ids;
  (void)redaction.Tokens(ids, 0, secrets, [&](TokenId id) { return builder.BytesOf(id); });
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == real[i]) continue;
    if (i < shared) {
      prompt[prompt.size() - shared + i] = kRedactedToken;
      continue;
    }
    drawn.set_ids(static_cast<int>(i - shared), kRedactedToken);
    if (i - shared < static_cast<size_t>(drawn.logprobs_size())) {
      drawn.set_logprobs(static_cast<int>(i - shared), 0);
    }
    ++found;
  }
  if (found > 0) drawn.clear_supports();  // they have the tokens that were taken out
  record.set_output_redacted(found > 0);
  record.set_redacted(before.redacted + static_cast<uint32_t>(found + ticket.secrets.size()));
}

LiveStores SessionTable::Finish(const RecordedTurn& turn, bool cut, const PromptBuilder& builder,
                                int64_t wall_ms) {
  LiveStores stores;
  Ticket& ticket = tickets_.at(turn.ticket);
  if (Erased(ticket.session)) {
    stores.erased_tenant = ticket.tenant;
    if (--ticket.waited_for == 0) tickets_.erase(turn.ticket);
    return stores;
  }
  Entry& entry = sessions_.at(ticket.session);
  entry.active_ms = std::max(entry.active_ms, wall_ms);
  // However long the store takes: what the client asks from here on is no repetition of this.
  if (cut) Leave(ticket);
  if (cut && turn.output.ids.empty()) {
    DoneWith(turn.ticket, stores, wall_ms);
    return stores;
  }
  v1::SessionTurn record = RecordOf(ticket, turn, cut, builder, wall_ms);
  record.set_turn(entry.session->TakeTurnNumber());
  if (!entry.stored) stores.ops.push_back(PutSession{entry.session->record(), {}});
  stores.ops.push_back(PutSessionTurn{record});
  stores.session = ticket.session;
  stores.turn = record.turn();
  entry.pending[stores.turn] = {std::move(record), turn.ticket};
  return stores;
}

LiveStores SessionTable::Stored(uint64_t session, uint32_t turn, const Status& status,
                                int64_t wall_ms) {
  LiveStores stores;
  if (Erased(session)) return stores;
  Entry& entry = sessions_.at(session);
  const auto it = entry.pending.find(turn);
  TM_CHECK(it != entry.pending.end(), "a turn was stored that nobody waits for");
  Pending pending = std::move(it->second);
  entry.pending.erase(it);
  if (status.ok()) {
    entry.stored = true;
    Question& question = entry.questions[pending.record.question()];
    question.answered = question.answered || !pending.record.cut();
    question.unconfirmed = question.unconfirmed && pending.record.cut();
    const Status added = entry.session->Add(std::move(pending.record));
    TM_CHECK(added.ok(), added.message());
    Index(*entry.session, entry.session->turns().at(turn));
    ++counters_.turns;
  }
  DoneWith(pending.ticket, stores, wall_ms);
  return stores;
}

void SessionTable::Leave(Ticket& ticket) {
  if (std::exchange(ticket.left, true)) return;
  Entry& entry = sessions_.at(ticket.session);
  for (const uint32_t question : ticket.questions) --entry.questions.at(question).open;
}

void SessionTable::DoneWith(uint64_t ticket, LiveStores& stores, int64_t wall_ms) {
  Ticket& asked = tickets_.at(ticket);
  if (--asked.waited_for > 0) return;
  Leave(asked);
  Entry& entry = sessions_.at(asked.session);
  --entry.open;
  if (asked.end && entry.closing.empty()) entry.closing = "ended by the client";
  tickets_.erase(ticket);
  if (entry.open == 0 && !entry.closing.empty()) CloseNow(entry, entry.closing, stores, wall_ms);
}

void SessionTable::Forget(uint64_t ticket) {
  const Ticket asked = std::move(tickets_.at(ticket));
  tickets_.erase(ticket);
  if (Erased(asked.session)) return;
  Entry& entry = sessions_.at(asked.session);
  for (const uint32_t number : asked.questions) {
    const auto question = entry.questions.find(number);
    if (--question->second.open > 0 || question->second.answered) continue;
    const auto body = by_body_.find({entry.session->record().tenant(), asked.body_hash});
    if (body != by_body_.end() && body->second == std::pair(asked.session, number)) {
      by_body_.erase(body);
    }
    entry.questions.erase(question);
  }
  if (--entry.open == 0 && entry.session->turns().empty()) Evict(asked.session);
}

void SessionTable::CloseNow(Entry& entry, std::string reason, LiveStores& stores, int64_t wall_ms) {
  entry.closing.clear();
  Session& session = *entry.session;
  v1::Session& record = session.record();
  const uint32_t last = session.turns().empty() ? 0 : session.turns().rbegin()->first;
  record.set_closed_ms(std::max<int64_t>(1, wall_ms));
  record.set_close_reason(std::move(reason));
  record.set_closes(record.closes() + 1);
  record.set_settled_before(record.settled());
  record.set_settled(std::max(record.settled(), last));
  Settlement settled = Settle(session, record.settled_before(), record.settled(), record.closes());
  --open_;
  ++counters_.closed;
  counters_.sampled += settled.sampled;
  counters_.branches += settled.branches;
  counters_.rewritten += settled.rewritten;
  counters_.AddTokens(settled.tokens);
  if (on_close) on_close(session, settled);
  if (session.turns().empty()) return;
  entry.stored = true;
  stores.ops.push_back(PutSession{record, std::move(settled.trajectories)});
}

Result<LiveStores> SessionTable::Close(uint64_t session, const std::string& reason,
                                       int64_t wall_ms) {
  const auto it = sessions_.find(session);
  if (it == sessions_.end() || it->second.session->record().closed_ms() != 0) {
    return NotFound("no session " + std::to_string(session) + " is open");
  }
  LiveStores stores;
  if (it->second.open > 0) {
    it->second.closing = reason;
  } else {
    CloseNow(it->second, reason, stores, wall_ms);
  }
  return stores;
}

LiveStores SessionTable::CloseIdle(int64_t wall_ms) {
  LiveStores stores;
  std::vector<std::tuple<bool, int64_t, uint64_t>> resting;  // closed ones first, by how long
  size_t bytes = 0;
  for (auto& [number, entry] : sessions_) {
    bytes += entry.session->bytes();
    if (entry.open > 0) continue;
    const bool open = entry.session->record().closed_ms() == 0;
    if (open && wall_ms - entry.active_ms >= options_.idle.count()) {
      CloseNow(entry, "idle", stores, wall_ms);
    }
    resting.emplace_back(entry.session->record().closed_ms() == 0, entry.active_ms, number);
  }
  std::sort(resting.begin(), resting.end());
  for (const auto& [open, active_ms, number] : resting) {
    Entry& entry = sessions_.at(number);
    const bool empty = entry.session->turns().empty() && entry.session->record().closed_ms() != 0;
    const bool crowded = sessions_.size() > options_.max_sessions || bytes > options_.max_bytes;
    if (!crowded && !empty) continue;
    if (entry.session->record().closed_ms() == 0) CloseNow(entry, "memory", stores, wall_ms);
    bytes -= std::min(bytes, entry.session->bytes());
    Evict(number);
  }
  return stores;
}

std::vector<uint64_t> SessionTable::Erase(const std::function<bool(const v1::Session&)>& which) {
  std::vector<uint64_t> numbers;
  for (const auto& [number, entry] : sessions_) {
    if (which(entry.session->record())) numbers.push_back(number);
  }
  for (const uint64_t number : numbers) {
    // Those of its turns that are on their way to the store are waited for no more.
    for (const auto& [turn, pending] : sessions_.at(number).pending) {
      const auto ticket = tickets_.find(pending.ticket);
      if (--ticket->second.waited_for == 0) tickets_.erase(ticket);
    }
    Evict(number);
    erased_.insert(number);
  }
  return numbers;
}

void SessionTable::Evict(uint64_t number) {
  Entry& entry = sessions_.at(number);
  const v1::Session& record = entry.session->record();
  auto drop = [&](auto& index, uint64_t key) {
    const auto [begin, end] = index.equal_range(Own(record.tenant(), key));
    for (auto it = begin; it != end;) it = it->second == number ? index.erase(it) : std::next(it);
  };
  for (const auto& [turn_number, turn] : entry.session->turns()) {
    drop(by_question_, turn.context);
    drop(by_conversation_, ChainKey(turn.context, turn.answer_key));
    drop(by_answer_, turn.answer_key);
    by_request_.erase(turn.record.request_id());
  }
  for (const auto& [question_number, question] : entry.questions) {
    const auto body = by_body_.find({record.tenant(), question.body_hash});
    if (body != by_body_.end() && body->second.first == number) by_body_.erase(body);
  }
  const auto name = by_name_.find({record.tenant(), record.name()});
  if (name != by_name_.end() && name->second == number) by_name_.erase(name);
  if (record.closed_ms() == 0) --open_;
  sessions_.erase(number);
}

}  // namespace tidemill
