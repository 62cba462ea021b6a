#include "core/message_rules.h"

namespace tidemill {
namespace {

using Kind = FieldRule::Kind;
using L = MessageLimits;

constexpr double kNumberMax = 4.611686018427388e18;  // 2^62: SQLite and JSON can hold it
constexpr double kUint32 = 4294967295.0;
constexpr double kInt32 = 2147483647.0;
constexpr double kMillis = 9.007199254740992e15;  // 2^53; clocks may jump, to either side
constexpr double kReward = 1e6;
constexpr double kNameBytes = 1000;
constexpr double kWordsBytes = 65'536;  // a sentence for people
constexpr double kJsonBytes = 1 << 24;
constexpr double kTokenBytes = 64;

constexpr FieldRule Text(std::string_view field, double bytes) {
  return {.field = field, .kind = Kind::kText, .high = bytes};
}
constexpr FieldRule Bytes(std::string_view field, MessageLimit limit) {
  return {.field = field, .kind = Kind::kText, .limit = limit};
}
constexpr FieldRule Long(std::string_view field) {
  return Bytes(field, &L::text_bytes);
}
constexpr FieldRule Path(std::string_view field) {
  return {.field = field, .kind = Kind::kPath};
}
constexpr FieldRule Hash(std::string_view field) {
  return {.field = field, .kind = Kind::kHash};
}
constexpr FieldRule Topic(std::string_view field) {
  return {.field = field, .kind = Kind::kTopic};
}
constexpr FieldRule Number(std::string_view field, double low, double high) {
  return {.field = field, .kind = Kind::kNumber, .low = low, .high = high};
}
constexpr FieldRule UpTo(std::string_view field, MessageLimit limit, double low = 0) {
  return {.field = field, .kind = Kind::kNumber, .low = low, .limit = limit};
}
constexpr FieldRule Below(std::string_view field, MessageLimit limit) {
  return {.field = field, .kind = Kind::kNumber, .limit = limit, .below = true};
}
constexpr FieldRule Count32(std::string_view field) {
  return Number(field, 0, kUint32);
}
constexpr FieldRule Count64(std::string_view field) {
  return Number(field, 0, kNumberMax);
}
constexpr FieldRule Moment(std::string_view field) {
  return Number(field, -kMillis, kMillis);
}
constexpr FieldRule Flag(std::string_view field) {
  return {.field = field, .kind = Kind::kFlag};
}
constexpr FieldRule Enum(std::string_view field) {
  return {.field = field, .kind = Kind::kEnum};
}
constexpr FieldRule Part(std::string_view field) {
  return {.field = field, .kind = Kind::kPart};
}
constexpr FieldRule Many(FieldRule rule, MessageLimit count) {
  rule.count = count;
  return rule;
}
constexpr FieldRule Needed(FieldRule rule) {
  rule.needed = true;
  return rule;
}

constexpr FieldRule kRules[] = {
    Needed(Text("TrajectoryId.task", kWordsBytes)),
    Number("TrajectoryId.group", 1, kNumberMax),
    Below("TrajectoryId.member", &L::members),
    Number("TrajectoryId.attempt", 1, kUint32),

    Needed(Path("File.path")),
    Long("File.content"),
    Flag("File.has_content"),
    Hash("File.hash"),
    Flag("File.executable"),
    Many(Part("Tree.files"), &L::files),

    UpTo("Limits.wall_ms", &L::wall_ms),
    UpTo("Limits.cpu_ms", &L::cpu_ms),
    UpTo("Limits.memory_mb", &L::memory_mb),
    UpTo("Limits.processes", &L::processes),
    UpTo("Limits.output_kb", &L::output_kb),
    UpTo("Limits.disk_mb", &L::disk_mb),

    Text("FileSource.folder", kWordsBytes),
    Text("FileSource.archive", kWordsBytes),
    Text("FileSource.git", kWordsBytes),
    Text("FileSource.commit", kNameBytes),
    Text("FileSource.subfolder", kNameBytes),
    Many(Part("Solution.files"), &L::files),
    Long("Solution.patch"),
    Many(Text("Solution.command", kJsonBytes), &L::entries),
    Long("Solution.answer"),
    Part("Solution.from"),
    Needed(Text("ScorerWeight.scorer", kNameBytes)),
    Number("ScorerWeight.weight", -kReward, kReward),

    Long("TestCase.name"),
    Long("TestCase.input"),
    Long("TestCase.expected"),
    Many(Needed(Path("Grading.sources")), &L::files),
    Many(Part("Grading.harness"), &L::files),
    Many(Text("Grading.build", kJsonBytes), &L::entries),
    Many(Text("Grading.run", kJsonBytes), &L::entries),
    Many(Part("Grading.cases"), &L::cases),
    Enum("Grading.compare"),
    Enum("Grading.mode"),
    Part("Grading.limits"),
    Part("Grading.specification"),
    Enum("Grading.report"),
    Path("Grading.report_file"),
    Many(Long("Grading.fail_to_pass"), &L::cases),
    Many(Long("Grading.pass_to_pass"), &L::cases),
    Many(Text("Grading.own_files", kNameBytes), &L::entries),
    Many(Part("Grading.canary"), &L::files),
    Flag("Grading.trusted"),
    Part("Grading.harness_from"),
    Long("Specification.source"),
    Text("Specification.function", kWordsBytes),
    Number("Specification.low", -0x1p63, 0x1p63),
    Number("Specification.high", -0x1p63, 0x1p63),

    Needed(Text("Task.id", kWordsBytes)),
    Long("Task.prompt"),
    Many(Part("Task.files"), &L::files),
    Many(Text("Task.tools", kWordsBytes), &L::entries),
    Path("Task.answer_file"),
    Part("Task.grading"),
    Part("Task.limits"),
    Many(Text("Task.tags", kWordsBytes), &L::entries),
    Number("Task.difficulty", -1e300, 1e300),
    Count32("Task.max_turns"),  // a lease bounds its own
    Long("Task.answer_prefix"),
    Long("Task.answer_suffix"),
    Part("Task.examples"),
    Flag("Task.no_tools"),
    Part("Task.workspace"),
    Enum("Task.prompt_files"),
    Part("Task.solution"),
    Hash("Task.root"),
    Many(Part("Task.weights"), &L::entries),
    Text("Task.metadata_json", kJsonBytes),
    Part("Task.agent"),
    Many(Text("AgentProgram.command", kJsonBytes), &L::entries),
    Many(Text("AgentProgram.environment", kWordsBytes), &L::entries),
    Part("AgentProgram.limits"),
    UpTo("AgentProgram.max_tokens", &L::tokens),
    Path("AgentProgram.last_file"),

    Number("Sampling.temperature", 0, 100),
    Number("Sampling.top_p", 0, 1),
    Number("Sampling.top_k", 0, kInt32),
    Number("Sampling.min_p", 0, 1),
    UpTo("Sampling.max_turn_tokens", &L::tokens),

    Number("GroupLease.group", 1, kNumberMax),
    Needed(Part("GroupLease.task")),
    UpTo("GroupLease.members", &L::members, 1),
    Number("GroupLease.seed", 0, 2 * kNumberMax * 2),  // any
    Needed(Enum("GroupLease.purpose")),
    Text("GroupLease.eval_name", kNameBytes),
    Part("GroupLease.sampling"),
    UpTo("GroupLease.max_turns", &L::turns, 1),
    Number("GroupLease.max_context_tokens", 0, kInt32),
    Moment("GroupLease.issued_ms"),
    Text("GroupLease.token", kTokenBytes),
    Many(Part("GroupLease.contexts"), &L::members),
    UpTo("GroupLease.max_case_tokens", &L::tokens),
    Many(Part("CaseSet.cases"), &L::entries),
    Number("ShownCase.number", 1, kNumberMax),
    Long("ShownCase.prompt"),
    Long("ShownCase.answer"),
    Flag("ShownCase.solved"),
    Long("ShownCase.note"),

    Number("GroupReport.group", 1, kNumberMax),
    Number("GroupReport.revision", 1, kUint32),
    UpTo("GroupReport.accepted", &L::members),
    UpTo("GroupReport.dropped", &L::members),
    Flag("GroupReport.reissue"),
    Long("GroupReport.reason"),
    UpTo("GroupReport.scored", &L::members),
    UpTo("GroupReport.solved", &L::members),
    Number("GroupReport.reward_sum", -65'536 * kReward, 65'536 * kReward),
    Count32("GroupReport.uses"),
    Text("GroupReport.token", kTokenBytes),
    Count64("StepDone.step"),
    Count64("StepDone.version"),
    Flag("StepDone.last"),
    Part("DispatchEvent.group"),
    Part("DispatchEvent.step"),

    Needed(Text("ToolRequest.request_id", kNameBytes)),
    Needed(Part("ToolRequest.episode")),
    Needed(Text("ToolRequest.tool", kJsonBytes)),
    Text("ToolRequest.arguments_json", kJsonBytes),
    Part("ToolRequest.tree"),
    Many(Part("ToolRequest.edits"), &L::files),
    Part("ToolRequest.limits"),
    Needed(Topic("ToolRequest.reply_to")),
    Part("ToolRequest.grading"),
    Flag("ToolRequest.keep_box"),
    Number("ToolRequest.text_limit", 0, kInt32),
    Moment("ToolRequest.created_ms"),
    Text("ToolRequest.token", kTokenBytes),
    Text("ToolRequest.cancel_token", kTokenBytes),
    Hash("ToolRequest.root"),
    Text("ToolRequest.box_holder", kNameBytes),

    Long("Diagnostic.file"),
    Count32("Diagnostic.line"),
    Count32("Diagnostic.column"),
    Text("Diagnostic.severity", kNameBytes),
    Long("Diagnostic.message"),
    Long("TestFailure.name"),
    Long("TestFailure.input"),
    Long("TestFailure.expected"),
    Long("TestFailure.actual"),

    Needed(Text("ToolResult.request_id", kNameBytes)),
    Needed(Part("ToolResult.episode")),
    Text("ToolResult.tool", kJsonBytes),
    Enum("ToolResult.outcome"),
    Number("ToolResult.exit_code", -kInt32 - 1, kInt32),
    Long("ToolResult.cause"),
    Long("ToolResult.text"),
    Long("ToolResult.stdout_bytes"),
    Long("ToolResult.stderr_bytes"),
    Flag("ToolResult.truncated"),
    Many(Part("ToolResult.diagnostics"), &L::entries),
    UpTo("ToolResult.tests_passed", &L::cases),
    UpTo("ToolResult.tests_total", &L::cases),
    Many(Part("ToolResult.failures"), &L::cases),
    Part("ToolResult.tree"),
    Number("ToolResult.wall_ms", 0, kMillis),
    Number("ToolResult.cpu_ms", 0, kMillis),
    Count64("ToolResult.peak_memory_kb"),
    Moment("ToolResult.queue_ms"),
    Flag("ToolResult.degraded"),
    Flag("ToolResult.cached"),
    Flag("ToolResult.compiled"),
    Text("ToolResult.worker", kNameBytes),
    Text("ToolResult.token", kTokenBytes),
    Flag("ToolResult.box_lost"),
    Needed(Part("ToolCancel.episode")),
    Text("ToolCancel.token", kTokenBytes),

    Number("VersionRun.version", 1, kNumberMax),
    UpTo("VersionRun.tokens", &L::tokens),
    Flag("VersionRun.masked"),
    Text("ToolCall.tool", kJsonBytes),  // as the model wrote it
    Text("ToolCall.arguments_json", kJsonBytes),
    Enum("ToolCall.outcome"),
    Long("ToolCall.text"),
    Moment("ToolCall.wait_ms"),
    Number("ToolCall.run_ms", 0, kMillis),
    Count32("ToolCall.retries"),
    Flag("ToolCall.skipped"),
    UpTo("ToolCall.tests_passed", &L::cases),
    UpTo("ToolCall.tests_total", &L::cases),
    Flag("ToolCall.compiled"),
    Hash("ToolCall.tree_hash"),

    Many(Below("Turn.ids", &L::vocabulary), &L::tokens),
    // Rounding may put a certain token a little above 0. A token less likely than e^-50 is never
    // drawn, and its importance ratio would be past what a float holds.
    Many(Number("Turn.logprobs", -50, 1e-3), &L::tokens),
    Many(Part("Turn.versions"), &L::tokens),
    Enum("Turn.end"),
    Many(Part("Turn.calls"), &L::calls),
    Text("Turn.malformed", kJsonBytes),
    Many(Below("Turn.observation_ids", &L::vocabulary), &L::tokens),
    Moment("Turn.started_ms"),
    Moment("Turn.finished_ms"),
    Moment("Turn.observed_ms"),
    Many(Below("Turn.prompt_ids", &L::vocabulary), &L::tokens),
    Count32("Turn.session_turn"),
    Part("Turn.supports"),
    // At most a bit for each id, and the letter in front.
    Many(Bytes("TokenSupports.sets", &L::vocabulary), &L::tokens),
    Many(Below("TokenSupports.set_of", &L::tokens), &L::tokens),

    Needed(Part("Trajectory.id")),
    Needed(Enum("Trajectory.purpose")),
    Text("Trajectory.eval_name", kNameBytes),
    Many(Below("Trajectory.prompt_ids", &L::vocabulary), &L::tokens),
    Many(Part("Trajectory.turns"), &L::turns),
    Needed(Enum("Trajectory.end")),
    Part("Trajectory.tree"),
    Part("Trajectory.sampling"),
    Text("Trajectory.worker", kNameBytes),
    Moment("Trajectory.started_ms"),
    Moment("Trajectory.finished_ms"),
    Long("Trajectory.stale_cause"),
    UpTo("Trajectory.group_members", &L::members, 1),
    Long("Trajectory.submission"),
    Text("Trajectory.token", kTokenBytes),
    Many(Number("Trajectory.shown_cases", 1, kNumberMax), &L::entries),
    Part("Trajectory.log"),
    Long("AgentLog.text"),
    Count64("AgentLog.bytes"),
    Long("AgentLog.ended"),
    Count32("AgentLog.answers"),
    Long("AgentLog.untrained"),
    Long("AgentLog.diff"),
    Flag("AgentLog.truncated"),

    Count32("ToolNote.turn"),
    Text("ToolNote.tool", kWordsBytes),
    Text("ToolNote.arguments_json", kJsonBytes),
    Enum("ToolNote.outcome"),
    Long("ToolNote.text"),
    Needed(Part("CaseRecord.id")),
    Text("CaseRecord.scope", kWordsBytes),
    Long("CaseRecord.prompt"),
    Long("CaseRecord.answer"),
    Flag("CaseRecord.solved"),
    Number("CaseRecord.reward", -kReward, kReward),
    UpTo("CaseRecord.group_members", &L::members, 1),
    Many(Number("CaseRecord.shown", 1, kNumberMax), &L::entries),
    Many(Part("CaseRecord.tools"), &L::entries),
    Moment("CaseRecord.at_ms"),
    Many(Number("CaseRecord.key", -1e30, 1e30), &L::entries),
    Text("CaseRecord.tenant", kNameBytes),
    Count64("CaseRecord.session"),

    Number("Session.number", 1, kNumberMax),
    Text("Session.tenant", kNameBytes),
    Text("Session.name", kNameBytes),
    Text("Session.named_by", kNameBytes),
    Text("Session.agent", kNameBytes),
    Flag("Session.trainable"),
    Moment("Session.started_ms"),
    Moment("Session.closed_ms"),
    Text("Session.close_reason", kWordsBytes),
    Count32("Session.closes"),
    Count32("Session.settled"),
    Count32("Session.settled_before"),
    Text("Session.task_class", kNameBytes),
    Many(Number("Session.shown_cases", 1, kNumberMax), &L::entries),
    Long("Session.cases_text"),
    Number("Signal.session", 1, kNumberMax),
    Count32("Signal.turn"),
    Count32("Signal.span_from"),
    Count32("Signal.span_to"),
    Needed(Text("Signal.source", kNameBytes)),
    Text("Signal.by", kNameBytes),
    Number("Signal.score", -1, 1),
    Text("Signal.text", kWordsBytes),
    Number("Signal.revision", 1, kUint32),
    Moment("Signal.at_ms"),
    Number("SessionTurn.session", 1, kNumberMax),
    Number("SessionTurn.turn", 1, kUint32),
    Number("SessionTurn.question", 1, kUint32),
    Count32("SessionTurn.choice"),
    Number("SessionTurn.choices", 1, kUint32),
    Text("SessionTurn.request_id", kNameBytes),
    Hash("SessionTurn.body_hash"),
    Count32("SessionTurn.prefix_turn"),
    Count32("SessionTurn.prefix_tokens"),
    Many(Below("SessionTurn.prompt_ids", &L::vocabulary), &L::tokens),
    Count32("SessionTurn.context_turn"),
    Count32("SessionTurn.context_messages"),
    Long("SessionTurn.messages_json"),
    Many(Count32("SessionTurn.matched"), &L::turns),
    Long("SessionTurn.answer_json"),
    Needed(Part("SessionTurn.answer")),
    Part("SessionTurn.sampling"),
    Count32("SessionTurn.forced"),
    Count32("SessionTurn.kept"),
    Long("SessionTurn.tail"),
    Flag("SessionTurn.cut"),
    Text("SessionTurn.untrainable", kNameBytes),
    Text("SessionTurn.side", kNameBytes),
    Flag("SessionTurn.tools"),
    Count32("SessionTurn.rewritten"),
    Many(Count32("SessionTurn.matched_messages"), &L::turns),
    Count32("SessionTurn.redacted"),
    Flag("SessionTurn.output_redacted"),

    Needed(Text("ScoreRequest.request_id", kNameBytes)),
    Needed(Part("ScoreRequest.id")),
    Enum("ScoreRequest.purpose"),
    Enum("ScoreRequest.end"),
    Part("ScoreRequest.tree"),
    Part("ScoreRequest.grading"),
    Many(Part("ScoreRequest.last_calls"), &L::turns),
    Number("ScoreRequest.generated_tokens", 0, kInt32),
    UpTo("ScoreRequest.turns", &L::turns),
    Count32("ScoreRequest.max_tokens"),
    Needed(Topic("ScoreRequest.reply_to")),
    Long("ScoreRequest.prompt"),
    Long("ScoreRequest.submission"),
    Many(Needed(Path("ScoreRequest.files")), &L::files),
    Text("ScoreRequest.token", kTokenBytes),
    Many(Part("ScoreRequest.weights"), &L::entries),
    Text("ScoreRequest.metadata_json", kJsonBytes),
    Hash("ScoreRequest.root"),
    Many(Long("ScoreRequest.turn_texts"), &L::turns),
    Many(Part("ScoreRequest.known_versions"), &L::entries),
    Many(Part("ScoreRequest.peers"), &L::entries),
    Count32("ScoredPeer.member"),
    Flag("ScoredPeer.submitted"),
    Long("ScoredPeer.submission"),
    Needed(Text("ScorerVersion.scorer", kNameBytes)),
    Count32("ScorerVersion.version"),

    Text("SubScore.name", kNameBytes),
    Number("SubScore.value", -kReward, kReward),
    Long("SubScore.comment"),
    Count32("SubScore.looks"),
    Needed(Text("RewardPart.scorer", kNameBytes)),
    Count32("RewardPart.scorer_version"),
    Number("RewardPart.value", -kReward, kReward),
    Number("RewardPart.weight", -kReward, kReward),
    Long("RewardPart.comment"),
    Many(Part("RewardPart.sub_scores"), &L::entries),
    Many(Part("RewardPart.judgements"), &L::entries),
    Flag("RewardPart.audited"),
    Number("RewardPart.executed", -kReward, kReward),
    Number("RewardPart.correction", -kReward, kReward),

    Needed(Part("Verdict.id")),
    Needed(Text("Verdict.request_id", kNameBytes)),
    Flag("Verdict.scored"),
    Long("Verdict.cause"),
    Number("Verdict.reward", -kReward, kReward),
    Many(Part("Verdict.parts"), &L::entries),
    Many(Number("Verdict.turn_rewards", -kReward, kReward), &L::turns),
    Flag("Verdict.solved"),
    UpTo("Verdict.tests_passed", &L::cases),
    UpTo("Verdict.tests_total", &L::cases),
    Flag("Verdict.compiled"),
    Many(Part("Verdict.diagnostics"), &L::entries),
    Text("Verdict.token", kTokenBytes),
    Number("Verdict.correction", -kReward, kReward),

    Long("JudgedTurn.text"),
    Long("JudgedTurn.next"),
    Needed(Text("JudgeRequest.request_id", kNameBytes)),
    Needed(Text("JudgeRequest.judge", kNameBytes)),
    Long("JudgeRequest.prompt"),
    Many(Part("JudgeRequest.turns"), &L::turns),
    Long("JudgeRequest.submission"),
    Long("JudgeRequest.other"),
    Text("JudgeRequest.session", kNameBytes),
    Needed(Topic("JudgeRequest.reply_to")),
    Text("JudgeRequest.token", kTokenBytes),
    Many(Long("JudgeRequest.others"), &L::entries),
    Flag("JudgeVote.valid"),
    Long("JudgeVote.cause"),
    Number("JudgeVote.value", -1, 1),
    Number("JudgeVote.probability", 0, 1),
    Long("JudgeVote.reason"),
    Text("JudgeVote.judge", kNameBytes),
    Needed(Text("Judgement.judge", kNameBytes)),
    UpTo("Judgement.turn", &L::turns),
    Number("Judgement.value", -1, 1),
    Number("Judgement.probability", 0, 1),
    Number("Judgement.spread", 0, 2),
    Long("Judgement.reason"),
    Many(Part("Judgement.votes"), &L::entries),
    Long("Judgement.prompt"),
    Count32("Judgement.version"),
    Needed(Text("JudgeAnswer.request_id", kNameBytes)),
    Flag("JudgeAnswer.available"),
    Long("JudgeAnswer.cause"),
    Many(Part("JudgeAnswer.judgements"), &L::entries),
    Text("JudgeAnswer.token", kTokenBytes),

    UpTo("TaughtSpan.turn", &L::turns),
    UpTo("TaughtSpan.begin", &L::tokens, 1),
    UpTo("TaughtSpan.tokens", &L::tokens, 1),
    Many(Below("TaughtSequence.ids", &L::vocabulary), &L::tokens),
    Many(Part("TaughtSequence.spans"), &L::turns),
    Needed(Text("TeacherRequest.request_id", kNameBytes)),
    Many(Part("TeacherRequest.sequences"), &L::turns),
    Number("TeacherRequest.temperature", 1e-3, 100),
    Needed(Topic("TeacherRequest.reply_to")),
    Text("TeacherRequest.token", kTokenBytes),
    UpTo("TurnScores.turn", &L::turns),
    Many(Number("TurnScores.logprobs", -50, 1e-3), &L::tokens),
    Many(Below("TurnScores.unknown", &L::tokens), &L::tokens),
    Needed(Text("TeacherAnswer.request_id", kNameBytes)),
    Flag("TeacherAnswer.available"),
    Long("TeacherAnswer.cause"),
    Many(Part("TeacherAnswer.turns"), &L::turns),
    Text("TeacherAnswer.token", kTokenBytes),

    Count64("BatchRequest.step"),
    UpTo("BatchRequest.episodes", &L::samples),
    Topic("BatchRequest.reply_to"),
    Count64("BatchRequest.version"),
    Count64("BatchRequest.version_step"),
    UpTo("BatchRequest.live_episodes", &L::samples),
    Number("LiveCredit.baseline", -kReward, kReward),
    Number("LiveCredit.deviation", 0, kReward),
    Count32("LiveCredit.others"),
    Many(Number("LiveCredit.turn_scores", -kReward, kReward), &L::turns),
    Text("LiveCredit.tenant", kNameBytes),
    Text("LiveCredit.task_class", kNameBytes),
    Needed(Part("Sample.trajectory")),
    Needed(Part("Sample.verdict")),
    Count32("Sample.uses"),
    UpTo("Sample.masked_tokens", &L::tokens),
    Part("Sample.live"),
    Many(Part("Sample.teacher"), &L::turns),
    Count64("Batch.step"),
    Many(Part("Batch.samples"), &L::samples),
    Count64("Batch.learner_version"),

    Number("PolicyAnnouncement.version", 1, kNumberMax),
    Count64("PolicyAnnouncement.step"),
    Needed(Path("PolicyAnnouncement.location")),
    Number("PolicyAnnouncement.bytes", 1, kNumberMax),
    Needed(Text("PolicyAnnouncement.checksum", kTokenBytes)),
    Moment("PolicyAnnouncement.published_ms"),

    Needed(Text("Heartbeat.worker", kNameBytes)),
    Text("Heartbeat.role", kNameBytes),
    Text("Heartbeat.version", kNameBytes),
    Text("Heartbeat.host", kNameBytes),
    Number("Heartbeat.pid", 0, kInt32),
    Moment("Heartbeat.started_ms"),
    Moment("Heartbeat.sent_ms"),
    Text("Heartbeat.doing", kWordsBytes),
    Count64("Heartbeat.policy_version"),
    Many(Part("Heartbeat.numbers"), &L::entries),
    Text("NumbersEntry.key", kNameBytes),
    Number("NumbersEntry.value", -1e300, 1e300),
    Count32("Heartbeat.messages"),
    Number("Heartbeat.busy", -1000, 1000),
    Flag("Heartbeat.leaving"),
    Text("Heartbeat.endpoint", kNameBytes),
    Number("Heartbeat.rate", -1e300, 1e300),
    Text("Heartbeat.rate_of", kNameBytes),

    Text("DeadLetter.topic", kNameBytes),
    {.field = "DeadLetter.body", .kind = Kind::kText, .limit = &L::body_bytes},
    Text("DeadLetter.reason", kWordsBytes),
    Count32("DeadLetter.deliveries"),
    Moment("DeadLetter.died_ms"),
};

}  // namespace

std::span<const FieldRule> MessageRules() {
  return kRules;
}

}  // namespace tidemill
