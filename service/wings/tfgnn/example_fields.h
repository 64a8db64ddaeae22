// Finds the lists of a serialized tf.Example by their keys, without building messages.
#ifndef PACKHOUSE_SERVICE_WINGS_TFGNN_EXAMPLE_FIELDS_H_
#define PACKHOUSE_SERVICE_WINGS_TFGNN_EXAMPLE_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace packhouse::tfgnn {

enum class ListKind : uint8_t { kNone, kBytes, kFloats, kInt64s };

// "bytes", "floats" or "int64s"; "nothing".
absl::string_view ListKindName(ListKind kind);

// The list of one Feature.
struct FeatureList {
  ListKind kind = ListKind::kNone;
  // Floats: their bytes, little-endian. Int64s: their varints, one after the other, the last one
  // whole. Bytes: the BytesList message; see ForEachString.
  absl::string_view values;
};

// The keys that are looked for, and where they are in the latest record. What is returned is valid
// until the next Find. Not thread-safe.
class ExampleFields {
 public:
  // Number of a key; the same one for the same key.
  size_t AddKey(absl::string_view key);
  const std::string& key(size_t number) const { return keys_[number]; }

  // Looks through a record. False if it is no tf.Example. O(bytes of keys, lengths of lists), which
  // is much less than the record.
  bool Find(absl::string_view record);

  // The list of a key, of kind kNone if it is absent. False if its Feature is malformed.
  bool ListOf(size_t number, FeatureList* list);

 private:
  struct Place {
    // The serialized Feature.
    absl::string_view feature;
    // Of the record in which it was found last.
    uint64_t record = 0;
  };

  bool FindInFeatures(absl::string_view features);
  bool TakeEntry(absl::string_view entry);
  // Joins the parts of a value that came in several, which is legal and rare: parts of a message
  // merge as if they were joined.
  absl::string_view Joined(absl::string_view a, absl::string_view b);
  bool Normalize(ListKind kind, absl::string_view list, absl::string_view* values);

  absl::flat_hash_map<std::string, size_t> number_of_;
  std::vector<std::string> keys_;
  std::vector<Place> places_;
  // Which key followed key i last time; those of one writer mostly come in the same order.
  std::vector<size_t> next_;
  size_t last_ = 0;
  uint64_t record_ = 0;
  // What was joined for the present record. Its elements do not move.
  std::deque<std::string> joined_;
};

// Calls take(string_view) with each string of a list of kind kBytes. False if it is malformed.
template <typename Take>
bool ForEachString(absl::string_view list, Take take);

}  // namespace packhouse::tfgnn

// Implementation details follow.
#include "service/wings/tfgnn/wire_cursor.h"

namespace packhouse::tfgnn {

template <typename Take>
bool ForEachString(absl::string_view list, Take take) {
  WireCursor cursor(list);
  uint32_t tag;
  while (cursor.Next(&tag)) {
    if (tag != TagOf(1, kBytes)) {
      cursor.Skip(tag);
      continue;
    }
    const absl::string_view text = cursor.ReadBytes();
    if (!cursor.is_malformed()) take(text);
  }
  return !cursor.is_malformed();
}

}  // namespace packhouse::tfgnn

#endif  // PACKHOUSE_SERVICE_WINGS_TFGNN_EXAMPLE_FIELDS_H_
