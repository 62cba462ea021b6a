// Grammars in GBNF, the form of llama.cpp: `root ::= "yes" | "no" [0-9]{1,3} rest*`.
#pragma once

#include <string_view>

#include "core/status.h"
#include "engine/constraint/byte_network.h"

namespace tidemill {

// Puts the grammar's rule "root" between two states. kInvalid says where in the text what is wrong.
Status AddGbnf(NetworkBuilder& builder, NetworkState from, std::string_view grammar,
               NetworkState to);

}  // namespace tidemill
