// How a policy and the runtime talk: what the model reads, what it may write, how tool results come
// back. Protocols are pure: token ids and messages in, token ids and messages out. What the model
// wrote is never tokenized again; text from outside (files, tool output) is encoded with special
// tokens off.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/status.h"
#include "engine/engine.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

class Tokenizer;

struct RequestedCall {
  std::string tool;
  std::string arguments_json;
};

// What a turn of the model means. Exactly one of: calls, an answer, or something malformed.
struct ParsedTurn {
  std::vector<RequestedCall> calls;
  std::optional<std::string>
      answer;             // the text of a submission; empty text: the workspace as it is
  std::string malformed;  // what was wrong, in words the model is told
};

class AgentProtocol {
 public:
  virtual ~AgentProtocol() = default;

  virtual std::string_view name() const = 0;
  // Everything up to the first token the model writes. The cases stand before the task, the most
  // useful (the first) nearest to it.
  virtual std::vector<TokenId> Prompt(const v1::Task& task, const v1::CaseSet& cases) const = 0;
  virtual const std::vector<TokenId>& stop_ids() const = 0;
  virtual ParsedTurn Parse(const v1::Task& task, std::span<const TokenId> ids) const = 0;
  // An answer in a turn that is not the last is tried on the task's visible examples first; the
  // episode goes on with what they said if they fail.
  virtual bool ChecksAnswers() const = 0;
  // What is put behind a turn: the results, or the remark about a malformed turn, and the opening
  // of the model's next turn. At most `max_tokens` of it come from the results.
  virtual std::vector<TokenId> Observe(const v1::Task& task, const ParsedTurn& turn,
                                       const std::vector<v1::ToolResult>& results,
                                       size_t max_tokens) const = 0;
  // For transcripts people read.
  virtual std::string Text(std::span<const TokenId> ids) const = 0;
};

// Takes the least useful cases away until those left add at most `max_tokens` to the prompt, and
// gives the prompt with them.
std::vector<TokenId> PromptWithin(const AgentProtocol& protocol, const v1::Task& task,
                                  size_t max_tokens, v1::CaseSet& cases);

// Cases as the chat protocols show them, with the words that lead from them to the task; empty
// without cases.
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
};

// compile, run_tests, lint, write_file, read_file, apply_patch, bash.
const std::vector<ToolDescription>& BuiltInTools();

struct ProtocolOptions {
  std::vector<ToolDescription> tools = BuiltInTools();
  std::string system_prompt;  // of the chat protocols; empty: hermes' own, of answer none
};

// "compact": the model writes an answer and <|end|>; feedback is <|fail|> and the name of the first
// example that failed. For small models. "hermes":
// <tool_call>{"name":..,"arguments":{..}}</tool_call> in a chat, as Qwen models are trained on.
// kInvalid: an unknown name, or a tokenizer that lacks a token the protocol needs, named. `warning`
// (may be null) says what is used instead of an unknown chat template.
Result<std::unique_ptr<AgentProtocol>> NewProtocol(std::string_view name,
                                                   const Tokenizer& tokenizer,
                                                   const std::string& model_dir,
                                                   const ProtocolOptions& options,
                                                   std::string* warning);

// "answer": the task in, a fenced block out, in the model's own chat format and without tools.
Result<std::unique_ptr<AgentProtocol>> NewAnswerProtocol(const Tokenizer& tokenizer,
                                                         const std::string& model_dir,
                                                         const ProtocolOptions& options,
                                                         std::string* warning);
// The others, for those who know which they want.
Result<std::unique_ptr<AgentProtocol>> NewCompactProtocol(const Tokenizer& tokenizer);
Result<std::unique_ptr<AgentProtocol>> NewHermesProtocol(const Tokenizer& tokenizer,
                                                         const std::string& model_dir,
                                                         const ProtocolOptions& options,
                                                         std::string* warning);

}  // namespace tidemill
