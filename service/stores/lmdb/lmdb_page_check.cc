#include "service/stores/lmdb/lmdb_page_check.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/status_macros.h"
#include "service/stores/lmdb/lmdb_meta_pages.h"
#include "service/stores/lmdb/lmdb_page_layout.h"
#include "service/stores/lmdb/lmdb_tree_page.h"
#include "service/stores/lmdb/page_file.h"

namespace packhouse {
namespace {

// Checks that each page of a file has at most one use. Takes a bit for each page.
class PageUse {
 public:
  explicit PageUse(uint64_t last_page) : last_page_(last_page), is_used_(last_page + 1, false) {}

  // DATA_LOSS naming the page and the use, if a page is outside the file or already has a use.
  absl::Status Use(uint64_t first, uint64_t count, absl::string_view as);

 private:
  const uint64_t last_page_;
  std::vector<bool> is_used_;
};

// One walk over one tree. `file`, `meta` and `use` must outlive it.
class LmdbTreeCheck {
 public:
  enum class Kind { kData, kFreePages };

  LmdbTreeCheck(const PageFile* file, const CommitMeta* meta, Kind kind, PageUse* use)
      : file_(*file),
        meta_(*meta),
        tree_(meta->meta.trees[kind == Kind::kData ? 1 : 0]),
        lists_free_pages_(kind == Kind::kFreePages),
        use_(*use) {}

  // DATA_LOSS naming the page and what is wrong. May be called once. O(pages of the tree).
  absl::Status Run();

  // After Run() on the tree of free pages: the last commit that freed a page; 0 if there is none.
  uint64_t last_freeing() const;

 private:
  // `bound`: the parent's key for this page; no key in the page may be less.
  absl::Status Walk(uint64_t number, size_t depth, const std::optional<std::string>& bound);
  absl::Status CheckLeafNode(const LmdbTreePage::Node& node);
  absl::Status CheckBigValue(uint64_t number, uint64_t bytes);
  // Marks the pages of one list as used.
  absl::Status CheckFreePages(absl::string_view list);
  // Whether a significant key, in a leaf (with a bound) or a branch, is in order.
  bool IsInOrder(absl::string_view key, const std::string* bound) const;
  // Whether a < b as LMDB orders the keys of this tree.
  bool Less(absl::string_view a, absl::string_view b) const;

  const PageFile& file_;
  const CommitMeta& meta_;
  const lmdb_layout::Tree& tree_;
  const bool lists_free_pages_;
  PageUse& use_;

  std::optional<std::string> last_key_;
  lmdb_layout::Tree found_ = {};
};

using lmdb_layout::PageHeader;

uint64_t NumberIn(absl::string_view bytes, size_t i = 0) {
  uint64_t number;
  std::memcpy(&number, bytes.data() + i * sizeof(number), sizeof(number));
  return number;
}

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

// Both trees of a commit; gives the last commit that freed pages which are still free.
absl::StatusOr<uint64_t> CheckCommit(const PageFile& file, const CommitMeta& meta) {
  // Of both trees: a page that is free is not in use.
  PageUse use(meta.meta.last_page);
  PH_RETURN_IF_ERROR(LmdbTreeCheck(&file, &meta, LmdbTreeCheck::Kind::kData, &use).Run());
  LmdbTreeCheck free_pages(&file, &meta, LmdbTreeCheck::Kind::kFreePages, &use);
  PH_RETURN_IF_ERROR(free_pages.Run());
  return free_pages.last_freeing();
}

// The same by a look at the last key alone; nothing if that cannot be found.
std::optional<uint64_t> LastFreeing(const PageFile& file, const CommitMeta& commit) {
  const lmdb_layout::Tree& tree = commit.meta.trees[0];
  if (tree.depth == 0 || tree.depth > lmdb_layout::kMaxDepth) return std::nullopt;
  uint64_t number = tree.root;
  for (size_t depth = 1;; ++depth) {
    const bool is_leaf = depth == tree.depth;
    if (number > commit.meta.last_page) return std::nullopt;
    const auto page = LmdbTreePage::Read(file, number, commit.page_bytes, is_leaf);
    if (!page.ok()) return std::nullopt;
    const auto last = page->NodeAt(page->num_nodes() - 1);
    if (!last.ok()) return std::nullopt;
    if (!is_leaf) {
      number = last->child;
      continue;
    }
    uint64_t commit_number = 0;
    if (last->key.size() != sizeof(commit_number)) return std::nullopt;
    std::memcpy(&commit_number, last->key.data(), sizeof(commit_number));
    return commit_number;
  }
}

// Finds a meta page whose commit number was damaged such that it still fits its neighbour's: LMDB
// would then go back by a commit. A commit lists the pages that it has freed under its own number,
// so this is told by the commit that is said to be older: it has freed pages later. That commit
// must be whole to count: a meta page that was half written at a crash has a new list of free pages
// and an old tree.
absl::Status CheckOrder(const PageFile& file, const MetaPages& pages, uint64_t newest_freeing) {
  if (!CheckMeta(pages.other).ok()) return absl::OkStatus();
  const std::optional<uint64_t> other_freeing = LastFreeing(file, pages.other);
  if (!other_freeing || *other_freeing <= newest_freeing) return absl::OkStatus();
  if (!CheckCommit(file, pages.other).ok()) return absl::OkStatus();
  return DamagedFile("the meta pages are of commits ", pages.newest.meta.transaction, " and ",
                     pages.other.meta.transaction, ", which have freed pages in commits ",
                     newest_freeing, " and ", *other_freeing);
}

}  // namespace

absl::Status CheckLmdbPages(const std::string& path) {
  const PageFile file(path);
  if (!file.is_open() && errno != ENOENT) {
    return DamagedFile("cannot open '", path, "': ", std::strerror(errno));
  }
  if (!file.is_open() || file.size() == 0) {
    return absl::NotFoundError(absl::StrCat("store: there is no '", path, "'"));
  }
  PH_ASSIGN_OR_RETURN(const MetaPages pages, ReadMetaPages(file));
  PH_ASSIGN_OR_RETURN(const uint64_t newest_freeing, CheckCommit(file, pages.newest));
  return CheckOrder(file, pages, newest_freeing);
}

}  // namespace packhouse
