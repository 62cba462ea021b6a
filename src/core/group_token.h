// The token of a group's lease: made by the dispatcher, repeated in every trajectory of the group
// and checked by replay, which so knows that the group was issued, and as what, without asking the
// ledger.
#pragma once

#include <string>
#include <string_view>

#include "proto/tidemill.pb.h"

namespace tidemill {

// Covers what the group is: its number, task, members, purpose, evaluation and sampling.
std::string GroupToken(std::string_view secret, const v1::GroupLease& lease);

// The token the trajectory must have, from what it says of its group.
std::string GroupToken(std::string_view secret, const v1::Trajectory& trajectory);

}  // namespace tidemill
