#include "config/background_keys.h"

#include <algorithm>

namespace tidemill {

void BindBackground(BackgroundOptions& o, Binder& b) {
  b.Add("rollout.eager", &o.eager,
        {.doc = "Start calls of tools that change nothing when their last token is drawn, not when "
                "their turn ends; see tools.md#while-tools-run"});
  b.Add("rollout.deliver", &o.deliver,
        {.doc = "Results of background calls: turn: in front of the next turn; now: they end the "
                "turn that is being drawn",
         .choices = {"turn", "now"}});
  b.Add("rollout.on_submit", &o.on_submit,
        {.doc = "Background calls that run when the episode ends: cancel them, or wait for them",
         .choices = {"cancel", "wait"}});
  b.Add("background.allowed", &o.allowed,
        {.doc = "Built-in tools whose calls go on in the background where the agent asks for it",
         .choices = {"compile", "lint", "run_tests", "read_file"}});
  b.Add("background.always", &o.always,
        {.doc = "Built-in tools whose calls always go on in the background",
         .choices = {"compile", "lint", "run_tests", "read_file"}});
  b.Add("background.jobs", &o.jobs,
        {.doc = "Maximum number of background calls of an episode that run at once",
         .min = 1,
         .max = 64});
  b.Add("background.held_kb", &o.held_kb,
        {.doc = "Maximum size of an episode's results that wait for delivery",
         .min = 1,
         .max = 1 << 16});
  b.Add("background.total", &o.total,
        {.doc = "Maximum time that all background calls of an episode may run, added up",
         .min = 1,
         .max = 8.64e7});
}

Status CheckBackground(const BackgroundOptions& options, const Binder& binder) {
  for (const std::string& tool : options.always) {
    if (std::find(options.allowed.begin(), options.allowed.end(), tool) != options.allowed.end()) {
      return binder.Error("background.always",
                          "names \"" + tool + "\", which background.allowed names, too");
    }
  }
  return Ok();
}

}  // namespace tidemill
