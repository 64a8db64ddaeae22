// The texts of S3's protocol: what a listing and an error say, and how a query is written.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_S3_S3_LISTING_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_S3_S3_LISTING_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/stores/objects/object_store.h"

namespace packhouse {

// Percent-encodes all but [A-Za-z0-9_.~-], as signatures have it; '/' too unless `keeps_slashes`.
std::string UriEncoded(absl::string_view text, bool keeps_slashes);

// "a=1&b=2", sorted by name: libcurl 7.88 signs a query as it is written, and the store sorts.
std::string SortedQuery(std::vector<std::pair<std::string, std::string>> parameters);

// The answer to ListObjectsV2. Any text may be read; what is not understood is left out. INTERNAL
// if it is no such answer, an object of it has no key, size or time, or it goes on without any
// object.
absl::StatusOr<ObjectList> ParseListing(absl::string_view xml);

// "CODE: message" of an error's document, and the endpoint and the region that it names, by the
// flags that take them; empty if it has neither code nor message. At most 600 characters.
std::string ParseS3Error(absl::string_view xml);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_S3_S3_LISTING_H_
