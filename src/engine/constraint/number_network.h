// Numbers of JSON between two bounds, digit by digit.
#pragma once

#include <optional>
#include <string>

#include "core/status.h"
#include "engine/constraint/byte_network.h"

namespace tidemill {

// A decimal number that is not negative: 12.5 is "12" and "5".
struct DecimalText {
  std::string whole = "0";  // without zeros in front
  std::string part{};       // without zeros behind
  bool IsZero() const { return whole == "0" && part.empty(); }
};

struct NumberBound {
  bool negative = false;
  DecimalText size{};
  bool exclusive = false;
};

// The bound that a JSON number's text names, "-1.5e3".
NumberBound ReadBound(const std::string& text, bool exclusive);

struct NumberUse {
  bool integer = false;
  std::optional<NumberBound> least{}, most{};
  std::optional<NumberBound> multiple{};  // of it; above zero, without a sign
};

// Numbers of at most 15 digits that count, unless a bound has more, so that no reader rounds one
// over its bound; without bounds also with an exponent. kInvalid: `multiple` has too many digits.
Status AddNumber(NetworkBuilder& builder, NetworkState from, const NumberUse& use, NetworkState to);

}  // namespace tidemill
