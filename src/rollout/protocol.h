// How a policy and the runtime talk: what the model reads, what it may write, how tool results come
// back. What the model wrote is never tokenized again; text from outside (files, tool output) is
// encoded with special tokens off. No I/O and no clock: the episode's time is given.
//
//   AgentProtocol::Begin -> EpisodeTalk: Open -> (the model) -> Parse -> (tools) -> Observe -> ..
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "conversation/prompt.h"
#include "core/status.h"
#include "engine/constraint/constraint.h"
#include "engine/engine.h"
#include "proto/tidemill.pb.h"
#include "rollout/episode_limits.h"

namespace tidemill {

struct RequestedCall {
  std::string tool;
  std::string arguments_json;
};

// The meaning of a turn of the model. Exactly one of: calls, an answer, or something malformed.
struct ParsedTurn {
  std::vector<RequestedCall> calls;
  std::optional<std::string>
      answer;             // the text of a submission; empty text: the workspace as it is
  std::string malformed;  // what was wrong, in words the model is told
  std::string text;       // all that it said, without calls
};

// The inputs of an episode.
struct EpisodeOpening {
  const v1::Task& task;      // outlives the talk
  const v1::CaseSet& cases;  // before the task, the most useful (the first) nearest to it; its
                             // skills stand before them
  int64_t wall_ms = 0;       // for templates that show the date; the same in all of its turns
};

// The result of a background call, in a later turn than the call's.
struct DeliveredResult {
  std::string handle;
  std::string tool;
  std::string text;
};

// What a turn is answered with.
struct TurnReplies {
  std::vector<v1::ToolResult>
      results{};  // of its calls, in order; of one in the background that it began
  std::vector<std::string> handles{};  // of its calls, where they go on in the background; else ""
  std::vector<DeliveredResult> delivered{};  // of earlier calls, or of these
};

// Finds the calls of one turn while it is drawn. Not thread-safe.
class TurnWatch {
 public:
  virtual ~TurnWatch() = default;
  // The next tokens of the turn. The calls that are complete with them, in order. What Parse says
  // of the whole turn counts; it may take a call back.
  virtual std::vector<RequestedCall> Push(std::span<const TokenId> ids) = 0;
  // A call has begun, complete or not.
  virtual bool called() const = 0;
};

// The conversation of one episode. Not thread-safe.
class EpisodeTalk {
 public:
  virtual ~EpisodeTalk() = default;
  // Everything up to the first token the model writes. kInvalid: the template refuses it.
  virtual Result<std::vector<TokenId>> Open() const = 0;
  // The model's turn behind the last prompt, with the token that ended it.
  virtual ParsedTurn Parse(std::span<const TokenId> ids) = 0;
  // What follows the turn: the results, or the remark about a malformed one, and the opening of the
  // model's next turn. At most `max_tokens` of it come from the results. kInvalid as Open.
  virtual Result<NextPrompt> Observe(const ParsedTurn& turn, const TurnReplies& replies,
                                     size_t max_tokens) = 0;
  // What follows the turn that was an answer, where another role has said something to it. kInvalid
  // as Open.
  virtual Result<NextPrompt> Hear(const std::string& given) = 0;
  // What the next turn is held to; null: nothing. kInvalid: it cannot be.
  virtual Result<std::shared_ptr<const Constraint>> TurnConstraint() {
    return std::shared_ptr<const Constraint>();
  }
  // Whether the calls of a turn can be found before it is over, by Watch for the turn that is drawn
  // next.
  virtual bool Watches() const { return false; }
  virtual std::unique_ptr<TurnWatch> Watch() { return nullptr; }
};

// Immutable, thread-safe; outlives its talks.
class AgentProtocol {
 public:
  virtual ~AgentProtocol() = default;

  virtual std::string_view name() const = 0;
  virtual const std::vector<TokenId>& stop_ids() const = 0;
  // An answer in a turn that is not the last is tried on the task's visible examples first; the
  // episode goes on with what they said if they fail.
  virtual bool ChecksAnswers() const = 0;
  virtual std::unique_ptr<EpisodeTalk> Begin(const EpisodeOpening& opening) const = 0;
  Result<std::vector<TokenId>> Prompt(const EpisodeOpening& opening) const {
    return Begin(opening)->Open();
  }
};

// Takes the least fitting skills away until those left, without any cases, add at most `max_tokens`
// to the prompt. How many they add.
Result<size_t> FitSkills(const AgentProtocol& protocol, const v1::Task& task, int64_t wall_ms,
                         size_t max_tokens, v1::CaseSet& cases);

// Takes the least useful cases away until those left add at most `max_tokens` to the prompt with
// its skills, and gives the prompt with them.
Result<std::vector<TokenId>> PromptWithin(const AgentProtocol& protocol, const v1::Task& task,
                                          int64_t wall_ms, size_t max_tokens, v1::CaseSet& cases);

// Skills and cases as the chat protocols show them, with the words that lead from them to the task;
// empty without any.
std::string CasesText(const v1::CaseSet& cases);

// The task's prompt with what it shows of the files, as the task says: the content of each, or a
// listing.
std::string PromptText(const v1::Task& task);

// A tool as the model is told of it.
struct ToolDescription {
  std::string name;
  std::string description;
  std::string parameters_json;  // a JSON schema
  bool by_default = true;       // false: only for tasks that name it
  BackgroundUse background = BackgroundUse::kNever;
};

// compile, run_tests, lint, write_file, read_file, apply_patch, bash.
const std::vector<ToolDescription>& BuiltInTools();

struct ProtocolOptions {
  std::vector<ToolDescription> tools = BuiltInTools();
  std::string system_prompt{};       // of the chat protocols; empty: chat has its own, answer none
  std::string model_dir{};           // of config.json; empty: where the tokenizer is
  std::string tool_format = "auto";  // ModelChatOptions::tool_format
  // Turns are held to well-formed calls of the task's tools. Of the chat protocol alone.
  bool constrain_calls = false;
};

// "chat" ("hermes" is its earlier name): the model's own template and tool format, as it is served.
// "answer": the task in, a fenced block out, in the same template without tools. "compact": an
// answer and <|end|>; feedback is <|fail|> and the name of the first example that failed; for small
// models. `words`: the directory of tokenizer and template. kInvalid: an unknown name, or a token
// the protocol needs is missing. kNotFound: there is no template.
Result<std::unique_ptr<AgentProtocol>> NewProtocol(std::string_view name,
                                                   const Tokenizer& tokenizer,
                                                   const std::string& words,
                                                   const ProtocolOptions& options);

// One of them, for those who know which they want.
Result<std::unique_ptr<AgentProtocol>> NewCompactProtocol(const Tokenizer& tokenizer);
// `chat` has a template.
std::unique_ptr<AgentProtocol> NewAnswerProtocol(ModelChat chat, const ProtocolOptions& options);
Result<std::unique_ptr<AgentProtocol>> NewChatProtocol(ModelChat chat,
                                                       const ProtocolOptions& options);

}  // namespace tidemill
