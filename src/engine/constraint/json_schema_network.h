// JSON Schema (2020-12, and what earlier drafts call it). Every text that the network takes is a
// document that satisfies the schema; not every such document can be written: docs/gateway.md says
// which are left out.
#pragma once

#include <nlohmann/json.hpp>

#include "core/status.h"
#include "engine/constraint/byte_network.h"

namespace tidemill {

// Puts the documents of `schema` between two states. kInvalid names what is not supported and where
// in the schema it stands.
Status AddJsonSchema(NetworkBuilder& builder, NetworkState from,
                     const nlohmann::ordered_json& schema, NetworkState to);

// Any JSON object.
void AddJsonObject(NetworkBuilder& builder, NetworkState from, NetworkState to);

}  // namespace tidemill
