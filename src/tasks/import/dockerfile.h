// As much of a Dockerfile as can be honoured without an engine: FROM a root file system that is
// given, COPY and ADD of files into the workspace, ENV, WORKDIR and RUN over the workspace.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace tidemill {

struct DockerStep {
  enum class Kind : uint8_t { kFrom, kCopy, kEnv, kWorkdir, kRun };
  Kind kind = Kind::kRun;
  size_t line = 0;                 // from 1
  std::vector<std::string> words;  // FROM: the image; COPY: sources, destination; ENV:
                                   // NAME=value..; WORKDIR: the folder; RUN: the command, one word
};

// kInvalid names the line and the instruction that cannot be honoured: "Dockerfile:4: EXPOSE ..".
Result<std::vector<DockerStep>> ParseDockerfile(std::string_view text);

}  // namespace tidemill
