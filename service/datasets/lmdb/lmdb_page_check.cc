#include "service/datasets/lmdb/lmdb_page_check.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// LMDB 0.9's data version 1, as it is on a 64-bit little-endian machine.
constexpr uint32_t kMagic = 0xBEEFC0DE;
constexpr uint32_t kDataVersion = 1;
constexpr uint64_t kNoPage = ~uint64_t{0};
constexpr uint16_t kIntegerKey = 0x08;
constexpr uint64_t kFirstDataPage = 2;
constexpr size_t kMaxDepth = 32;
constexpr size_t kMaxKeyBytes = 511;

struct PageHeader {
  uint64_t number;
  uint16_t pad;
  uint16_t flags;
  uint16_t lower;  // In an overflow page, lower and upper are its number of pages.
  uint16_t upper;
};
static_assert(sizeof(PageHeader) == 16);
// All flags of a page that is stored. Others are of duplicate keys, which we do not have, or of
// pages in memory: a page with such a one LMDB would write to where it is mapped.
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
constexpr uint16_t kBigData = 0x01;

template <typename... Parts>
absl::Status Damaged(const Parts&... parts) {
  return absl::DataLossError(absl::StrCat("store: ", parts...));
}

class File {
 public:
  explicit File(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool is_open() const { return fd_ >= 0; }
  uint64_t size() const {
    struct stat stat = {};
    return ::fstat(fd_, &stat) == 0 ? stat.st_size : 0;
  }
  absl::Status Read(uint64_t offset, size_t bytes, char* out) const {
    while (bytes != 0) {
      const ssize_t got = ::pread(fd_, out, bytes, offset);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return Damaged("cannot read at ", offset, ": ", std::strerror(errno));
      if (got == 0) return Damaged("the file ends at ", offset, ", where more was written");
      offset += got;
      out += got;
      bytes -= got;
    }
    return absl::OkStatus();
  }

 private:
  int fd_;
};

class PageCheck {
 public:
  explicit PageCheck(const File& file) : file_(file) {}

  absl::Status Run() {
    PH_RETURN_IF_ERROR(ReadMetas());
    PH_RETURN_IF_ERROR(CheckTree(meta_.trees[1], /*is_free_list=*/false));
    return CheckTree(meta_.trees[0], /*is_free_list=*/true);
  }

 private:
  absl::Status ReadMeta(uint64_t offset, uint64_t number, Meta& meta) const {
    char bytes[sizeof(PageHeader) + sizeof(Meta)];
    PH_RETURN_IF_ERROR(file_.Read(offset, sizeof(bytes), bytes));
    PageHeader header;
    std::memcpy(&header, bytes, sizeof(header));
    std::memcpy(&meta, bytes + sizeof(header), sizeof(meta));
    if (header.number != number || header.flags != kMeta || meta.magic != kMagic) {
      return Damaged("page ", number, " is not a meta page of LMDB");
    }
    if (meta.version != kDataVersion) {
      return absl::FailedPreconditionError(
          absl::StrCat("store: LMDB data version ", meta.version, ", must be ", kDataVersion));
    }
    return absl::OkStatus();
  }

  absl::Status ReadMetas() {
    Meta metas[2];
    PH_RETURN_IF_ERROR(ReadMeta(0, 0, metas[0]));
    page_bytes_ = metas[0].trees[0].pad;
    if (page_bytes_ < 512 || page_bytes_ > 0x8000 || (page_bytes_ & (page_bytes_ - 1)) != 0) {
      return Damaged("a page size of ", page_bytes_);
    }
    PH_RETURN_IF_ERROR(ReadMeta(page_bytes_, 1, metas[1]));
    // Commit N writes meta page N % 2, so the two are neighbours. Were the newer one's number
    // damaged, LMDB would go back to the commit before without a word.
    const uint64_t even = metas[0].transaction;
    const uint64_t odd = metas[1].transaction;
    const bool fresh = even == 0 && odd == 0;
    if (!fresh && (even % 2 != 0 || odd % 2 != 1 || (even > odd ? even - odd : odd - even) != 1)) {
      return Damaged("the meta pages are of commits ", even, " and ", odd);
    }
    meta_ = metas[even < odd ? 1 : 0];
    if (meta_.trees[0].pad != page_bytes_ || meta_.trees[0].flags != kIntegerKey ||
        meta_.trees[1].flags != 0) {
      return Damaged("the flags of the newest meta page");
    }
    // Pages that were never written may be missing at the end, but not many.
    constexpr uint64_t kUnwritten = uint64_t{1} << 30;
    file_bytes_ = file_.size();
    if (meta_.last_page < 1 || meta_.last_page > (file_bytes_ + kUnwritten) / page_bytes_ ||
        meta_.last_page >= meta_.map_size / page_bytes_) {
      return Damaged("the last page is said to be ", meta_.last_page, " in a file of ", file_bytes_,
                     " bytes");
    }
    is_seen_.assign(meta_.last_page + 1, false);
    return absl::OkStatus();
  }

