#include "conversation/jinja/interpreter.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "conversation/jinja/builtins.h"
#include "core/text.h"

namespace tidemill {
namespace {

int NameIndex(const JinjaProgram& program, std::string_view name) {
  const auto it = std::find(program.names.begin(), program.names.end(), name);
  return it == program.names.end() ? -1 : static_cast<int>(it - program.names.begin());
}

// The messages, in which a role of the usual names counts as the template's own word: templates
// build special tokens with it ("<|" + role + "|>"), and it can say nothing else.
JinjaValue MessagesValue(RenderBudget& budget, const nlohmann::ordered_json& json) {
  constexpr std::string_view kRoles[] = {"system", "developer", "user",    "assistant",
                                         "tool",   "function",  "ipython", "model"};
  const JinjaValue messages = ValueOfJson(budget, json);
  if (!messages.IsSequence()) return messages;
  std::vector<JinjaValue> items = messages.sequence()->items;
  for (JinjaValue& message : items) {
    const JinjaValue* role = message.IsMap() ? message.map().Find("role") : nullptr;
    if (role == nullptr || !role->IsText()) continue;
    const std::string& name = role->text().bytes;
    if (std::find(std::begin(kRoles), std::end(kRoles), name) == std::end(kRoles)) continue;
    auto entries = message.map().entries;
    for (auto& [key, value] : entries) {
      if (key.text().bytes == "role") value = JinjaValue::Own(name);
    }
    message = MakeMap(budget, std::move(entries));
  }
  return MakeSequence(budget, JinjaSequence::Kind::kList, std::move(items));
}

}  // namespace

JinjaInterpreter::JinjaInterpreter(const JinjaProgram& program, std::string_view source,
                                   std::string_view name, const RenderInput& input)
    : program_(program),
      source_(source),
      name_(name),
      now_(input.now),
      budget_(input.limits),
      varargs_name_(NameIndex(program, "varargs")),
      kwargs_name_(NameIndex(program, "kwargs")),
      caller_name_(NameIndex(program, "caller")),
      loop_name_(NameIndex(program, "loop")),
      root_(std::make_shared<JinjaFrame>()) {  // not counted
  const auto set = [&](std::string_view variable, const auto& make) {
    const int index = NameIndex(program, variable);
    if (index >= 0) SetVariable(*root_, index, make());
  };
  for (const JinjaGlobalEntry& global : GlobalFunctions()) {
    set(global.name, [&] {
      return JinjaValue(JinjaValue::CallableRef(
          std::make_shared<JinjaCallable>(JinjaCallable{std::string(global.name), global.call})));
    });
  }
  if (input.bos_token) set("bos_token", [&] { return JinjaValue::Own(*input.bos_token); });
  if (input.eos_token) set("eos_token", [&] { return JinjaValue::Own(*input.eos_token); });
  for (const auto& [key, value] : input.kwargs.items()) {
    set(key, [&, &json = value] { return ValueOfJson(budget_, json); });
  }
  set("messages", [&] { return MessagesValue(budget_, input.messages); });
  set("tools", [&] { return ValueOfJson(budget_, input.tools); });
  set("add_generation_prompt", [&] { return JinjaValue::Bool(input.add_generation_prompt); });
}

JinjaInterpreter::~JinjaInterpreter() {
  // One by one: a chain of namespaces does not go in one deep recursion.
  for (const auto& space : namespaces_) space->fields.clear();
  for (const auto& frame : captured_) frame->variables.clear();
  root_->variables.clear();
}

Rendered JinjaInterpreter::Run() {
  TextWriter out(budget_);
  out_ = &out;
  Execute(program_.body, root_);
  JinjaText text = out.Release();
  return {std::move(text.bytes), std::move(text.outside)};
}

void JinjaInterpreter::Place(JinjaError error, size_t begin, size_t end) const {
  if (error.placed) throw error;
  const auto line =
      std::count(source_.begin(), source_.begin() + static_cast<std::ptrdiff_t>(begin), '\n') + 1;
  std::string message = std::string(name_) + ":" + std::to_string(line) + ": ";
  std::string text = Beginning(source_.substr(begin, end - begin), 80);
  std::replace(text.begin(), text.end(), '\n', ' ');
  throw JinjaError{message + "in \"" + text + "\": " + error.message, true};
}

JinjaInterpreter::Flow JinjaInterpreter::Execute(const JinjaBody& body,
                                                 const JinjaFramePtr& frame) {
  for (const auto& stmt : body) {
    const Flow flow = ExecuteOne(*stmt, frame);
    if (flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

JinjaInterpreter::Flow JinjaInterpreter::ExecuteOne(const JinjaStmt& stmt,
                                                    const JinjaFramePtr& frame) {
  try {
    const DepthGuard depth(budget_);
    budget_.Step();
    return Dispatch(stmt, frame);
  } catch (const JinjaError& error) {
    const size_t end = source_.find('\n', stmt.begin);
    Place(error, stmt.begin, std::min(end, source_.size()));
  }
}

JinjaInterpreter::Flow JinjaInterpreter::Dispatch(const JinjaStmt& stmt,
                                                  const JinjaFramePtr& frame) {
  switch (stmt.kind) {
    case JinjaStmt::Kind::kText:
      out_->Own(stmt.text);
      break;
    case JinjaStmt::Kind::kPrint:
      Print(Evaluate(*stmt.expr, frame));
      break;
    case JinjaStmt::Kind::kIf:
      return ExecuteIf(stmt, frame);
    case JinjaStmt::Kind::kFor:
      ExecuteFor(stmt, Evaluate(*stmt.expr, frame), frame, 1);
      break;
    case JinjaStmt::Kind::kSet:
      Assign(*stmt.target, Evaluate(*stmt.expr, frame), frame);
      break;
    case JinjaStmt::Kind::kSetBlock: {
      JinjaValue value = Capture(stmt.body, NewFrame(frame));
      if (stmt.expr != nullptr) value = EvaluateFilter(*stmt.expr, frame, &value);
      Assign(*stmt.target, std::move(value), frame);
      break;
    }
    case JinjaStmt::Kind::kMacro:
      SetVariable(*frame, stmt.name, MakeMacro(stmt, frame));
      break;
    case JinjaStmt::Kind::kCall:
      ExecuteCallBlock(stmt, frame);
      break;
    case JinjaStmt::Kind::kFilter: {
      const JinjaValue value = Capture(stmt.body, NewFrame(frame));
      Print(EvaluateFilter(*stmt.expr, frame, &value));
      break;
    }
    case JinjaStmt::Kind::kWith:
      ExecuteWith(stmt, frame);
      break;
    case JinjaStmt::Kind::kBreak:
      return Flow::kBreak;
    case JinjaStmt::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kOn;
}

JinjaInterpreter::Flow JinjaInterpreter::ExecuteIf(const JinjaStmt& stmt,
                                                   const JinjaFramePtr& frame) {
  for (const auto& [condition, body] : stmt.branches) {
    if (Evaluate(*condition, frame).Truth()) return Execute(body, frame);
  }
  return Execute(stmt.orelse, frame);
}

void JinjaInterpreter::ExecuteWith(const JinjaStmt& stmt, const JinjaFramePtr& frame) {
  const JinjaFramePtr inner = NewFrame(frame);
  for (const auto& [target, value] : stmt.bindings) {
    Assign(*target, Evaluate(*value, frame), inner);
  }
  Execute(stmt.body, inner);
}

JinjaValue::SequenceRef JinjaInterpreter::FilteredItems(const JinjaStmt& stmt,
                                                        const JinjaValue& iterable,
                                                        const JinjaFramePtr& frame) {
  JinjaValue::SequenceRef items = JinjaIterate(budget_, iterable);
  if (stmt.condition == nullptr) return items;
  std::vector<JinjaValue> kept;
  const JinjaFramePtr inner = NewFrame(frame);
  for (const JinjaValue& item : items->items) {
    budget_.Step();
    inner->variables.clear();
    Assign(*stmt.target, item, inner);
    if (Evaluate(*stmt.condition, inner).Truth()) kept.push_back(item);
  }
  return MakeSequence(budget_, JinjaSequence::Kind::kList, std::move(kept)).sequence();
}

void JinjaInterpreter::ExecuteFor(const JinjaStmt& stmt, const JinjaValue& iterable,
                                  const JinjaFramePtr& frame, int depth) {
  auto loop = std::make_shared<JinjaLoop>();
  loop->items = FilteredItems(stmt, iterable, frame);
  loop->depth = depth;
  if (stmt.recursive) {
    loop->statement = &stmt;
    loop->frame = frame;
    captured_.push_back(frame);
  }
  if (loop->items->items.empty()) {
    Execute(stmt.orelse, frame);
    return;
  }
  const size_t count = loop->items->items.size();
  for (; loop->index < count; ++loop->index) {
    budget_.Step();
    const JinjaFramePtr inner = NewFrame(frame);
    if (loop_name_ >= 0) SetVariable(*inner, loop_name_, JinjaValue(loop));
    Assign(*stmt.target, loop->items->items[loop->index], inner);
    if (Execute(stmt.body, inner) == Flow::kBreak) break;
  }
}

void JinjaInterpreter::Print(const JinjaValue& value) {
  WriteStr(*out_, value);
  if (out_->size() > budget_.limits().output_bytes_max) {
    JinjaFail("writes more than " + std::to_string(budget_.limits().output_bytes_max) + " bytes");
  }
}

JinjaValue JinjaInterpreter::Capture(const JinjaBody& body, const JinjaFramePtr& frame) {
  TextWriter captured(budget_);
  TextWriter* const before = std::exchange(out_, &captured);
  try {
    Execute(body, frame);
  } catch (...) {
    out_ = before;
    throw;
  }
  out_ = before;
  return captured.Done();
}

void JinjaInterpreter::ExecuteCallBlock(const JinjaStmt& stmt, const JinjaFramePtr& frame) {
  const JinjaValue caller = MakeMacro(stmt, frame);
  Print(EvaluateCall(*stmt.expr, frame, &caller));
}

JinjaFramePtr JinjaInterpreter::NewFrame(JinjaFramePtr parent) {
  auto frame =
      std::make_shared<JinjaFrame>(JinjaFrame{std::move(parent), {}, MemoryLease(&budget_)});
  frame->lease.Add(sizeof(JinjaFrame));
  return frame;
}

void JinjaInterpreter::SetVariable(JinjaFrame& frame, int name, JinjaValue value) {
  for (auto& [known, old] : frame.variables) {
    if (known == name) {
      old = std::move(value);
      return;
    }
  }
  frame.lease.Add(2 * sizeof(frame.variables[0]));
  frame.variables.emplace_back(name, std::move(value));
}

const JinjaValue* JinjaInterpreter::FindVariable(int name, const JinjaFrame& frame) const {
  for (const JinjaFrame* scope = &frame; scope != nullptr; scope = scope->parent.get()) {
    for (const auto& [known, value] : scope->variables) {
      if (known == name) return &value;
    }
  }
  return nullptr;
}

void JinjaInterpreter::Assign(const JinjaExpr& target, JinjaValue value,
                              const JinjaFramePtr& frame) {
  if (target.kind == JinjaExpr::Kind::kName) {
    return SetVariable(*frame, target.name, std::move(value));
  }
  if (target.kind == JinjaExpr::Kind::kNameAttr) {
    const JinjaValue* space = FindVariable(target.name, *frame);
    if (space == nullptr || space->name_space() == nullptr) {
      JinjaFail("cannot assign attribute on non-namespace object");
    }
    (*space->name_space())->Set(target.text, std::move(value));
    return;
  }
  const JinjaValue::SequenceRef items = JinjaIterate(budget_, value);
  if (items->items.size() != target.parts.size()) {
    JinjaFail("expected " + std::to_string(target.parts.size()) + " values to unpack, got " +
              std::to_string(items->items.size()));
  }
  for (size_t i = 0; i < target.parts.size(); ++i) {
    Assign(*target.parts[i], items->items[i], frame);
  }
}

JinjaValue JinjaInterpreter::NewNamespace() {
  auto space = std::make_shared<JinjaNamespace>(JinjaNamespace{{}, MemoryLease(&budget_)});
  space->lease.Add(sizeof(JinjaNamespace));
  namespaces_.push_back(space);
  return JinjaValue(space);
}

}  // namespace tidemill
