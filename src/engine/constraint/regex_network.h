// Regular expressions as ECMAScript and Python write them: characters, classes, groups,
// alternatives, quantifiers, anchors at the ends. What no automaton can do (look-around, references
// back, word boundaries) is refused by name.
#pragma once

#include <string_view>

#include "core/status.h"
#include "engine/constraint/byte_network.h"
#include "engine/constraint/character_set.h"

namespace tidemill {

struct RegexUse {
  Writing writing = Writing::kPlain;
  // The whole text must match; else a part of it, and anything may stand around that part.
  bool whole = true;
};

// Puts the pattern between two states. kInvalid says where in the pattern what is wrong.
Status AddRegex(NetworkBuilder& builder, NetworkState from, std::string_view pattern,
                const RegexUse& use, NetworkState to);

}  // namespace tidemill
