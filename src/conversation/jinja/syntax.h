// A parsed template: statements and expressions. Immutable once parsed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "conversation/jinja/value.h"

namespace tidemill {

struct JinjaExpr;
struct JinjaStmt;
using JinjaExprPtr = std::unique_ptr<JinjaExpr>;
using JinjaBody = std::vector<std::unique_ptr<JinjaStmt>>;

struct JinjaExpr {
  enum class Kind : uint8_t {
    kConst,     // value
    kName,      // name
    kList,      // parts
    kTuple,     // parts
    kMap,       // parts: key, value, key, value, ..
    kUnary,     // text: "not", "-", "+"; parts[0]
    kBinary,    // text: the operator; parts[0], parts[1]
    kCompare,   // operators; parts: one more than those
    kConcat,    // parts, joined as text
    kIf,        // parts: condition, then, else (may be null)
    kGetAttr,   // parts[0], text
    kGetItem,   // parts[0], parts[1]
    kSlice,     // parts: value, start, stop, step (the last three may be null)
    kCall,      // parts[0] is called with args
    kFilter,    // parts[0] (null: of a filter block) through text with args
    kTest,      // parts[0] is text with args
    kNameAttr,  // as a target: name.text of a namespace
  };
  Kind kind = Kind::kConst;
  int depth = 1;     // of the expressions below
  size_t begin = 0;  // in the source
  size_t end = 0;
  JinjaValue value;
  int name = -1;  // index into the template's names
  std::string text;
  std::vector<std::string> operators;
  std::vector<JinjaExprPtr> parts;
  // Of a call, filter or test.
  std::vector<JinjaExprPtr> args;
  std::vector<std::pair<std::string, JinjaExprPtr>> named;
  JinjaExprPtr star_args;    // *x
  JinjaExprPtr star_kwargs;  // **x
};

// A macro's or call block's parameters.
struct JinjaSignature {
  std::vector<int> names;
  std::vector<std::string> spelled;
  std::vector<JinjaExprPtr> defaults;  // of the last ones
  bool uses_varargs = false;
  bool uses_kwargs = false;
};

struct JinjaStmt {
  enum class Kind : uint8_t {
    kText,      // text
    kPrint,     // expr
    kIf,        // branches: (condition, body); orelse
    kFor,       // target, expr, condition (may be null), body, orelse
    kSet,       // target, expr
    kSetBlock,  // target, expr: filters (may be null), body
    kMacro,     // name, text, signature, body
    kCall,      // expr is a call, signature, body
    kFilter,    // expr: filters, body
    kWith,      // targets, values, body; without either: a scope of its own
    kBreak,
    kContinue,
  };
  Kind kind = Kind::kText;
  size_t begin = 0;
  std::string text;
  JinjaExprPtr target;
  JinjaExprPtr expr;
  JinjaExprPtr condition;
  std::vector<std::pair<JinjaExprPtr, JinjaBody>> branches;
  std::vector<std::pair<JinjaExprPtr, JinjaExprPtr>> bindings;
  JinjaBody body;
  JinjaBody orelse;
  JinjaSignature signature;
  int name = -1;
  bool recursive = false;
};

struct JinjaProgram {
  std::vector<std::string> names;  // every variable the template mentions
  JinjaBody body;
};

// `source` is normalized. Throws JinjaSyntaxError.
JinjaProgram ParseProgram(std::string_view source);

}  // namespace tidemill
