// Whether a C or C++ source defines anything once the preprocessor has been over it.
#pragma once

#include <string_view>

namespace tidemill {

// `preprocessed` has line markers (# 12 "path"); only files below `folder` count. True: it has the
// body of a function, or a variable with a value. Types, declarations and templates without a body
// are nothing that runs.
bool DefinesSomething(std::string_view preprocessed, std::string_view folder);

}  // namespace tidemill
