#include "cli/import_hooks.h"

#include "core/enum_name.h"
#include "core/text.h"
#include "tasks/root_fs.h"
#include "tools/box/box_host.h"
#include "tools/patch.h"
#include "tools/workspace.h"

namespace tidemill {
namespace {

// Of a step that builds an environment, which happens once.
BoxLimits BuildLimits() {
  BoxLimits limits;
  limits.wall = limits.cpu = std::chrono::minutes(10);
  limits.memory_bytes = uint64_t{4} << 30;
  limits.processes = 512;
  limits.disk_bytes = uint64_t{1} << 30;
  return limits;
}

Result<std::vector<v1::File>> Patched(std::vector<v1::File> files, const std::string& diff) {
  Workspace workspace;
  for (v1::File& file : files) {
    workspace[file.path()] = {std::move(*file.mutable_content()), file.executable()};
  }
  TM_RETURN_IF_ERROR(ApplyPatch(diff, &workspace).status());
  TM_ASSIGN_OR_RETURN(v1::Tree tree, StoreWorkspace(workspace, nullptr));
  return std::vector<v1::File>(tree.files().begin(), tree.files().end());
}

Result<std::vector<v1::File>> AfterStep(const std::vector<v1::File>& files,
                                        const ImportHooks::Step& step) {
  BoxHostOptions options;
  if (!step.root.empty()) {
    const std::string roots = RootsFolder("");
    TM_ASSIGN_OR_RETURN(const std::string hash, PrepareRoot(step.root, roots));
    TM_ASSIGN_OR_RETURN(const RootPlace place, FindRoot(hash, roots));
    options.root = place.folder;
    options.environment = place.environment;
  }
  TM_ASSIGN_OR_RETURN(const auto host, BoxHost::Create(std::move(options)));
  TM_ASSIGN_OR_RETURN(const auto box, host->Open());
  const BoxLimits limits = BuildLimits();
  TM_RETURN_IF_ERROR(box->Configure(limits));
  for (const v1::File& file : files) {
    TM_RETURN_IF_ERROR(box->Put(file.path(), file.content(), file.executable()));
  }
  RunSpec spec;
  spec.command = {"/bin/sh", "-c", step.command};
  spec.environment = step.environment;
  spec.folder = step.folder;
  spec.limits = limits;
  const RunReport report = box->Run(spec);
  if (report.outcome != v1::OUTCOME_OK) {
    return Invalid("ended with " + EnumName(report.outcome) + " in a box, where " +
                   "only /app and /tmp can be written: " + Beginning(report.err, 500));
  }
  TM_ASSIGN_OR_RETURN(const v1::Tree tree, box->Collect({uint64_t{64} << 20, 16'384}));
  return std::vector<v1::File>(tree.files().begin(), tree.files().end());
}

}  // namespace

ImportHooks NewImportHooks() {
  ImportHooks hooks;
  hooks.apply_patch = Patched;
  hooks.run = AfterStep;
  return hooks;
}

}  // namespace tidemill
