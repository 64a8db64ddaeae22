// External ids: their order, and the numbers of the nodes that have them.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_NODE_IDS_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_NODE_IDS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "service/wings/graphs/stored/logged_rows.h"
#include "service/wings/graphs/stored/row_records.h"

namespace packhouse {

// Of integers: a number in the order of the ids, equal only for equal ids. Of text: the first
// bytes, in the order of the texts as far as they differ.
inline uint64_t IntegerKey(int64_t id) { return static_cast<uint64_t>(id) ^ (uint64_t{1} << 63); }
uint64_t TextKey(absl::string_view id);

// An id, and where it lies in a list of columns of ids.
struct IdRecord {
  uint64_t key;
  uint64_t place;  // RowPlace.
};

// The ids of one node set, in all columns that have some.
class IdColumns {
 public:
  explicit IdColumns(bool integers) : integers_(integers) {}

  void Add(const StoredRows::Array& array, uint64_t num_rows) {
    columns_.push_back({array, num_rows});
  }
  size_t num_columns() const { return columns_.size(); }
  uint64_t num_rows(size_t column) const { return columns_[column].num_rows; }
  bool integers() const { return integers_; }

  absl::string_view Text(uint64_t place) const {
    return RowBytes(columns_[RowPlace::PartOf(place)].array, 1, RowPlace::RowOf(place));
  }
  IdRecord At(size_t column, uint64_t row) const {
    const uint64_t place = RowPlace::Of(column, row);
    if (!integers_) return {TextKey(Text(place)), place};
    int64_t id;
    std::memcpy(&id, columns_[column].array.data + row * sizeof(id), sizeof(id));
    return {IntegerKey(id), place};
  }
  bool IsSame(const IdRecord& a, const IdRecord& b) const {
    return a.key == b.key && (integers_ || Text(a.place) == Text(b.place));
  }
  // For messages.
  std::string Name(const IdRecord& id) const;

 private:
  struct Column {
    StoredRows::Array array;
    uint64_t num_rows;
  };
  const bool integers_;
  std::vector<Column> columns_;
};

// By id, then by place.
struct IdLess {
  const IdColumns* columns;

  bool operator()(const IdRecord& a, const IdRecord& b) const {
    if (a.key != b.key) return a.key < b.key;
    if (!columns->integers()) {
      if (const int order = columns->Text(a.place).compare(columns->Text(b.place)); order != 0) {
        return order < 0;
      }
    }
    return a.place < b.place;
  }
};

// Numbers of nodes by their ids, which are given in ascending order. Ids without gaps need nothing
// else; otherwise there is a table, if it takes no more than `table_bytes`, or else a binary
// search. Views the ids. Thread-compatible.
class NodeLookup {
 public:
  // `integers`: 8 bytes a node. Otherwise `offsets` has one more than there are nodes.
  NodeLookup(bool integers, uint64_t num_nodes, const char* ids, const uint64_t* offsets,
             uint64_t table_bytes);

  uint64_t num_nodes() const { return num_nodes_; }
  std::optional<uint32_t> Find(const IdColumns& columns, const IdRecord& id) const;

 private:
  static constexpr uint32_t kEmpty = 0xffffffff;

  absl::string_view TextAt(uint64_t node) const {
    return {ids_ + offsets_[node], offsets_[node + 1] - offsets_[node]};
  }
  uint64_t IntegerKeyAt(uint64_t node) const {
    int64_t id;
    std::memcpy(&id, ids_ + node * sizeof(id), sizeof(id));
    return IntegerKey(id);
  }
  uint64_t HashAt(uint64_t node) const;
  template <typename Compare>
  std::optional<uint32_t> Search(const Compare& compare) const;

  const bool integers_;
  const uint64_t num_nodes_;
  const char* const ids_;
  const uint64_t* const offsets_;
  bool consecutive_ = false;
  std::vector<uint32_t> table_;  // Open addressing; a power of two.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_NODE_IDS_H_
