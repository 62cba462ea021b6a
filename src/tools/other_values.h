// Python tests with other expected values: what was right fails them all. Made in the box by its
// own Python, before any code of the agent's runs there.
#pragma once

#include <string>
#include <vector>

namespace tidemill {

// Changes the files in place. A comparison with a literal gets another literal; one with anything
// else is held against fresh objects; a test with neither fails at once. One of them that runs to
// its end all the same makes the file `passed`. Exit status 0: done.
std::vector<std::string> OtherValuesCommand(const std::vector<std::string>& paths,
                                            const std::string& nonce, const std::string& passed);

}  // namespace tidemill
