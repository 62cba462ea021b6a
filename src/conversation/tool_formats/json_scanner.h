// Follows one JSON value byte by byte and says where it ends. Strict; bounded in depth.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tidemill {

class JsonScanner {
 public:
  enum class Step : uint8_t {
    kMore,   // the value goes on
    kDone,   // this byte ends it
    kError,  // this byte cannot follow; nothing may be pushed any more
  };
  // The value must be an object or a list; white space before it is passed over.
  Step Push(char c);
  size_t depth() const { return open_.size(); }

 private:
  enum class Want : uint8_t { kValue, kValueOrEnd, kKey, kKeyOrEnd, kColon, kCommaOrEnd };

  Step InString(char c);
  Step InScalar(char c);
  Step Structure(char c);
  Step BeginValue(char c);
  Step Close(char c);
  bool ScalarIsWhole() const;

  std::vector<char> open_;  // '{' or '['
  Want want_ = Want::kValue;
  bool in_string_ = false;
  bool key_ = false;    // the string is a key
  int escape_ = 0;      // 1: behind a backslash; 2 to 5: digits of \u to come
  std::string scalar_;  // a number or word so far
};

}  // namespace tidemill
