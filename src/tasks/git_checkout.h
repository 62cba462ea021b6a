// The files of a commit in a repository on this machine. A repository may come from anywhere, its
// configuration with it: nothing of that is read, so that no filter, hook, monitor or remote of
// the repository's runs here. Only its objects and its names are.
//
//   repository -> folder of our own with its objects beside it -> read-tree, checkout-index -> tree
#pragma once

#include <string>

#include "core/status.h"

namespace tidemill {

// Into `scratch`/tree, which is made. kNotFound: there is no such repository or commit. kInvalid: a
// commit or path that git would misread. kUnavailable: git failed, or wanted more than 1 GiB for a
// file, 4 GiB of memory or 10 minutes.
Status CheckOutCommit(const std::string& repository, const std::string& commit,
                      const std::string& scratch);

}  // namespace tidemill
