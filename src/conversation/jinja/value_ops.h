// Python's operators on values. All of them throw JinjaError for types that do not fit.
#pragma once

#include <cstdint>

#include "conversation/jinja/value.h"

namespace tidemill {

class TextWriter;

// Charges its work to `budget`, if one is given.
bool JinjaEquals(const JinjaValue& a, const JinjaValue& b, RenderBudget* budget = nullptr);
// Below, equal or above 0 as a is below, equal or above b.
int JinjaCompare(const JinjaValue& a, const JinjaValue& b);
bool JinjaContains(RenderBudget& budget, const JinjaValue& container, const JinjaValue& item);

JinjaValue JinjaAdd(RenderBudget& budget, const JinjaValue& a, const JinjaValue& b);
JinjaValue JinjaMultiply(RenderBudget& budget, const JinjaValue& a, const JinjaValue& b);
// + - / // % ** of numbers; `op` is the operator's text.
JinjaValue JinjaArithmetic(std::string_view op, const JinjaValue& a, const JinjaValue& b);
JinjaValue JinjaNegate(const JinjaValue& value);
// The ~ operator: all as text.
JinjaValue JinjaConcat(RenderBudget& budget, const std::vector<JinjaValue>& parts);

// len(): characters of a text, items, keys.
size_t JinjaLength(const JinjaValue& value);
// iter(): the items of a list, the keys of a dict, the characters of a text, what is left of a
// generator (which is used up by it).
JinjaValue::SequenceRef JinjaIterate(RenderBudget& budget, const JinjaValue& value);
// value[start:stop:step]; None for a part that is not given.
JinjaValue JinjaSlice(RenderBudget& budget, const JinjaValue& value, const JinjaValue& start,
                      const JinjaValue& stop, const JinjaValue& step);
// value[index]; undefined (`found` false) where Python would raise.
JinjaValue JinjaIndex(RenderBudget& budget, const JinjaValue& value, const JinjaValue& index,
                      bool& found);

// str() and repr().
void WriteStr(TextWriter& out, const JinjaValue& value);
void WriteRepr(TextWriter& out, const JinjaValue& value, int depth = 0);
// As text; a text is returned as it is.
JinjaValue ToText(RenderBudget& budget, const JinjaValue& value);
// 0.1, 1e-07, inf: Python's repr of a float.
std::string FloatText(double value);
std::string IntText(JinjaInt value);
// An int argument of a filter or method; `what` names it in the error.
int64_t IntArgument(const JinjaValue& value, std::string_view what);
double AsDouble(const JinjaValue& number);
// "NAME is undefined" and the like, where a value must not be undefined.
[[noreturn]] void FailUndefined(const JinjaValue& value);

}  // namespace tidemill
