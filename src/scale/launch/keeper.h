// The keeper of a fleet's processes on one machine: starts them, starts again what dies, ends all
// when the run is done or a person says so. It is a process of its own, so that a fleet outlives
// the command and the terminal that started it. What it does is decided by KeeperBook; this is its
// hands.
//
//   spec.json -> RunKeeper: KeeperBook -> processes, their logs, state.json
#pragma once

#include <functional>
#include <string>

#include "core/status.h"
#include "scale/launch/fleet_state.h"

namespace tidemill {

// Until the fleet is over. `folder` has the spec; `asked_to_stop` is polled. kExists: another
// keeper has this folder.
Status RunKeeper(const std::string& folder, const KeeperRules& rules,
                 const std::function<bool()>& asked_to_stop);

// Writes the spec into the folder, which is made, and starts a keeper (`program launch ..`) that
// outlives us. Returns when it has taken the folder. kExists: a fleet runs there.
Status StartKeeper(const std::string& folder, const std::string& spec_text,
                   const std::string& program);

// How the fleet of a folder stands. kNotFound: there was none.
Result<FleetState> StateIn(const std::string& folder);

// Asks the keeper of a folder to end its fleet. kNotFound: none lives there.
Status StopKeeper(const std::string& folder);

}  // namespace tidemill
