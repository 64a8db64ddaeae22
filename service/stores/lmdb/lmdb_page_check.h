// Checks the page structure of an LMDB file before LMDB uses it.
#ifndef PACKHOUSE_SERVICE_STORES_LMDB_LMDB_PAGE_CHECK_H_
#define PACKHOUSE_SERVICE_STORES_LMDB_LMDB_PAGE_CHECK_H_

#include <string>

#include "absl/status/status.h"

namespace packhouse {

// LMDB has no checksums and follows what its pages say: a flipped bit in one may send it out of its
// map, or let it write new data over old. This walks what the newest meta page reaches and accepts
// only what LMDB itself would have written: every page says which one it is, is reached once from
// the trees or is free, lies in the file; nodes fill their page exactly; keys ascend; counts of
// pages and entries are right; the other meta page is of the commit before, and has freed nothing
// later. Contents of values are not looked at: they have checksums.
//
// DATA_LOSS naming the page and what is wrong; FAILED_PRECONDITION for a file of another LMDB
// version; NOT_FOUND if there is no file or it is empty. Only for a file that nobody writes to.
// Reads tree pages and the first bytes of large values: O(records). Memory: a bit for each page.
absl::Status CheckLmdbPages(const std::string& file);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LMDB_LMDB_PAGE_CHECK_H_
