// A function of +, -, * and choices by comparison as a polynomial, or as a tree of choices with
// polynomials at its ends. Two functions with the same form are the same function.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "prover/c_ast.h"
#include "prover/input_space.h"

namespace tidemill {

// A sum of products of the parameters with whole coefficients. The key has the exponent of each
// parameter.
class Polynomial {
 public:
  using Coefficient = __int128;
  using Exponents = std::vector<uint8_t>;

  static Polynomial OfConstant(int64_t value, size_t parameters);
  static Polynomial OfParameter(size_t index, size_t parameters);

  // False: it became too large to follow.
  bool Add(const Polynomial& other, int64_t factor);
  bool Multiply(const Polynomial& other);
  void Negate();
  bool operator==(const Polynomial&) const = default;

  bool IsConstant() const;
  Coefficient ConstantTerm() const;
  const std::map<Exponents, Coefficient>& terms() const { return terms_; }
  std::map<Exponents, Coefficient>& terms() { return terms_; }

 private:
  std::map<Exponents, Coefficient> terms_;
};

// `value`, or a choice: `yes` where `value` is below 0 (or, with `is_equality`, is 0), else `no`.
struct NormalForm {
  Polynomial value;
  bool is_choice = false;
  bool is_equality = false;
  std::shared_ptr<const NormalForm> yes, no;  // shared: a choice may come several times in a form

  bool operator==(const NormalForm& other) const;
};

// nullopt: the function does more than that, or a step on the way may leave the range of its type
// for some input of the space.
std::optional<NormalForm> NormalFormOf(const CProgram& program, const InputSpace& space);

}  // namespace tidemill
