// A token's number in the vocabulary.
#pragma once

#include <cstdint>

namespace tidemill {

using TokenId = int32_t;

}  // namespace tidemill
