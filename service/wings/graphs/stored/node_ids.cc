#include "service/wings/graphs/stored/node_ids.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/checksum.h"
#include "service/base/quoted.h"

namespace packhouse {
namespace {

// The finaliser of SplitMix64.
uint64_t Mixed(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

uint64_t HashOfText(absl::string_view id) {
  return Mixed(uint64_t{Crc32c(id)} << 32 ^ id.size() ^ TextKey(id));
}

}  // namespace

uint64_t TextKey(absl::string_view id) {
  uint64_t key = 0;
  for (size_t i = 0; i < sizeof(key); ++i) {
    key = key << 8 | (i < id.size() ? static_cast<unsigned char>(id[i]) : 0);
  }
  return key;
}

std::string IdColumns::Name(const IdRecord& id) const {
  if (!integers_) return Quoted(Text(id.place));
  return absl::StrCat(static_cast<int64_t>(id.key ^ (uint64_t{1} << 63)));
}

NodeLookup::NodeLookup(bool integers, uint64_t num_nodes, const char* ids, const uint64_t* offsets,
                       uint64_t table_bytes)
    : integers_(integers), num_nodes_(num_nodes), ids_(ids), offsets_(offsets) {
  if (num_nodes == 0) return;
  if (integers && IntegerKeyAt(num_nodes - 1) - IntegerKeyAt(0) == num_nodes - 1) {
    consecutive_ = true;
    return;
  }
  uint64_t places = 16;
  while (places < 2 * num_nodes) places *= 2;
  if (places * sizeof(uint32_t) > table_bytes) return;
  table_.assign(places, kEmpty);
  for (uint64_t node = 0; node < num_nodes; ++node) {
    uint64_t place = HashAt(node) & (places - 1);
    while (table_[place] != kEmpty) place = (place + 1) & (places - 1);
    table_[place] = static_cast<uint32_t>(node);
  }
}

uint64_t NodeLookup::HashAt(uint64_t node) const {
  return integers_ ? Mixed(IntegerKeyAt(node)) : HashOfText(TextAt(node));
}

// `compare` says whether a node's id is below (negative), equal or above.
template <typename Compare>
std::optional<uint32_t> NodeLookup::Search(const Compare& compare) const {
  uint64_t first = 0;
  uint64_t last = num_nodes_;
  while (first < last) {
    const uint64_t middle = first + (last - first) / 2;
    const int order = compare(middle);
    if (order == 0) return static_cast<uint32_t>(middle);
    if (order < 0) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  return std::nullopt;
}

std::optional<uint32_t> NodeLookup::Find(const IdColumns& columns, const IdRecord& id) const {
  if (num_nodes_ == 0) return std::nullopt;
  if (consecutive_) {
    const uint64_t node = id.key - IntegerKeyAt(0);
    if (node >= num_nodes_) return std::nullopt;
    return static_cast<uint32_t>(node);
  }
  const absl::string_view text = integers_ ? absl::string_view() : columns.Text(id.place);
  if (table_.empty()) {
    return Search([&](uint64_t node) {
      if (!integers_) return TextAt(node).compare(text);
      const uint64_t key = IntegerKeyAt(node);
      return key < id.key ? -1 : key > id.key ? 1 : 0;
    });
  }
  const uint64_t mask = table_.size() - 1;
  uint64_t place = (integers_ ? Mixed(id.key) : HashOfText(text)) & mask;
  for (; table_[place] != kEmpty; place = (place + 1) & mask) {
    const uint32_t node = table_[place];
    if (integers_ ? IntegerKeyAt(node) == id.key : TextAt(node) == text) return node;
  }
  return std::nullopt;
}

}  // namespace packhouse