  absl::Status See(uint64_t number, uint64_t pages, absl::string_view as) {
    if (number < kFirstDataPage || number > meta_.last_page ||
        pages > meta_.last_page - number + 1) {
      return Damaged("page ", number, " of ", pages, " (", as, ") is not in [2, ", meta_.last_page,
                     "]");
    }
    for (uint64_t i = number; i < number + pages; ++i) {
      if (is_seen_[i]) return Damaged("page ", i, " (", as, ") is used twice");
      is_seen_[i] = true;
    }
    return absl::OkStatus();
  }

  absl::Status CheckTree(const Tree& tree, bool is_free_list) {
    found_ = {};
    last_key_.reset();
    is_free_list_ = is_free_list;
    depth_ = tree.depth;
    if (tree.root == kNoPage) {
      if (tree.depth != 0 || tree.entries != 0) return Damaged("a tree without root has entries");
    } else {
      if (tree.depth == 0 || tree.depth > kMaxDepth) return Damaged("a tree of depth ", tree.depth);
      PH_RETURN_IF_ERROR(Walk(tree.root, 1, std::nullopt));
    }
    if (found_.branch_pages != tree.branch_pages || found_.leaf_pages != tree.leaf_pages ||
        found_.overflow_pages != tree.overflow_pages || found_.entries != tree.entries) {
      return Damaged("there are ", found_.entries, " entries in ", found_.leaf_pages, " + ",
                     found_.branch_pages, " + ", found_.overflow_pages, " pages, should be ",
                     tree.entries, " in ", tree.leaf_pages, " + ", tree.branch_pages, " + ",
                     tree.overflow_pages);
    }
    return absl::OkStatus();
  }

  // Whether a < b as LMDB orders the keys of this tree.
  bool Less(absl::string_view a, absl::string_view b) const {
    if (!is_free_list_) return a < b;
    uint64_t x;
    uint64_t y;
    std::memcpy(&x, a.data(), sizeof(x));
    std::memcpy(&y, b.data(), sizeof(y));
    return x < y;
  }

  // `bound`: the key that the parent has for this page; no key in it may be less.
  absl::Status Walk(uint64_t number, size_t depth, const std::optional<std::string>& bound) {
    PH_RETURN_IF_ERROR(See(number, 1, "tree"));
    std::vector<char> page(page_bytes_);
    PH_RETURN_IF_ERROR(file_.Read(number * page_bytes_, page_bytes_, page.data()));
    PageHeader header;
    std::memcpy(&header, page.data(), sizeof(header));
    const bool is_leaf = depth == depth_;
    if (header.number != number || header.flags != (is_leaf ? kLeaf : kBranch) ||
        header.lower < sizeof(header) || header.lower % 2 != 0 || header.lower > header.upper ||
        header.upper > page_bytes_) {
      return Damaged("page ", number, " has a bad header");
    }
    const size_t num_nodes = (header.lower - sizeof(header)) / sizeof(uint16_t);
    if (num_nodes < (is_leaf ? 1 : 2))
      return Damaged("page ", number, " has ", num_nodes, " nodes");
    ++(is_leaf ? found_.leaf_pages : found_.branch_pages);
    size_t filled = 0;
    for (size_t i = 0; i < num_nodes; ++i) {
      uint16_t offset;
      std::memcpy(&offset, page.data() + sizeof(header) + i * sizeof(offset), sizeof(offset));
      const bool has_header =
          offset >= header.upper && offset % 2 == 0 && offset + sizeof(NodeHeader) <= page_bytes_;
      if (!has_header) return Damaged("page ", number, ", node ", i, ": at ", offset);
      NodeHeader node;
      std::memcpy(&node, page.data() + offset, sizeof(node));
      const uint64_t data_bytes = node.low | static_cast<uint64_t>(node.high) << 16;
      const bool is_big = is_leaf && node.flags == kBigData;
      if (is_leaf && node.flags != 0 && !is_big) {
        return Damaged("page ", number, ", node ", i, ": flags ", node.flags);
      }
      const uint64_t stored_bytes = !is_leaf ? 0 : is_big ? sizeof(uint64_t) : data_bytes;
      const uint64_t node_bytes = sizeof(node) + node.key_bytes + stored_bytes;
      if (node_bytes > page_bytes_ - offset) {
        return Damaged("page ", number, ", node ", i, ": ", node_bytes, " bytes at ", offset);
      }
      filled += (node_bytes + 1) / 2 * 2;
      const char* const key_begin = page.data() + offset + sizeof(node);
      const absl::string_view key(key_begin, node.key_bytes);
      // The first key of a branch page stands for "everything before the second", whatever it is.
      const bool has_key = is_leaf || i != 0;
      if (has_key) {
        if (key.empty() || key.size() > kMaxKeyBytes ||
            (is_free_list_ && key.size() != sizeof(uint64_t)) ||
            (last_key_ && !Less(*last_key_, key)) || (is_leaf && bound && Less(key, *bound))) {
          return Damaged("page ", number, ", node ", i, ": its key is out of order");
        }
      }
      if (!is_leaf) {
        const uint64_t child = data_bytes | static_cast<uint64_t>(node.flags) << 32;
        PH_RETURN_IF_ERROR(
            Walk(child, depth + 1, has_key ? std::optional(std::string(key)) : bound));
        continue;
      }
      last_key_ = std::string(key);
      ++found_.entries;
      const char* const data = key_begin + node.key_bytes;
      if (is_big) {
        uint64_t first;
        std::memcpy(&first, data, sizeof(first));
        PH_RETURN_IF_ERROR(CheckBigValue(first, data_bytes));
      } else if (is_free_list_) {
        PH_RETURN_IF_ERROR(CheckFreePages(absl::string_view(data, data_bytes)));
      }
    }
    if (filled != page_bytes_ - header.upper) {
      return Damaged("page ", number, ": ", filled, " bytes of nodes in ",
                     page_bytes_ - header.upper);
    }
    return absl::OkStatus();
  }

