// The layout of an LMDB 0.9 file: data version 1, on a 64-bit little-endian machine.
#ifndef PACKHOUSE_SERVICE_STORES_LMDB_LMDB_PAGE_LAYOUT_H_
#define PACKHOUSE_SERVICE_STORES_LMDB_LMDB_PAGE_LAYOUT_H_

#include <cstddef>
#include <cstdint>

namespace packhouse::lmdb_layout {

inline constexpr uint32_t kMagic = 0xBEEFC0DE;
inline constexpr uint32_t kDataVersion = 1;
inline constexpr uint64_t kNoPage = ~uint64_t{0};
inline constexpr uint64_t kFirstDataPage = 2;
inline constexpr size_t kMaxDepth = 32;
inline constexpr size_t kMaxKeyBytes = 511;
// Flag of a tree whose keys are machine integers.
inline constexpr uint16_t kIntegerKey = 0x08;
// Flag of a leaf's node: its value is on pages of its own, and the node has the number of the
// first.
inline constexpr uint16_t kBigData = 0x01;

struct PageHeader {
  uint64_t number;
  uint16_t pad;
  uint16_t flags;
  uint16_t lower;  // In an overflow page, lower and upper are its number of pages.
  uint16_t upper;
};
static_assert(sizeof(PageHeader) == 16);

// All flags of a stored page. Other flags are for duplicate keys, which we do not have, or for
// pages in memory: LMDB would write to a page with such a flag in the map.
enum PageFlag : uint16_t { kBranch = 0x01, kLeaf = 0x02, kOverflow = 0x04, kMeta = 0x08 };

struct Tree {
  uint32_t pad;  // The page size, in the first tree.
  uint16_t flags;
  uint16_t depth;
  uint64_t branch_pages;
  uint64_t leaf_pages;
  uint64_t overflow_pages;
  uint64_t entries;
  uint64_t root;
};
struct Meta {
  uint32_t magic;
  uint32_t version;
  uint64_t address;
  uint64_t map_size;
  Tree trees[2];  // Free pages, data.
  uint64_t last_page;
  uint64_t transaction;
};
static_assert(sizeof(Tree) == 48 && sizeof(Meta) == 136);

struct NodeHeader {
  uint16_t low;
  uint16_t high;
  uint16_t flags;
  uint16_t key_bytes;
};
static_assert(sizeof(NodeHeader) == 8);

}  // namespace packhouse::lmdb_layout

#endif  // PACKHOUSE_SERVICE_STORES_LMDB_LMDB_PAGE_LAYOUT_H_
