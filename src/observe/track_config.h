// The keys of [track].
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "config/section.h"

namespace tidemill {

struct TrackConfig {
  TM_SECTION("track");
  TM_KEY(std::vector<std::string>, to, {},
         {.doc = "Trackers that follow the run; wandb and mlflow are fed by a process of its own, "
                 "see operations.md",
          .choices = {"wandb", "mlflow", "tensorboard"}});
  TM_KEY(std::string, project, "tidemill",
         {.doc = "Name of the project (wandb) or experiment (mlflow)"});
  TM_KEY(std::string, python, "python3",
         {.doc = "Python that has the trackers' packages; it runs `-m tidemill.track`"});
  TM_KEY(milliseconds, wait, milliseconds(10000),
         {.doc = "How long the end of the run waits for wandb and mlflow; then they finish alone",
          .max = 3.6e6});

  bool has(const std::string& tracker) const {
    return std::find(to.begin(), to.end(), tracker) != to.end();
  }
};

}  // namespace tidemill
