#include "service/stores/lmdb/lmdb_page_check.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/stores/lmdb/lmdb_meta_pages.h"
#include "service/stores/lmdb/lmdb_tree_check.h"
#include "service/stores/lmdb/lmdb_tree_page.h"
#include "service/stores/lmdb/page_file.h"

namespace packhouse {
namespace {

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
