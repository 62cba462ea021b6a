#include "prover/test_kit/proof_pairs.h"

#include <sstream>

#include "testing/test_kit.h"

namespace tidemill {
namespace {

// Text with places where something else may stand: pieces and, between two of them, what may be
// said.
struct Template {
  std::vector<std::string> pieces;
  std::vector<std::vector<std::string>> places;

  // With the first way of saying it everywhere but at one or two places.
  std::string Text(size_t place, size_t way, size_t other_place = ~size_t{0},
                   size_t other_way = 0) const {
    std::string text = pieces[0];
    for (size_t i = 0; i < places.size(); ++i) {
      text += places[i][i == place ? way : i == other_place ? other_way : 0] + pieces[i + 1];
    }
    return text;
  }
};

Result<Template> ReadTemplate(const std::string& text) {
  Template read;
  read.pieces.emplace_back();
  bool inside = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view mark = std::string_view(text).substr(i, 2);
    if (mark == "@(" || mark == "@|" || mark == "@)") {
      if (inside == (mark == "@("))
        return Invalid("unexpected " + std::string(mark) + " in\n" + text);
      inside = mark != "@)";
      if (mark == "@(") read.places.emplace_back(1);
      if (mark == "@|") read.places.back().emplace_back();
      if (mark == "@)") read.pieces.emplace_back();
      ++i;
      continue;
    }
    (inside ? read.places.back().back() : read.pieces.back()) += text[i];
  }
  if (inside) return Invalid("@( without @) in\n" + text);
  return read;
}

void AddPairs(const std::string& name, const std::string& reference, const Template& form,
              bool is_reference, std::vector<ProofPair>& out) {
  if (!is_reference) out.push_back({name, reference, form.Text(~size_t{0}, 0)});
  for (size_t place = 0; place < form.places.size(); ++place) {
    for (size_t way = 1; way < form.places[place].size(); ++way) {
      const std::string change = name + ", \"" + form.places[place][way] + "\"";
      out.push_back({change, reference, form.Text(place, way)});
      // And together with the last way at the next place.
      const size_t next = place + 1;
      if (next >= form.places.size()) continue;
      const size_t last = form.places[next].size() - 1;
      out.push_back({change + " and \"" + form.places[next][last] + "\"", reference,
                     form.Text(place, way, next, last)});
    }
  }
}

}  // namespace

Result<std::vector<ProofPair>> ReadProofPairs(const std::string& path) {
  std::istringstream lines(TextOf(path));
  std::vector<std::pair<std::string, std::vector<std::string>>> functions;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# ") && functions.empty()) continue;
    if (line.starts_with("==== ")) {
      functions.emplace_back(line.substr(5), std::vector<std::string>(1));
    } else if (functions.empty()) {
      return Invalid(path + ": text before the first function");
    } else if (line == "----") {
      functions.back().second.emplace_back();
    } else {
      functions.back().second.back() += line + "\n";
    }
  }
  std::vector<ProofPair> pairs;
  for (const auto& [name, forms] : functions) {
    std::string reference;
    for (size_t i = 0; i < forms.size(); ++i) {
      TM_ASSIGN_OR_RETURN(const Template form, ReadTemplate(forms[i]));
      if (i == 0) reference = form.Text(~size_t{0}, 0);
      AddPairs(name + ", form " + std::to_string(i + 1), reference, form, i == 0, pairs);
    }
  }
  return pairs;
}

}  // namespace tidemill
