// One session: a tree of token ids with branches, and the messages they stand for.
//
//   messages of a request -> Find -> which answers are known -> prompt ids -> LongestPrefix -> Add
//
// A turn is the prompt and the ids drawn behind it. It is kept as what follows on an earlier turn
// that begins alike: in messages and, apart from that, in tokens. Only turns that are durable are
// here, so nothing ever stands on one that was lost. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/status.h"
#include "gateway/chat_request.h"
#include "model/token_id.h"
#include "proto/session.pb.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

// A conversation with the keys of its messages (canonical.h).
struct LiveConversation {
  explicit LiveConversation(WireJson all);

  WireJson messages;
  std::vector<uint64_t> keys;
  std::vector<uint64_t> chain;  // chain[i]: of the messages before i; one more than `keys`
};

struct LiveTurn {
  v1::SessionTurn record;      // without its JSON, which is here:
  WireJson messages;           // behind those shared with the context turn
  WireJson answer;             // null: of a raw completion
  std::vector<uint64_t> keys;  // of `messages`
  uint64_t answer_key = 0;     // 0: of a raw completion
  uint64_t context = 0;        // chain key of the whole conversation before the answer
  uint32_t context_size = 0;   // its messages
  uint32_t prompt_tokens = 0;  // of the whole prompt
  bool continued = false;      // its answer is in the conversation of a later turn
};

// The part of a conversation that a session knows.
struct SessionMatch {
  struct Answer {
    size_t message = 0;  // of the conversation
    uint32_t turn = 0;   // whose answer it is
  };
  uint32_t context_turn = 0;      // the turn whose conversation begins like this one for longest
  uint32_t context_messages = 0;  // so many messages, its answer counted
  std::vector<Answer> answers{};
  uint32_t rewritten = 0;  // messages in the place of an answer of ours that are another
};

struct TokenPrefix {
  uint32_t turn = 0;  // 0: none
  uint32_t tokens = 0;
};

class Session {
 public:
  explicit Session(v1::Session record) : record_(std::move(record)) {}

  v1::Session& record() { return record_; }
  const v1::Session& record() const { return record_; }
  const std::map<uint32_t, LiveTurn>& turns() const { return turns_; }
  uint32_t questions() const { return questions_; }

  // Numbers that are never given again, whether the turn becomes durable or not.
  uint32_t TakeTurnNumber() { return ++last_turn_; }
  uint32_t TakeQuestion() { return ++questions_; }

  // kCorrupt: the record is none that this session can have written.
  Status Add(v1::SessionTurn record);

  SessionMatch Find(const LiveConversation& conversation) const;
  TokenPrefix LongestPrefix(std::span<const TokenId> prompt) const;

  // The first `count` messages of the turn's conversation, its answer at the end.
  WireJson MessagesOf(uint32_t turn, size_t count) const;
  // The prompt of the turn; with `and_ids` what was drawn, too.
  std::vector<TokenId> TokensOf(uint32_t turn, bool and_ids) const;

  // Bytes of memory, roughly.
  size_t bytes() const { return bytes_; }

 private:
  const LiveTurn& At(uint32_t turn) const;
  // Whether what the record stands on is here.
  Status Fits(const v1::SessionTurn& record) const;
  std::vector<uint64_t> KeysOf(
      const LiveTurn& turn) const;  // of the conversation before the answer
  // Adds the answers that the context turn's prompt showed; so many messages are decided then.
  size_t KeepAnswers(SessionMatch& match) const;
  uint32_t AnswerIn(uint64_t chain, uint64_t key, std::span<const SessionMatch::Answer> used) const;
  uint32_t Better(uint32_t one, uint32_t other) const;

  v1::Session record_;
  std::map<uint32_t, LiveTurn> turns_;
  std::unordered_multimap<uint64_t, uint32_t> by_context_;
  std::unordered_multimap<uint64_t, uint32_t> by_answer_;
  uint32_t last_turn_ = 0;
  uint32_t questions_ = 0;
  size_t bytes_ = 0;
};

}  // namespace tidemill
