// One turn of a sequence: how it begins, grows by a token, and ends.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/status.h"
#include "engine/sequence.h"

namespace tidemill::v1 {
class Turn;
}

namespace tidemill {

// kInvalid names the field. `has_bytes`: somebody can say what bytes a token stands for.
Status CheckTurn(const TurnParams& turn, bool has_bytes);

// Puts the forced tokens behind the sequence.
void BeginTurn(Sequence& sequence, TurnParams turn);

// Whether the turn has ended by then, with `more` tokens more, whichever they are.
bool EndsWithin(const Sequence& sequence, int32_t more, int32_t max_context);

// Puts the token behind the sequence and into its output. True: that ended the turn, and the output
// says why. Without a version the caller fills TurnOutput::versions itself.
bool AppendToken(Sequence& sequence, Drawn drawn, std::optional<uint64_t> version,
                 int32_t max_context, const std::function<std::string(TokenId)>& token_bytes);

// The output since the turn began or this was called last.
TurnOutput TakeOutput(Sequence& sequence);

// What was drawn, as messages have it; without the experts, whose rows are each caller's own.
void FillDrawn(const TurnOutput& output, v1::Turn& turn);

}  // namespace tidemill
