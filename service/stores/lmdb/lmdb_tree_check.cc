#include "service/stores/lmdb/lmdb_tree_check.h"

#include <cstring>

#include "service/base/status_macros.h"

namespace packhouse {
namespace {

using lmdb_layout::PageHeader;

uint64_t NumberIn(absl::string_view bytes, size_t i = 0) {
  uint64_t number;
  std::memcpy(&number, bytes.data() + i * sizeof(number), sizeof(number));
  return number;
}

}  // namespace

absl::Status PageUse::Use(uint64_t first, uint64_t count, absl::string_view as) {
  if (first < lmdb_layout::kFirstDataPage || first > last_page_ || count > last_page_ - first + 1) {
    return DamagedFile("page ", first, " of ", count, " (", as, ") is not in [2, ", last_page_,
                       "]");
  }
  for (uint64_t i = first; i < first + count; ++i) {
    if (is_used_[i]) return DamagedFile("page ", i, " (", as, ") is used twice");
    is_used_[i] = true;
  }
  return absl::OkStatus();
}

absl::Status LmdbTreeCheck::Run() {
  if (tree_.root == lmdb_layout::kNoPage) {
    if (tree_.depth != 0 || tree_.entries != 0) {
      return DamagedFile("a tree without root has entries");
    }
  } else {
    if (tree_.depth == 0 || tree_.depth > lmdb_layout::kMaxDepth) {
      return DamagedFile("a tree of depth ", tree_.depth);
    }
    PH_RETURN_IF_ERROR(Walk(tree_.root, 1, std::nullopt));
  }
  if (found_.branch_pages == tree_.branch_pages && found_.leaf_pages == tree_.leaf_pages &&
      found_.overflow_pages == tree_.overflow_pages && found_.entries == tree_.entries) {
    return absl::OkStatus();
  }
  return DamagedFile("there are ", found_.entries, " entries in ", found_.leaf_pages, " + ",
                     found_.branch_pages, " + ", found_.overflow_pages, " pages, should be ",
                     tree_.entries, " in ", tree_.leaf_pages, " + ", tree_.branch_pages, " + ",
                     tree_.overflow_pages);
}

uint64_t LmdbTreeCheck::last_freeing() const { return last_key_ ? NumberIn(*last_key_) : 0; }

absl::Status LmdbTreeCheck::Walk(uint64_t number, size_t depth,
                                 const std::optional<std::string>& bound) {
  PH_RETURN_IF_ERROR(use_.Use(number, 1, "tree"));
  const bool is_leaf = depth == tree_.depth;
  PH_ASSIGN_OR_RETURN(const LmdbTreePage page,
                      LmdbTreePage::Read(file_, number, meta_.page_bytes, is_leaf));
  ++(is_leaf ? found_.leaf_pages : found_.branch_pages);
  for (size_t i = 0; i < page.num_nodes(); ++i) {
    PH_ASSIGN_OR_RETURN(const LmdbTreePage::Node node, page.NodeAt(i));
    // The first key of a branch page stands for "everything before the second"; its value does not
    // matter.
    const bool has_key = is_leaf || i != 0;
    if (has_key && !IsInOrder(node.key, is_leaf && bound ? &*bound : nullptr)) {
      return DamagedFile("page ", number, ", node ", i, ": its key is out of order");
    }
    if (is_leaf) {
      PH_RETURN_IF_ERROR(CheckLeafNode(node));
    } else {
      PH_RETURN_IF_ERROR(
          Walk(node.child, depth + 1, has_key ? std::optional(std::string(node.key)) : bound));
    }
  }
  return page.CheckFilled();
}

bool LmdbTreeCheck::IsInOrder(absl::string_view key, const std::string* bound) const {
  if (key.empty() || key.size() > lmdb_layout::kMaxKeyBytes) return false;
  if (lists_free_pages_ && key.size() != sizeof(uint64_t)) return false;
  return (!last_key_ || Less(*last_key_, key)) && (bound == nullptr || !Less(key, *bound));
}

bool LmdbTreeCheck::Less(absl::string_view a, absl::string_view b) const {
  return lists_free_pages_ ? NumberIn(a) < NumberIn(b) : a < b;
}

absl::Status LmdbTreeCheck::CheckLeafNode(const LmdbTreePage::Node& node) {
  last_key_ = std::string(node.key);
  ++found_.entries;
  if (node.is_big) return CheckBigValue(NumberIn(node.data), node.value_bytes);
  return lists_free_pages_ ? CheckFreePages(node.data) : absl::OkStatus();
}

absl::Status LmdbTreeCheck::CheckBigValue(uint64_t number, uint64_t bytes) {
  const size_t page_bytes = meta_.page_bytes;
  const uint64_t pages = (sizeof(PageHeader) + bytes + page_bytes - 1) / page_bytes;
  PH_RETURN_IF_ERROR(use_.Use(number, pages, "value"));
  found_.overflow_pages += pages;
  PageHeader header;
  PH_RETURN_IF_ERROR(file_.ReadAs(number * page_bytes, header));
  const uint64_t said = header.lower | static_cast<uint64_t>(header.upper) << 16;
  if (header.number != number || header.flags != lmdb_layout::kOverflow || said != pages) {
    return DamagedFile("page ", number, " has a bad header");
  }
  if (number * page_bytes + sizeof(header) + bytes > meta_.file_bytes) {
    return DamagedFile("the file ends at ", meta_.file_bytes, ", before page ", number, " of ",
                       pages);
  }
  if (!lists_free_pages_) return absl::OkStatus();
  std::string list(bytes, '\0');
  PH_RETURN_IF_ERROR(file_.Read(number * page_bytes + sizeof(header), bytes, list.data()));
  return CheckFreePages(list);
}

// Checks a list: a count, and that many page numbers in descending order; there may be room after
// it.
absl::Status LmdbTreeCheck::CheckFreePages(absl::string_view list) {
  const size_t capacity = list.size() / sizeof(uint64_t);
  if (capacity == 0 || list.size() % sizeof(uint64_t) != 0 || NumberIn(list) >= capacity) {
    return DamagedFile("a list of free pages of ", list.size(), " bytes");
  }
  for (size_t i = 1; i <= NumberIn(list); ++i) {
    if (i > 1 && NumberIn(list, i) >= NumberIn(list, i - 1)) {
      return DamagedFile("a list of free pages out of order");
    }
    PH_RETURN_IF_ERROR(use_.Use(NumberIn(list, i), 1, "free"));
  }
  return absl::OkStatus();
}

}  // namespace packhouse
