// The operations of pyfunc: each in words, in Python and as what it does.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tidemill {

// A value of Python's that a pyfunc task can take or return.
using PyfuncValue =
    std::variant<int64_t, bool, std::string, std::vector<int64_t>, std::vector<std::string>>;

// As Python prints it.
std::string PyfuncLiteral(const PyfuncValue& value);

// {} in words and code stands for the constant.
struct PyfuncOp {
  std::string_view words;   // "keep only the even numbers"; of an ending "the sum of the numbers"
  std::string_view python;  // an expression over x
  int low = 0;              // range of the constant; 0 to 0: none
  int high = 0;
  PyfuncValue (*apply)(const PyfuncValue& value, int64_t constant);
};

// Operations from list to list and from string to string, and those that end a chain.
std::span<const PyfuncOp> ListSteps();
std::span<const PyfuncOp> ListEndings();
std::span<const PyfuncOp> TextSteps();
std::span<const PyfuncOp> TextEndings();

}  // namespace tidemill
