// What an episode in an environment may do, and how its session says that it ended.
#pragma once

#include "agents/episode_recorder.h"
#include "rollout/agent_port.h"

namespace tidemill {

EpisodeTerms EnvironmentTermsOf(const AgentJob& job);
v1::EpisodeEnd EndedBy(const EpisodeSession& session);

}  // namespace tidemill
