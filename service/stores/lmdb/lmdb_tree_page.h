// One page of an LMDB tree, checked by itself.
#ifndef PACKHOUSE_SERVICE_STORES_LMDB_LMDB_TREE_PAGE_H_
#define PACKHOUSE_SERVICE_STORES_LMDB_LMDB_TREE_PAGE_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/stores/lmdb/lmdb_page_layout.h"
#include "service/stores/lmdb/page_file.h"

namespace packhouse {

// Immutable. One page of memory.
class LmdbTreePage {
 public:
  // A key, and its entry in the page.
  struct Node {
    absl::string_view key;
    uint64_t child = 0;      // In a branch: the page below.
    absl::string_view data;  // In a leaf: the value, or the number of its first own page.
    bool is_big = false;     // In a leaf: the value has pages of its own.
    uint64_t value_bytes = 0;
  };

  // DATA_LOSS naming the page unless it has the header of a leaf or branch with this number.
  static absl::StatusOr<LmdbTreePage> Read(const PageFile& file, uint64_t number, size_t page_bytes,
                                           bool is_leaf);

  size_t num_nodes() const { return num_nodes_; }
  // Views the page. DATA_LOSS naming page and node if it does not lie within the page.
  absl::StatusOr<Node> NodeAt(size_t i) const;
  // DATA_LOSS unless the nodes fill exactly the room that the header says.
  absl::Status CheckFilled() const;

 private:
  LmdbTreePage(std::vector<char> bytes, const lmdb_layout::PageHeader& header, bool is_leaf);

  template <typename T>
  T At(size_t offset) const;
  // The bytes of a node in the page: header, key, and a leaf's entry.
  uint64_t NodeBytes(const lmdb_layout::NodeHeader& node) const;
  uint16_t OffsetOf(size_t i) const;

  std::vector<char> bytes_;
  lmdb_layout::PageHeader header_;
  bool is_leaf_;
  size_t num_nodes_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LMDB_LMDB_TREE_PAGE_H_
