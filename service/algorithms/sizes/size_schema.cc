#include "service/algorithms/sizes/size_schema.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace packhouse {

bool IsValidName(absl::string_view name, size_t max_length, absl::string_view punctuation) {
  if (name.empty() || name.size() > max_length) return false;
  return std::all_of(name.begin(), name.end(), [&](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           punctuation.find(c) != absl::string_view::npos;
  });
}

absl::StatusOr<SizeSchema> SizeSchema::Create(std::vector<std::string> components) {
  if (components.size() > kMaxComponents) {
    return absl::InvalidArgumentError(
        absl::StrCat("schema: ", components.size(), " components, at most ", kMaxComponents));
  }
  for (size_t k = 0; k < components.size(); ++k) {
    const std::string& name = components[k];
    if (name == kGraphs) {
      return absl::InvalidArgumentError(
          "schema: component 'graphs' is implied and must not be listed");
    }
    if (!IsValidName(name, kMaxComponentNameLength, kNamePunctuation)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "schema: component name '", absl::CHexEscape(name.substr(0, kMaxComponentNameLength)),
          "' is not 1 to ", kMaxComponentNameLength, " characters of [A-Za-z0-9", kNamePunctuation,
          "]"));
    }
    if (std::find(components.begin(), components.begin() + k, name) != components.begin() + k) {
      return absl::InvalidArgumentError(
          absl::StrCat("schema: component '", name, "' is listed twice"));
    }
  }
  return SizeSchema(std::move(components));
}

SizeSchema SizeSchema::NodesAndEdges() { return SizeSchema({"nodes", "edges"}); }

std::optional<size_t> SizeSchema::IndexOf(absl::string_view name) const {
  if (name == kGraphs) return components_.size();
  const auto found = std::find(components_.begin(), components_.end(), name);
  if (found == components_.end()) return std::nullopt;
  return found - components_.begin();
}

}  // namespace packhouse
