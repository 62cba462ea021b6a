// One sequence of a remote engine. For remote_turns.cc and remote_answers.cc only.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/remote/remote_turns.h"

namespace tidemill {

struct RemoteTurns::Turn {
  Sequence sequence;
  size_t before = 0;  // tokens of the sequence in front of the turn
  uint64_t session = 0, tenant = 0, forgotten = 0;
  uint64_t salt_version = 0;       // of the sequence's first server when it began there; 0: not yet
  std::optional<size_t> server{};  // that worked on it last, or does now
  // Of the turn under way:
  bool waiting = false;  // for a server
  uint32_t attempts = 0;
  bool told = false;  // deltas of it
  HttpCallId call = 0;
  std::string ask_id;
  uint64_t since = 0;  // the server's version as the call began
  std::unique_ptr<ServedReader> reader;
  std::string refusal;  // the body of an answer other than 200
  bool on_trial = false;
  std::vector<ServedPart> held;     // that came on trial
  std::optional<Result<int>> over;  // the call ended on trial
  bool ended = false;               // by our own rules; the output says how
  bool aborting = false;            // the server was told so
  uint32_t answered = 0;            // tokens the server sent
  std::optional<ServedEnd> end;     // by the server
  std::vector<VersionSpan> spans;

  SequenceId id() const { return sequence.id; }
  bool under_way() const { return waiting || call != 0 || over.has_value(); }
};

}  // namespace tidemill
