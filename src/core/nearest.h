// "Did you mean ..": the word of a list that was most likely meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tidemill {

// Letters to insert, delete, replace or swap with their neighbour to get from one to the other.
size_t EditDistance(std::string_view a, std::string_view b);

// The candidate nearest to `word`; "" when none is near enough to be a slip. In dotted names a
// right last part under a wrong section counts as near.
std::string NearestWord(std::string_view word, const std::vector<std::string>& candidates);

// ` Did you mean "..."?`, or "" when nothing is near.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace tidemill
