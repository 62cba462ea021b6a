// Makes a program draw given tokens, see forced_draws.h.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "engine/torch/torch_engine.h"
#include "tests/agents/forced_draws.h"
#include "tests/agents/scripted_answers.h"

namespace tidemill {

std::unique_ptr<DecodeBackend> ReplaceBackend(std::unique_ptr<DecodeBackend> backend) {
  const char* model = std::getenv("TIDEMILL_FORCED");
  if (model == nullptr) return backend;
  const char* command = std::getenv("TIDEMILL_FORCED_COMMAND");
  Result<Tokenizer> tokenizer = Tokenizer::Read(model);
  TM_CHECK(tokenizer.ok(), tokenizer.ok() ? "" : tokenizer.status().message());
  std::fprintf(stderr, "tidemill: test build, draws are forced\n");
  const std::string run = command != nullptr ? command : "true";
  const char* calls = std::getenv("TIDEMILL_FORCED_CALLS");
  const std::string steps = calls != nullptr ? calls : "";
  return NewForcedBackend(
      std::move(backend),
      ScriptedDraws(std::move(*tokenizer), [run, steps](const std::string& prompt) {
        return steps.empty() ? ScriptedAnswer(prompt, run) : ScriptedCalls(prompt, steps);
      }));
}

}  // namespace tidemill
