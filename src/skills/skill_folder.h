// The repository as files for people and agents: an export in step with the database, which is the
// truth.
//
//   FOLDER/NAME/SKILL.md           of tasks without a scope
//   FOLDER/+SCOPE/NAME/SKILL.md    of the others; what a file name cannot have is %XX
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/mutex.h"
#include "core/status.h"
#include "skills/skill_repository.h"

namespace tidemill {

// The skills of the run in this folder.
inline std::string SkillsFolder(const std::string& run_path) {
  return run_path + "/skills";
}

// "" of the empty scope, else "+project-1".
std::string ScopeFolder(std::string_view scope);

// Makes the folder equal to the repository: every file that differs is replaced at once, what is no
// skill of it is removed. Touches nothing that is as it should be.
Status ExportSkills(const SkillRepository& repository, const std::string& folder);

// What stands in FOLDER/NAME/SKILL.md, by name. kInvalid names the file that is no skill.
Result<std::vector<SkillText>> ReadSkillFolder(const std::string& folder);

// Where a loop's repository is exported to.
class SkillExport {
 public:
  virtual ~SkillExport() = default;
  // The repository is now this; an older one that is still waiting is never written.
  virtual void Write(SkillRepository repository) = 0;
};

// A thread that writes a folder. What could not be written is logged and tried again with the next
// repository.
class SkillFolderThread final : public SkillExport {
 public:
  explicit SkillFolderThread(std::string folder);
  // Writes what waits.
  ~SkillFolderThread() override;
  void Write(SkillRepository repository) override;

 private:
  void Work();

  const std::string folder_;
  Mutex mutex_;
  CondVar changed_;
  std::optional<SkillRepository> waiting_ TM_GUARDED_BY(mutex_);
  bool stopping_ TM_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tidemill
