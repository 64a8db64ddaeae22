// The names of a graph's size components.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_SIZES_SIZE_SCHEMA_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_SIZES_SIZE_SCHEMA_H_

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse {

// The implied last component; every graph has 1 of it.
inline constexpr absl::string_view kGraphs = "graphs";
inline constexpr size_t kMaxComponents = 64;
inline constexpr size_t kMaxComponentNameLength = 128;
// What names of components and tensors may have besides letters and digits: all that TF-GNN's own
// names have.
inline constexpr absl::string_view kNamePunctuation = "_.#/:%!^~@+=-";

// An ordered list of l distinct component names. `graphs` is implied as component number l.
// Immutable; thread-safe.
class SizeSchema {
 public:
  // INVALID_ARGUMENT, naming the component, for a bad, repeated or reserved name, or for more than
  // kMaxComponents. An empty list is valid.
  static absl::StatusOr<SizeSchema> Create(std::vector<std::string> components);

  // The components `nodes`, `edges`.
  static SizeSchema NodesAndEdges();

  // l, without `graphs`.
  size_t num_components() const { return components_.size(); }
  const std::vector<std::string>& components() const { return components_; }

  // Name of component k, 0 <= k <= l; l is `graphs`.
  absl::string_view name(size_t k) const {
    return k < components_.size() ? absl::string_view(components_[k]) : kGraphs;
  }

  // Number of a component, l for `graphs`; nullopt if there is no such component. O(l).
  std::optional<size_t> IndexOf(absl::string_view name) const;

  friend bool operator==(const SizeSchema& a, const SizeSchema& b) {
    return a.components_ == b.components_;
  }

 private:
  explicit SizeSchema(std::vector<std::string> components) : components_(std::move(components)) {}

  std::vector<std::string> components_;
};

// Whether `name` has 1 to `max_length` characters, each a letter, a digit or in `punctuation`.
bool IsValidName(absl::string_view name, size_t max_length, absl::string_view punctuation);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_SIZES_SIZE_SCHEMA_H_
