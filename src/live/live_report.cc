#include "live/live_report.h"

#include <set>

namespace tidemill {

Result<SessionReport> ReportSession(const StoredSession& stored) {
  Session session(stored.session);
  std::set<uint32_t> questions;
  for (const v1::SessionTurn& turn : stored.turns) {
    TM_RETURN_IF_ERROR(session.Add(turn));
    questions.insert(turn.question());
  }
  SessionReport report;
  report.session = stored.session;
  report.turns = stored.turns.size();
  report.questions = questions.size();
  const uint32_t last = session.turns().empty() ? 0 : session.turns().rbegin()->first;
  report.settled = Settle(session, 0, last, 1);
  return report;
}

void LiveReport::Add(const SessionReport& session) {
  ++(session.session.closed_ms() == 0 ? open : closed);
  questions += session.questions;
  const auto it = session.settled.tokens.find("trained");
  for (Agent* sum : {&all, &agents[session.session.agent()]}) {
    ++sum->sessions;
    sum->turns += session.turns;
    sum->sampled += session.settled.sampled;
    sum->trained += it == session.settled.tokens.end() ? 0 : it->second;
    sum->branches += session.settled.branches;
    sum->rewritten += session.settled.rewritten;
  }
  for (const auto& [why, count] : session.settled.tokens) tokens[why] += count;
}

}  // namespace tidemill
