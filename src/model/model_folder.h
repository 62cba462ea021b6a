// Checks of a model directory before anything of it is read, with advice where one fails.
#pragma once

#include <string>

#include "core/status.h"

namespace tidemill {

// kNotFound: there is no such directory; says that models are not downloaded, and how to get one.
Status CheckModelFolder(const std::string& dir);

// A directory without weights that are read here: kNotFound says what it holds instead (an adapter,
// a pickle) and what to do about it.
Status NoWeightsIn(const std::string& dir);

}  // namespace tidemill
