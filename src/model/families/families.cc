#include "model/families/families.h"

#include <array>

#include "model/families/family_spec.h"

namespace tidemill {
namespace {

#define TM_FAMILY_VALUE(name) ModelFamily::k##name,
constexpr std::array kAllFamilies = {TM_MODEL_FAMILIES(TM_FAMILY_VALUE)};
#undef TM_FAMILY_VALUE

#define TM_FAMILY_POINTER(name) &k##name##Family,
constexpr std::array kFamilySpecs = {TM_MODEL_FAMILIES(TM_FAMILY_POINTER)};
#undef TM_FAMILY_POINTER

}  // namespace

const FamilySpec& SpecOf(ModelFamily family) {
  return *kFamilySpecs[static_cast<size_t>(family)];
}

std::span<const ModelFamily> AllFamilies() {
  return kAllFamilies;
}

std::string_view ModelFamilyName(ModelFamily family) {
  return SpecOf(family).model_type;
}

}  // namespace tidemill
