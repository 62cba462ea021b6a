#include "prover/test_kit/random_c_patterns.h"

namespace tidemill {
namespace {

using Piece = RandomPiece;
using Line = RandomLine;

Piece Word(const std::string& word) {
  return {Piece::kLeaf, word, {}};
}

Piece Value(int64_t value) {
  return {Piece::kNumber, std::to_string(value), {}};
}

Piece Two(Piece left, const std::string& op, Piece right) {
  return {Piece::kBinary, op, {std::move(left), std::move(right)}};
}

Line If(Piece condition, std::vector<Line> then) {
  Line line{Line::kIf, "", "", {std::move(condition)}, {}};
  line.bodies.push_back(std::move(then));
  return line;
}

}  // namespace

Piece RandomCPatterns::At(Piece index) const {
  return {Piece::kIndex, array_, {std::move(index)}};
}

Line RandomCPatterns::Each(const std::string& index, int turns, std::vector<Line> body) const {
  Line line{Line::kFor, index, "", {Value(turns)}, {}};
  line.bodies.push_back(std::move(body));
  return line;
}

Line RandomCPatterns::SetElement(Piece index, const std::string& update, Piece value) const {
  return {Line::kAssign, "", update, {At(std::move(index)), std::move(value)}, {}};
}

Line RandomCPatterns::SetResult(const std::string& update, Piece value) const {
  return {Line::kAssign, result_, update, {std::move(value)}, {}};
}

std::vector<Line> RandomCPatterns::Swap(const Piece& one, const Piece& other) const {
  return {{Line::kDeclare, "int x", "", {At(one)}, {}},
          SetElement(one, "=", At(other)),
          SetElement(other, "=", Word("x"))};
}

Line RandomCPatterns::Fill(Piece value) const {
  return Each("i", length_, {SetElement(Word("i"), "=", std::move(value))});
}

Line RandomCPatterns::Reorder(Random& random) const {
  const Piece i = Word("i"), j = Word("j"), next = Two(Word("j"), "+", Value(1));
  switch (random.Below(3)) {
    case 0: {  // bubble sort
      const std::string order = random.Chance(0.5) ? ">" : "<";
      Line swap = If(Two(At(j), order, At(next)), Swap(j, next));
      return Each("i", length_, {Each("j", length_ - 1, {std::move(swap)})});
    }
    case 1:
      return Each("i", length_ / 2, Swap(i, Two(Value(length_ - 1), "-", i)));
    default: {
      Piece moved =
          Two(Two(i, "+", Value(random.Between(1, 5))), "%", Word(std::to_string(length_)));
      return Each("i", length_, {SetElement(std::move(moved), "=", At(i))});
    }
  }
}

Line RandomCPatterns::Update(Random& random) const {
  const Piece i = Word("i"), next = Two(Word("i"), "+", Value(1));
  switch (random.Below(4)) {
    case 0:  // sums so far
      return Each("i", length_ - 1,
                  {SetElement(next, "=", Two(Two(At(next), "+", At(i)), "%", Value(100)))});
    case 1: {  // counts how often
      Piece cast{Piece::kCast, "unsigned", {At(i)}};
      Piece place = Two(std::move(cast), "%", Word(std::to_string(length_)));
      return Each("i", length_, {SetElement(std::move(place), "+=", Value(1))});
    }
    case 2: {  // Collatz
      Piece odd = Two(Two(At(i), "*", Value(3)), "+", Value(1));
      Piece half = Two(At(i), "/", Value(2));
      Piece is_odd = Two(At(i), "&", Value(1));
      Piece turn{Piece::kChoose, "", {std::move(is_odd), std::move(odd), std::move(half)}};
      return Each("i", length_, {SetElement(i, "=", Two(std::move(turn), "%", Value(100)))});
    }
    default:
      return Each("i", length_,
                  {If(Two(At(i), "<", Word(random.Chance(0.5) ? "a" : "b")),
                      {SetElement(i, "^=", Value(random.Between(1, 15)))})});
  }
}

Line RandomCPatterns::Gather(Random& random) const {
  const Piece i = Word("i"), j = Word("j"), result = Word(result_);
  switch (random.Below(4)) {
    case 0:  // the largest
      return Each("i", length_, {If(Two(At(i), ">", result), {SetResult("=", At(i))})});
    case 1:  // how many
      return Each("i", length_,
                  {If(Two(Two(At(i), "%", Value(random.Between(2, 5))), "==", Value(0)),
                      {SetResult("+=", Value(1))})});
    case 2: {  // where the first one is
      Line found = If(Two(At(i), random.Chance(0.5) ? "==" : ">=", Word("b")),
                      {SetResult("=", i), {Line::kBreak, "", "", {}, {}}});
      return Each("i", length_, {std::move(found)});
    }
    default: {  // every two of them
      Line add = SetResult("+=", Two(Two(At(i), "^", At(j)), "%", Value(random.Between(3, 9))));
      Line inner{Line::kFor, "j", "", {Word("i")}, {}};
      inner.bodies.push_back({std::move(add)});
      return Each("i", length_, {std::move(inner)});
    }
  }
}

Line RandomCPatterns::Draw(Random& random) const {
  switch (random.Below(3)) {
    case 0:
      return Reorder(random);
    case 1:
      return Update(random);
    default:
      return Gather(random);
  }
}

Line RandomCPatterns::Read(Random& random) const {
  Piece sum = Two(Two(Word(result_), "%", Value(1000)), "*", Value(random.Between(2, 31)));
  return Each("i", length_, {SetResult("=", Two(std::move(sum), "+", At(Word("i"))))});
}

}  // namespace tidemill
