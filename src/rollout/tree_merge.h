// What calls that ran side by side made of a workspace, put together.
#pragma once

#include <string>
#include <vector>

#include "proto/tidemill.pb.h"

namespace tidemill {

// Instead of the file of that path, if there is one.
void PutFile(v1::Tree& tree, const v1::File& file);

// Applies what `after` changed of `before` to `tree`, so that calls that ran side by side add up.
void MergeChanges(const v1::Tree& before, const v1::Tree& after, v1::Tree& tree);

// The paths that `after` changed of `before` and that `tree` no longer has as `before` had them, in
// order. Empty: the changes can be applied.
std::vector<std::string> ConflictsOf(const v1::Tree& before, const v1::Tree& after,
                                     const v1::Tree& tree);

}  // namespace tidemill
