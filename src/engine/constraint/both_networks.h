// Texts that two networks take, as one: a pattern and a length, several patterns.
#pragma once

#include "core/status.h"
#include "engine/constraint/byte_network.h"

namespace tidemill {

// Puts what both take between two states. Their root rules call no others.
void AddBoth(NetworkBuilder& builder, NetworkState from, const ByteNetwork& a, const ByteNetwork& b,
             NetworkState to);

}  // namespace tidemill
