// The two pages that LMDB's commits end with: where the trees of a commit begin.
#ifndef PACKHOUSE_SERVICE_DATASETS_LMDB_LMDB_META_PAGES_H_
#define PACKHOUSE_SERVICE_DATASETS_LMDB_LMDB_META_PAGES_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/datasets/lmdb/lmdb_page_layout.h"
#include "service/datasets/lmdb/page_file.h"

namespace packhouse {

// Of one commit.
struct CommitMeta {
  lmdb_layout::Meta meta;
  size_t page_bytes = 0;
  uint64_t file_bytes = 0;
};

struct MetaPages {
  CommitMeta newest;
  // By its number, the commit before.
  CommitMeta other;
};

// DATA_LOSS, naming what is wrong, unless both pages are as LMDB writes them, one after the other;
// FAILED_PRECONDITION for a file of another LMDB version.
absl::StatusOr<MetaPages> ReadMetaPages(const PageFile& file);

// Of one of them, what LMDB takes from it without a look: DATA_LOSS. Of the newest it is right.
absl::Status CheckMeta(const CommitMeta& commit);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DATASETS_LMDB_LMDB_META_PAGES_H_
