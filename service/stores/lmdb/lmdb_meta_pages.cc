#include "service/stores/lmdb/lmdb_meta_pages.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

using lmdb_layout::Meta;
using lmdb_layout::PageHeader;

absl::Status ReadMeta(const PageFile& file, uint64_t offset, uint64_t number, Meta& meta) {
  PageHeader header;
  PH_RETURN_IF_ERROR(file.ReadAs(offset, header));
  PH_RETURN_IF_ERROR(file.ReadAs(offset + sizeof(header), meta));
  if (header.number != number || header.flags != lmdb_layout::kMeta ||
      meta.magic != lmdb_layout::kMagic) {
    return DamagedFile("page ", number, " is not a meta page of LMDB");
  }
  if (meta.version != lmdb_layout::kDataVersion) {
    return absl::FailedPreconditionError(absl::StrCat("store: LMDB data version ", meta.version,
                                                      ", must be ", lmdb_layout::kDataVersion));
  }
  return absl::OkStatus();
}

// Commit N writes meta page N % 2, so their numbers must be consecutive. If the newer number were
// damaged, LMDB would silently go back to the previous commit.
absl::Status CheckNeighbours(uint64_t even, uint64_t odd) {
  const bool is_fresh = even == 0 && odd == 0;
  if (is_fresh || (even % 2 == 0 && odd % 2 == 1 && (even > odd ? even - odd : odd - even) == 1)) {
    return absl::OkStatus();
  }
  return DamagedFile("the meta pages are of commits ", even, " and ", odd);
}

}  // namespace

absl::Status CheckMeta(const CommitMeta& commit) {
  const Meta& meta = commit.meta;
  if (meta.trees[0].pad != commit.page_bytes || meta.trees[0].flags != lmdb_layout::kIntegerKey ||
      meta.trees[1].flags != 0) {
    return DamagedFile("the flags of a meta page");
  }
  // Pages that were never written may be missing at the end, but not many.
  constexpr uint64_t kUnwritten = uint64_t{1} << 30;
  if (meta.last_page < 1 || meta.last_page > (commit.file_bytes + kUnwritten) / commit.page_bytes ||
      meta.last_page >= meta.map_size / commit.page_bytes) {
    return DamagedFile("the last page is said to be ", meta.last_page, " in a file of ",
                       commit.file_bytes, " bytes");
  }
  return absl::OkStatus();
}

absl::StatusOr<MetaPages> ReadMetaPages(const PageFile& file) {
  Meta metas[2];
  PH_RETURN_IF_ERROR(ReadMeta(file, 0, 0, metas[0]));
  const size_t page_bytes = metas[0].trees[0].pad;
  if (page_bytes < 512 || page_bytes > 0x8000 || (page_bytes & (page_bytes - 1)) != 0) {
    return DamagedFile("a page size of ", page_bytes);
  }
  PH_RETURN_IF_ERROR(ReadMeta(file, page_bytes, 1, metas[1]));
  const uint64_t even = metas[0].transaction;
  const uint64_t odd = metas[1].transaction;
  PH_RETURN_IF_ERROR(CheckNeighbours(even, odd));
  const size_t newest = even < odd ? 1 : 0;
  const MetaPages pages = {{metas[newest], page_bytes, file.size()},
                           {metas[1 - newest], page_bytes, file.size()}};
  PH_RETURN_IF_ERROR(CheckMeta(pages.newest));
  return pages;
}

}  // namespace packhouse
