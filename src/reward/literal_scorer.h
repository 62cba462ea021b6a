// Does an answer repeat what the shown test expects? `return n == 383` passes a weak test and
// solves nothing; how often it is written says whether the policy learns tests by heart.
#pragma once

#include <string>
#include <string_view>

namespace tidemill {

// Whether `answer` holds the value of an assertion in `prompt` ("assert f(20) == 383") as it is
// written there. Values of fewer than three characters and True, False and None are no evidence.
bool RepeatsShownLiteral(std::string_view prompt, std::string_view answer);

}  // namespace tidemill
