// The two pages with which LMDB's commits end; they say where the trees of a commit begin.
#ifndef PACKHOUSE_SERVICE_STORES_LMDB_LMDB_META_PAGES_H_
#define PACKHOUSE_SERVICE_STORES_LMDB_LMDB_META_PAGES_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/stores/lmdb/lmdb_page_layout.h"
#include "service/stores/lmdb/page_file.h"

namespace packhouse {

// The meta page of one commit.
struct CommitMeta {
  lmdb_layout::Meta meta;
  size_t page_bytes = 0;
  uint64_t file_bytes = 0;
};

struct MetaPages {
  CommitMeta newest;
  // The previous commit, by its number.
  CommitMeta other;
};

// DATA_LOSS, naming what is wrong, unless both pages are as LMDB writes them, and consecutive;
// FAILED_PRECONDITION for a file of another LMDB version.
absl::StatusOr<MetaPages> ReadMetaPages(const PageFile& file);

// Checks the values of one meta page that LMDB uses unchecked: DATA_LOSS if they are wrong. For the
// newest page, ReadMetaPages() has already done this.
absl::Status CheckMeta(const CommitMeta& commit);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LMDB_LMDB_META_PAGES_H_
