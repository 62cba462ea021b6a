#include "weights/shared_folder.h"

#include "core/files.h"

namespace tidemill {
namespace {

std::string MarkIn(const std::string& dir) {
  return dir + "/learner";
}

}  // namespace

Status MarkSharedFolder(const std::string& dir, uint64_t incarnation) {
  TM_RETURN_IF_ERROR(MakeDirectories(dir));
  return WriteFileAtomically(MarkIn(dir), std::to_string(incarnation) + "\n");
}

bool IsSharedFolder(const std::string& dir, uint64_t incarnation) {
  const Result<std::string> mark = ReadFileBounded(MarkIn(dir), 64);
  return mark.ok() && *mark == std::to_string(incarnation) + "\n";
}

}  // namespace tidemill
