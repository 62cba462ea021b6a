// Memory as sessions have it: what a turn with a score is as a case, and where the cases of a
// tenant stand in the prompts of its later sessions.
//
//   turn with a score -> SessionCase -> memory.cases        cases of memory -> CasesNote ->
//   WithCases
//
// A client's messages never have them: they are added when a prompt is rendered.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gateway/chat_request.h"
#include "live/session.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

// The cases shown to a new session.
struct CasesNote {
  std::vector<uint64_t> numbers{};  // the most useful first
  std::string text{};               // empty: nothing
};

// As many of the cases, the most useful first, as fit into `max_tokens` of what `tokens` counts.
// The most useful stands last.
CasesNote NoteOf(const std::vector<v1::ShownCase>& cases, size_t max_tokens,
                 const std::function<size_t(const std::string& text)>& tokens);

// The conversation with the note at the end of its system message or, without one, in front of its
// first message of the user. Without either, or with an empty note, it stays as it is.
WireJson WithCases(WireJson messages, const std::string& note);

// The conversation's question: its last message of the user. Empty: it has none, or it has an
// answer already and does not begin here.
std::string FirstQuestion(const WireJson& messages);

// The turn as a case of its tenant. Nothing: it is none that could be shown (calls tools, says
// nothing, is too long), or the score says nothing.
std::optional<v1::CaseRecord> SessionCase(const Session& session, uint32_t turn, double score);

}  // namespace tidemill
