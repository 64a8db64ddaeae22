// What comes after the question mark of an address.
#ifndef PACKHOUSE_SERVICE_WINGS_PAGE_PAGE_QUERY_H_
#define PACKHOUSE_SERVICE_WINGS_PAGE_PAGE_QUERY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse::page {

// "a=1&b=x%20y", decoded. Values come from strangers.
class PageQuery {
 public:
  static constexpr size_t kMostBytes = 4096;

  // INVALID_ARGUMENT for one that is too long, or has a '%' without two hexadecimal digits.
  static absl::StatusOr<PageQuery> Parse(absl::string_view text);

  // The first value of a key; empty if there is none.
  const std::string& Text(absl::string_view key) const;
  bool Has(absl::string_view key) const { return !Text(key).empty(); }
  // All values of a key, in their order.
  std::vector<std::string> Texts(absl::string_view key) const;
  // `otherwise` if the key is missing; INVALID_ARGUMENT, naming key, value and bounds, for what is
  // no number from `least` to `most`.
  absl::StatusOr<uint64_t> Number(absl::string_view key, uint64_t otherwise, uint64_t least,
                                  uint64_t most) const;
  // Every value of the key is NAME:NUMBER. INVALID_ARGUMENT naming the key and the value.
  absl::StatusOr<std::vector<std::pair<std::string, uint64_t>>> Named(absl::string_view key) const;

 private:
  std::vector<std::pair<std::string, std::string>> values_;
};

}  // namespace packhouse::page

#endif  // PACKHOUSE_SERVICE_WINGS_PAGE_PAGE_QUERY_H_
