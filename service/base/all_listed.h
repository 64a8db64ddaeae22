// All that a store lists, whatever the number of pages.
#ifndef PACKHOUSE_SERVICE_BASE_ALL_LISTED_H_
#define PACKHOUSE_SERVICE_BASE_ALL_LISTED_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "service/base/status_macros.h"

namespace packhouse {

// Calls `each` with each of a store's things, in the order of the lists; it may delete them.
// `things`: where a page has them, such as &DatasetList::datasets. The store's error.
template <typename Store, typename Page, typename Info, typename Each>
absl::Status ForAllListed(const Store& store, std::vector<Info> Page::*things, Each each) {
  std::string token;
  do {
    PH_ASSIGN_OR_RETURN(const Page page, store.List(Store::kMaxPageSize, token));
    token = page.next_page_token;
    for (const Info& info : page.*things) each(info);
  } while (!token.empty());
  return absl::OkStatus();
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_ALL_LISTED_H_
