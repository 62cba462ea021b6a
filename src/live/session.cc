#include "live/session.h"

#include <algorithm>

#include "live/canonical.h"

namespace tidemill {

LiveConversation::LiveConversation(WireJson all)
    : messages(std::move(all)), keys(MessageKeys(messages)) {
  chain.reserve(keys.size() + 1);
  chain.push_back(kEmptyChain);
  for (const uint64_t key : keys) chain.push_back(ChainKey(chain.back(), key));
}

const LiveTurn& Session::At(uint32_t turn) const {
  const auto it = turns_.find(turn);
  TM_CHECK(it != turns_.end(), "a turn stands on one that is not there");
  return it->second;
}

std::vector<uint64_t> Session::KeysOf(const LiveTurn& turn) const {
  std::vector<uint64_t> keys;
  if (turn.record.context_turn() != 0) {
    const LiveTurn& base = At(turn.record.context_turn());
    keys = KeysOf(base);
    keys.push_back(base.answer_key);
    keys.resize(turn.record.context_messages());
  }
  keys.insert(keys.end(), turn.keys.begin(), turn.keys.end());
  return keys;
}

Status Session::Fits(const v1::SessionTurn& record) const {
  for (const uint32_t base : {record.prefix_turn(), record.context_turn()}) {
    if (base != 0 && (base >= record.turn() || !turns_.contains(base))) {
      return Corrupt("stands on turn " + std::to_string(base) + ", which is not there");
    }
  }
  if (record.matched_size() != record.matched_messages_size() ||
      std::any_of(record.matched().begin(), record.matched().end(),
                  [&](uint32_t matched) { return !turns_.contains(matched); })) {
    return Corrupt("shows answers that are not there");
  }
  if (record.turn() == 0 || turns_.contains(record.turn())) {
    return Corrupt("the number is taken");
  }
  if (record.context_turn() != 0) {
    const LiveTurn& base = turns_.at(record.context_turn());
    if (record.context_messages() > base.context_size + 1) {
      return Corrupt("shares more messages than there are");
    }
  }
  if (record.prefix_turn() != 0) {
    const LiveTurn& base = turns_.at(record.prefix_turn());
    if (record.prefix_tokens() > base.prompt_tokens + base.record.answer().ids_size()) {
      return Corrupt("shares more tokens than there are");
    }
  }
  return Ok();
}

Status Session::Add(v1::SessionTurn record) {
  const std::string name =
      "turn " + std::to_string(record.turn()) + " of session " + std::to_string(record_.number());
  LiveTurn turn;
  turn.messages = WireJson::parse(record.messages_json(), nullptr, false);
  turn.answer = WireJson::parse(record.answer_json(), nullptr, false);
  if (!turn.messages.is_array() || turn.answer.is_discarded()) {
    return Corrupt(name + ": its messages are not JSON");
  }
  const size_t size = record.ByteSizeLong();
  TM_RETURN_IF_ERROR(Fits(record).WithContext(name));
  record.clear_messages_json();
  record.clear_answer_json();
  turn.record = std::move(record);
  turn.keys = MessageKeys(turn.messages);
  turn.context = kEmptyChain;
  const std::vector<uint64_t> keys = KeysOf(turn);
  for (const uint64_t key : keys) turn.context = ChainKey(turn.context, key);
  turn.context_size = static_cast<uint32_t>(keys.size());
  turn.prompt_tokens = turn.record.prefix_tokens() + turn.record.prompt_ids_size();
  turn.answer_key = turn.answer.is_null() ? 0 : MessageKey(turn.answer);
  for (const uint32_t matched : turn.record.matched()) {
    turns_.at(matched).continued = true;
  }
  const uint32_t number = turn.record.turn();
  if (!turn.answer.is_null()) {
    by_context_.emplace(turn.context, number);
    by_answer_.emplace(turn.answer_key, number);
  }
  last_turn_ = std::max(last_turn_, number);
  questions_ = std::max(questions_, turn.record.question());
  bytes_ += 2 * size + 256;
  turns_.emplace(number, std::move(turn));
  return Ok();
}

uint32_t Session::Better(uint32_t one, uint32_t other) const {
  if (one == 0 || other == 0) return one == 0 ? other : one;
  const LiveTurn &a = At(one), &b = At(other);
  if (a.record.cut() != b.record.cut()) return a.record.cut() ? other : one;
  if (a.continued != b.continued) return a.continued ? one : other;
  return std::max(one, other);
}

uint32_t Session::AnswerIn(uint64_t chain, uint64_t key,
                           std::span<const SessionMatch::Answer> used) const {
  uint32_t here = 0, elsewhere = 0, again = 0;
  const auto [begin, end] = by_answer_.equal_range(key);
  for (auto it = begin; it != end; ++it) {
    const uint32_t turn = it->second;
    const bool taken = std::any_of(used.begin(), used.end(),
                                   [&](const auto& answer) { return answer.turn == turn; });
    if (At(turn).context == chain) {
      here = Better(here, turn);
    } else if (!taken) {
      elsewhere = Better(elsewhere, turn);
    } else {
      again = Better(again, turn);
    }
  }
  if (here != 0) return here;
  return elsewhere != 0 ? elsewhere : again;
}

SessionMatch Session::Find(const LiveConversation& conversation) const {
  SessionMatch match;
  const std::vector<uint64_t>& keys = conversation.keys;
  std::map<uint32_t, uint32_t> shared;
  for (const auto& [number, turn] : turns_) {
    if (turn.answer.is_null()) continue;
    uint32_t same = 0;
    const uint32_t base = turn.record.context_messages();
    if (turn.record.context_turn() != 0) same = std::min(shared[turn.record.context_turn()], base);
    if (same == base) {
      for (size_t i = 0; i < turn.keys.size() && same < keys.size() && keys[same] == turn.keys[i];
           ++i) {
        ++same;
      }
      if (same == turn.context_size && same < keys.size() && keys[same] == turn.answer_key) ++same;
    }
    shared[number] = same;
    if (same > 0 && same >= match.context_messages) {
      match.context_turn = number;
      match.context_messages = same;
    }
  }
  // Text that an earlier prompt showed stays as it was, so that this one goes on from its tokens.
  const size_t settled = KeepAnswers(match);
  for (size_t i = settled; i < keys.size(); ++i) {
    if (conversation.messages[i].value("role", "") != "assistant") continue;
    uint32_t turn = AnswerIn(conversation.chain[i], keys[i], match.answers);
    // An empty answer says nothing of where it came from.
    const bool spoken = IsSpokenAnswer(conversation.messages[i]);
    if (turn != 0 && !spoken && At(turn).context != conversation.chain[i]) turn = 0;
    if (turn != 0) {
      match.answers.push_back({i, turn});
    } else if (by_context_.contains(conversation.chain[i])) {
      ++match.rewritten;
    }
  }
  return match;
}

size_t Session::KeepAnswers(SessionMatch& match) const {
  if (match.context_turn == 0) return 0;
  const LiveTurn& context = At(match.context_turn);
  const uint32_t shared = std::min(match.context_messages, context.context_size);
  for (int i = 0; i < context.record.matched_size(); ++i) {
    const uint32_t message = context.record.matched_messages(i);
    if (message < shared) match.answers.push_back({message, context.record.matched(i)});
  }
  return shared;
}

TokenPrefix Session::LongestPrefix(std::span<const TokenId> prompt) const {
  TokenPrefix best;
  std::map<uint32_t, uint32_t> shared;
  for (const auto& [number, turn] : turns_) {
    uint32_t same = 0;
    const uint32_t base = turn.record.prefix_tokens();
    if (turn.record.prefix_turn() != 0) same = std::min(shared[turn.record.prefix_turn()], base);
    if (same == base) {
      for (const auto* part : {&turn.record.prompt_ids(), &turn.record.answer().ids()}) {
        int i = 0;
        while (i < part->size() && same < prompt.size() &&
               prompt[same] == static_cast<TokenId>(part->Get(i))) {
          ++i, ++same;
        }
        if (i < part->size()) break;
      }
    }
    shared[number] = same;
    if (same > 0 && same >= best.tokens) best = {number, same};
  }
  return best;
}

WireJson Session::MessagesOf(uint32_t turn, size_t count) const {
  const LiveTurn& here = At(turn);
  WireJson messages = WireJson::array();
  if (here.record.context_turn() != 0) {
    messages = MessagesOf(here.record.context_turn(),
                          std::min<size_t>(count, here.record.context_messages()));
  }
  for (const WireJson& message : here.messages) {
    if (messages.size() >= count) break;
    messages.push_back(message);
  }
  if (messages.size() < count && !here.answer.is_null()) messages.push_back(here.answer);
  return messages;
}

std::vector<TokenId> Session::TokensOf(uint32_t turn, bool and_ids) const {
  const LiveTurn& here = At(turn);
  std::vector<TokenId> tokens;
  if (here.record.prefix_turn() != 0) {
    tokens = TokensOf(here.record.prefix_turn(), true);
    tokens.resize(here.record.prefix_tokens());
  }
  tokens.insert(tokens.end(), here.record.prompt_ids().begin(), here.record.prompt_ids().end());
  if (and_ids) {
    tokens.insert(tokens.end(), here.record.answer().ids().begin(),
                  here.record.answer().ids().end());
  }
  return tokens;
}

}  // namespace tidemill
