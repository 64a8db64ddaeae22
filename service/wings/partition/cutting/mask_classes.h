// Classes of nodes from masks: nodes that the same masks hold are one class, so that where each
// class is spread evenly, each mask is, also if masks overlap or lie in each other.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_MASK_CLASSES_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_MASK_CLASSES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace packhouse {

// A class is a mask's number where it alone holds the node, the number of masks where none does;
// combinations of several, in ascending order, follow. Of some nodes or all of them: whoever has
// others joins the combinations of all before Classes(). Thread-compatible.
class MaskClasses {
 public:
  using Combination = std::vector<uint16_t>;  // Numbers of masks, ascending; at least two.

  MaskClasses(size_t num_masks, uint64_t num_nodes);

  // Masks come in ascending order, each with the nodes that it holds. False, and no more may be
  // called, if there are thousands of combinations.
  bool Add(uint16_t mask, uint64_t node);

  // Those that a node has.
  absl::btree_set<Combination> Combinations() const;
  // The class of each node; `all` has at least Combinations().
  std::vector<uint16_t> Classes(const absl::btree_set<Combination>& all) const;

 private:
  const uint16_t none_;
  std::vector<Combination> held_;  // By the numbers in own_.
  std::vector<uint16_t> own_;      // By node.
  absl::flat_hash_map<std::pair<uint16_t, uint16_t>, uint16_t> joined_;
};

// What reports call a combination: `"a" and "b"`.
std::string CombinationName(const MaskClasses::Combination& combination,
                            absl::Span<const absl::string_view> masks);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_MASK_CLASSES_H_
