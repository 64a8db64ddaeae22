// Walks a tree of an LMDB file and compares it with its meta page.
#ifndef PACKHOUSE_SERVICE_STORES_LMDB_LMDB_TREE_CHECK_H_
#define PACKHOUSE_SERVICE_STORES_LMDB_LMDB_TREE_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "service/stores/lmdb/lmdb_meta_pages.h"
#include "service/stores/lmdb/lmdb_page_layout.h"
#include "service/stores/lmdb/lmdb_tree_page.h"
#include "service/stores/lmdb/page_file.h"

namespace packhouse {

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

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LMDB_LMDB_TREE_CHECK_H_
