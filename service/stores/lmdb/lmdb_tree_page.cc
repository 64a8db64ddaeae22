#include "service/stores/lmdb/lmdb_tree_page.h"

#include <cstring>

#include "service/base/status_macros.h"

namespace packhouse {

using lmdb_layout::NodeHeader;
using lmdb_layout::PageHeader;

LmdbTreePage::LmdbTreePage(std::vector<char> bytes, const PageHeader& header, bool is_leaf)
    : bytes_(std::move(bytes)),
      header_(header),
      is_leaf_(is_leaf),
      num_nodes_((header.lower - sizeof(header)) / sizeof(uint16_t)) {}

absl::StatusOr<LmdbTreePage> LmdbTreePage::Read(const PageFile& file, uint64_t number,
                                                size_t page_bytes, bool is_leaf) {
  std::vector<char> bytes(page_bytes);
  PH_RETURN_IF_ERROR(file.Read(number * page_bytes, page_bytes, bytes.data()));
  PageHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.number != number ||
      header.flags != (is_leaf ? lmdb_layout::kLeaf : lmdb_layout::kBranch) ||
      header.lower < sizeof(header) || header.lower % 2 != 0 || header.lower > header.upper ||
      header.upper > page_bytes) {
    return DamagedFile("page ", number, " has a bad header");
  }
  LmdbTreePage page(std::move(bytes), header, is_leaf);
  if (page.num_nodes() < (is_leaf ? 1 : 2)) {
    return DamagedFile("page ", number, " has ", page.num_nodes(), " nodes");
  }
  return page;
}

template <typename T>
T LmdbTreePage::At(size_t offset) const {
  T value;
  std::memcpy(&value, bytes_.data() + offset, sizeof(value));
  return value;
}

uint16_t LmdbTreePage::OffsetOf(size_t i) const {
  return At<uint16_t>(sizeof(PageHeader) + i * sizeof(uint16_t));
}

uint64_t LmdbTreePage::NodeBytes(const NodeHeader& node) const {
  const uint64_t in_page = node.flags == lmdb_layout::kBigData
                               ? sizeof(uint64_t)
                               : node.low | static_cast<uint64_t>(node.high) << 16;
  return sizeof(node) + node.key_bytes + (is_leaf_ ? in_page : 0);
}

absl::StatusOr<LmdbTreePage::Node> LmdbTreePage::NodeAt(size_t i) const {
  const uint16_t offset = OffsetOf(i);
  if (offset < header_.upper || offset % 2 != 0 || offset + sizeof(NodeHeader) > bytes_.size()) {
    return DamagedFile("page ", header_.number, ", node ", i, ": at ", offset);
  }
  const auto header = At<NodeHeader>(offset);
  if (is_leaf_ && header.flags != 0 && header.flags != lmdb_layout::kBigData) {
    return DamagedFile("page ", header_.number, ", node ", i, ": flags ", header.flags);
  }
  const uint64_t node_bytes = NodeBytes(header);
  if (node_bytes > bytes_.size() - offset) {
    return DamagedFile("page ", header_.number, ", node ", i, ": ", node_bytes, " bytes at ",
                       offset);
  }
  const absl::string_view all(bytes_.data() + offset, node_bytes);
  const uint64_t number = header.low | static_cast<uint64_t>(header.high) << 16;
  Node node;
  node.key = all.substr(sizeof(header), header.key_bytes);
  if (is_leaf_) {
    node.data = all.substr(sizeof(header) + header.key_bytes);
    node.is_big = header.flags == lmdb_layout::kBigData;
    node.value_bytes = number;
  } else {
    node.child = number | static_cast<uint64_t>(header.flags) << 32;
  }
  return node;
}

absl::Status LmdbTreePage::CheckFilled() const {
  size_t filled = 0;
  for (size_t i = 0; i < num_nodes_; ++i) {
    filled += (NodeBytes(At<NodeHeader>(OffsetOf(i))) + 1) / 2 * 2;
  }
  if (filled == bytes_.size() - header_.upper) return absl::OkStatus();
  return DamagedFile("page ", header_.number, ": ", filled, " bytes of nodes in ",
                     bytes_.size() - header_.upper);
}

}  // namespace packhouse
