// The text for a judge's model, and the reading of its answer: strictly, or not at all.
//
//   JudgeRequest -> QuestionsOf -> JudgeQuestion -> MakeJudgePrompt -> (model) -> ReadVote -> vote
//
// Everything in a question that others wrote is fenced: it cannot end its fence, because the
// fence's mark is a hash of all the texts, and it is declared to be data. In the compact form a
// text is one line, so that it cannot begin another field. Earlier turns are quoted, so that one
// cannot tell another. What servers read as special tokens is broken up.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/status.h"
#include "judge/certificate.h"
#include "judge/judge_config.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

struct EarlierTurn {
  std::string text, next;
};

// One question to a judge's model.
struct JudgeQuestion {
  v1::JudgeTask task = v1::JUDGE_TASK_OUTCOME;
  uint32_t turn = 0;     // from 1; 0: the episode
  bool swapped = false;  // of a pair: the other submission comes first
  std::string prompt;    // what the agent was asked
  std::vector<EarlierTurn> earlier{};
  std::string text;   // the turn, or the submission
  std::string next;   // what came after the turn
  std::string other;  // the other submission, or the reference
};

struct JudgePrompt {
  std::string system, user;
};

// kInvalid: no such task.
Result<v1::JudgeTask> ParseJudgeTask(std::string_view name);

// One question for each turn, two for a pair (in both orders), one otherwise.
std::vector<JudgeQuestion> QuestionsOf(v1::JudgeTask task, const v1::JudgeRequest& request);

JudgePrompt MakeJudgePrompt(const JudgeConfig& judge, const JudgeQuestion& question);

// The choices, each with its value.
struct JudgeChoice {
  std::string_view word;
  double value;
};
std::span<const JudgeChoice> ChoicesOf(v1::JudgeTask task);

// A token of an answer with its alternatives and their log-probabilities.
struct TokenChoices {
  std::string token;
  std::vector<std::pair<std::string, double>> alternatives;
};

// The model's reply.
struct JudgeReply {
  std::string text;
  std::vector<TokenChoices> tokens;  // empty: the endpoint does not tell
  uint64_t tokens_in = 0, tokens_out = 0;
};

// A vote that counts, or why it does not. Its value is that of the order in which the question was
// asked for: of a swapped pair it is turned back.
v1::JudgeVote ReadVote(const JudgeConfig& judge, const JudgeQuestion& question,
                       const JudgeReply& reply, const CodeTracer& tracer = {});

// The probability of each choice given the alternatives at the token that begins the word: softmax
// over those that are among them. Empty: the word is not there.
std::vector<double> ChoiceProbabilities(std::span<const JudgeChoice> choices,
                                        const JudgeReply& reply, std::string_view chosen);

// The outcome of the votes. The votes must hold at least one that is valid.
v1::Judgement CountVotes(const JudgeConfig& judge, const JudgeQuestion& question,
                         std::span<const v1::JudgeVote> votes);

}  // namespace tidemill
