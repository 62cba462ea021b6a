// Runs a parsed template for one conversation. Belongs to one thread and one render.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "conversation/jinja/budget.h"
#include "conversation/jinja/syntax.h"
#include "conversation/jinja/text_writer.h"
#include "conversation/jinja/value.h"

namespace tidemill {

// Variables of a scope; what it lacks is looked for in the scope around it.
struct JinjaFrame {
  std::shared_ptr<JinjaFrame> parent;
  std::vector<std::pair<int, JinjaValue>> variables;
  MemoryLease lease;
};
using JinjaFramePtr = std::shared_ptr<JinjaFrame>;  // shared: macros outlive the block they are in

// The value of `loop` inside a loop.
struct JinjaLoop {
  JinjaValue::SequenceRef items;
  size_t index = 0;
  int depth = 1;
  std::vector<JinjaValue> last_changed{};  // of loop.changed(..)
  bool has_changed = false;
  const JinjaStmt* statement = nullptr;  // of a recursive loop
  JinjaFramePtr frame{};
};

class JinjaInterpreter {
 public:
  // All must outlive it; `source` is the normalized template.
  JinjaInterpreter(const JinjaProgram& program, std::string_view source, std::string_view name,
                   const RenderInput& input);
  ~JinjaInterpreter();
  JinjaInterpreter(const JinjaInterpreter&) = delete;
  JinjaInterpreter& operator=(const JinjaInterpreter&) = delete;

  // Throws JinjaError.
  Rendered Run();

  // For filters, tests and functions.
  RenderBudget& budget() { return budget_; }
  const CivilTime& now() const { return now_; }
  JinjaValue GetAttr(const JinjaValue& value, std::string_view name);
  JinjaValue GetItem(const JinjaValue& value, const JinjaValue& index);
  // "a.b.0" as filters with an attribute argument read it.
  JinjaValue GetPath(const JinjaValue& value, const JinjaValue& path,
                     const JinjaValue* otherwise = nullptr);
  JinjaValue CallFilter(std::string_view name, const JinjaValue& value, const JinjaArgs& args);
  bool CallTest(std::string_view name, const JinjaValue& value, const JinjaArgs& args);
  JinjaValue Call(const JinjaValue& callee, const JinjaArgs& args);
  JinjaValue NewNamespace();

 private:
  enum class Flow : uint8_t { kOn, kBreak, kContinue };

  // Statements.
  Flow Execute(const JinjaBody& body, const JinjaFramePtr& frame);
  Flow ExecuteOne(const JinjaStmt& stmt, const JinjaFramePtr& frame);
  Flow Dispatch(const JinjaStmt& stmt, const JinjaFramePtr& frame);
  Flow ExecuteIf(const JinjaStmt& stmt, const JinjaFramePtr& frame);
  void ExecuteFor(const JinjaStmt& stmt, const JinjaValue& iterable, const JinjaFramePtr& frame,
                  int depth);
  void ExecuteWith(const JinjaStmt& stmt, const JinjaFramePtr& frame);
  void ExecuteCallBlock(const JinjaStmt& stmt, const JinjaFramePtr& frame);
  void Print(const JinjaValue& value);
  // A body's output, as a value.
  JinjaValue Capture(const JinjaBody& body, const JinjaFramePtr& frame);
  JinjaValue::SequenceRef FilteredItems(const JinjaStmt& stmt, const JinjaValue& iterable,
                                        const JinjaFramePtr& frame);

  // Variables.
  void Assign(const JinjaExpr& target, JinjaValue value, const JinjaFramePtr& frame);
  void SetVariable(JinjaFrame& frame, int name, JinjaValue value);
  const JinjaValue* FindVariable(int name, const JinjaFrame& frame) const;
  JinjaFramePtr NewFrame(JinjaFramePtr parent);

  // Expressions.
  JinjaValue Evaluate(const JinjaExpr& expr, const JinjaFramePtr& frame);
  JinjaValue EvaluateKind(const JinjaExpr& expr, const JinjaFramePtr& frame);
  JinjaValue EvaluateName(const JinjaExpr& expr, const JinjaFramePtr& frame);
  JinjaValue EvaluateLiteral(const JinjaExpr& expr, const JinjaFramePtr& frame);
  JinjaValue EvaluateUnary(const JinjaExpr& expr, const JinjaFramePtr& frame);
  JinjaValue EvaluateBinary(const JinjaExpr& expr, const JinjaFramePtr& frame);
  JinjaValue EvaluateCompare(const JinjaExpr& expr, const JinjaFramePtr& frame);
  bool CompareOne(std::string_view op, const JinjaValue& left, const JinjaValue& right);
  JinjaValue EvaluateIf(const JinjaExpr& expr, const JinjaFramePtr& frame);
  JinjaValue EvaluateSlice(const JinjaExpr& expr, const JinjaFramePtr& frame);
  JinjaValue EvaluateCall(const JinjaExpr& expr, const JinjaFramePtr& frame,
                          const JinjaValue* caller);
  // `value` is what the innermost filter takes where it has no expression (a filter block).
  JinjaValue EvaluateFilter(const JinjaExpr& expr, const JinjaFramePtr& frame,
                            const JinjaValue* value);
  JinjaArgs EvaluateArgs(const JinjaExpr& expr, const JinjaFramePtr& frame);
  JinjaValue LoopAttr(const JinjaValue::LoopRef& loop, std::string_view name);
  // Undefined, with what the value is said to lack.
  static JinjaValue Lacks(const JinjaValue& value, const JinjaValue& name);

  // Macros.
  JinjaValue MakeMacro(const JinjaStmt& stmt, const JinjaFramePtr& frame);
  JinjaValue CallMacro(const JinjaStmt& stmt, const JinjaFramePtr& frame, const JinjaArgs& args);
  void BindMacro(const JinjaStmt& stmt, const JinjaFramePtr& inner, const JinjaArgs& args);

  [[noreturn]] void Place(JinjaError error, size_t begin, size_t end) const;

  const JinjaProgram& program_;
  std::string_view source_;
  std::string_view name_;
  const CivilTime now_;
  RenderBudget budget_;
  TextWriter* out_ = nullptr;
  int varargs_name_ = -1;
  int kwargs_name_ = -1;
  int caller_name_ = -1;
  int loop_name_ = -1;
  JinjaFramePtr root_;
  // Whatever could hold itself: emptied at the end.
  std::vector<JinjaValue::NamespaceRef> namespaces_;
  std::vector<JinjaFramePtr> captured_;
};

}  // namespace tidemill
