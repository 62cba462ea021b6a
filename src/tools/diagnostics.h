// Reads the remarks of compilers and linters, and writes what a model gets to see.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proto/tidemill.pb.h"

namespace tidemill {

// Lines of the form FILE:LINE[:COLUMN]: [fatal ]SEVERITY: MESSAGE, as gcc, g++, tcc, clang and
// (with the template we give it) cppcheck write them; linker complaints about undefined symbols
// become errors without a line. At most `max`, in their order.
std::vector<v1::Diagnostic> ParseDiagnostics(std::string_view text, size_t max = 200);

// Of cppcheck's remarks, which end with " [ID]": takes the ID off, and leaves out what it says of
// its own work (includes it does not find). True: it did not look at everything, because it could
// not read the code or reached a bound of its own.
bool TakeCppcheckIds(std::vector<v1::Diagnostic>* diagnostics);

size_t CountSeverity(const std::vector<v1::Diagnostic>& diagnostics, std::string_view severity);

// "file:line:column: severity: message", errors first, cut to `bytes` at a line's end with a last
// line that says how many more there are.
std::string DiagnosticsText(const std::vector<v1::Diagnostic>& diagnostics, size_t bytes);

// The same for any text: keeps the beginning and the end.
std::string CutText(std::string_view text, size_t bytes);

}  // namespace tidemill
