// Turns a Python literal into JSON as its bytes come.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "conversation/tool_formats/json_scanner.h"

namespace tidemill {

class PythonLiteral {
 public:
  enum class Step : uint8_t {
    kMore,
    kDone,   // this byte, a comma or a closing parenthesis, is behind the value
    kError,  // no literal that JSON can say
  };
  PythonLiteral() { scanner_.Push('['); }
  // Appends to `json` what is known with this byte.
  Step Push(char c, std::string& json);

 private:
  bool Emit(std::string_view text, std::string& json);
  bool EndWord(std::string& json);
  bool StringByte(char c, std::string& json);
  bool EscapeByte(char c, std::string& json);
  Step Structure(char c, std::string& json);

  JsonScanner scanner_;  // checks what comes out, as the only item of a list
  std::string open_;     // brackets
  std::string word_;     // a number or word so far
  std::string escape_;   // of a string, behind its backslash
  char quote_ = 0;
  bool in_escape_ = false;
  bool any_ = false;  // something was given out
};

}  // namespace tidemill