  absl::Status CheckBigValue(uint64_t number, uint64_t bytes) {
    const uint64_t pages = (sizeof(PageHeader) + bytes + page_bytes_ - 1) / page_bytes_;
    PH_RETURN_IF_ERROR(See(number, pages, "value"));
    found_.overflow_pages += pages;
    char header_bytes[sizeof(PageHeader)];
    PH_RETURN_IF_ERROR(file_.Read(number * page_bytes_, sizeof(header_bytes), header_bytes));
    PageHeader header;
    std::memcpy(&header, header_bytes, sizeof(header));
    const uint64_t said = header.lower | static_cast<uint64_t>(header.upper) << 16;
    if (header.number != number || header.flags != kOverflow || said != pages) {
      return Damaged("page ", number, " has a bad header");
    }
    if (number * page_bytes_ + sizeof(PageHeader) + bytes > file_bytes_) {
      return Damaged("the file ends at ", file_bytes_, ", before page ", number, " of ", pages);
    }
    if (!is_free_list_) return absl::OkStatus();
    std::string list(bytes, '\0');
    PH_RETURN_IF_ERROR(file_.Read(number * page_bytes_ + sizeof(header), bytes, list.data()));
    return CheckFreePages(list);
  }

  // A count, and so many page numbers in descending order; there may be room left behind.
  absl::Status CheckFreePages(absl::string_view list) {
    const size_t capacity = list.size() / sizeof(uint64_t);
    const auto number = [&](size_t i) {
      uint64_t value;
      std::memcpy(&value, list.data() + i * sizeof(value), sizeof(value));
      return value;
    };
    if (capacity == 0 || list.size() % sizeof(uint64_t) != 0 || number(0) >= capacity) {
      return Damaged("a list of free pages of ", list.size(), " bytes");
    }
    for (size_t i = 1; i <= number(0); ++i) {
      if (i > 1 && number(i) >= number(i - 1)) return Damaged("a list of free pages out of order");
      PH_RETURN_IF_ERROR(See(number(i), 1, "free"));
    }
    return absl::OkStatus();
  }

  const File& file_;
  uint64_t file_bytes_ = 0;
  size_t page_bytes_ = 0;
  Meta meta_ = {};
  std::vector<bool> is_seen_;

  // Of the tree that is walked.
  bool is_free_list_ = false;
  size_t depth_ = 0;
  std::optional<std::string> last_key_;
  Tree found_ = {};
};

}  // namespace

absl::Status CheckLmdbPages(const std::string& path) {
  const File file(path);
  if (!file.is_open() && errno != ENOENT) {
    return Damaged("cannot open '", path, "': ", std::strerror(errno));
  }
  if (!file.is_open() || file.size() == 0) {
    return absl::NotFoundError(absl::StrCat("store: there is no '", path, "'"));
  }
  return PageCheck(file).Run();
}

}  // namespace packhouse
