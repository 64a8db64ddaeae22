#include "service/engine/epochs/mixing.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "service/algorithms/planning/limits.h"

namespace packhouse {
namespace {

// With the version of the rules by which items are exchanged. Raise it when the same words would
// give other batches: another release then refuses such an epoch.
constexpr absl::string_view kMixed = "mixed by v1 to ";

// Whether some batch of the shapes might have more bytes.
bool MayExceed(const EpochShapes& shapes, uint64_t max_batch_bytes) {
  for (size_t i = 0; i < shapes.num_rank_groups(); ++i) {
    for (const BatchShape& shape : shapes.rank_group(i)) {
      if (shape.layout.is_fixed()) continue;
      const absl::Span<const uint64_t> most = shape.capacities;
      if (std::find(most.begin(), most.end(), kUnlimited) != most.end()) return true;
      if (BatchBytesOf(shape, most) > max_batch_bytes) return true;
    }
  }
  return false;
}

}  // namespace

std::optional<FreshBatchesOptions> MixingFor(const EpochRequest& request, const EpochShapes& shapes,
                                             uint64_t max_batch_bytes) {
  const std::optional<double> most_company = request.MostCompany();
  if (!most_company) return std::nullopt;
  FreshBatchesOptions options;
  options.most_company = *most_company;
  if (request.whole_graphs && MayExceed(shapes, max_batch_bytes)) {
    options.takes = [&shapes, max_batch_bytes](size_t rank_group, size_t shape,
                                               absl::Span<const uint64_t> packed) {
      const BatchShape& of_shape = shapes.rank_group(rank_group)[shape];
      return of_shape.layout.is_fixed() ||
             BatchBytesOf(of_shape, RealRowsOf(of_shape, packed)) <= max_batch_bytes;
    };
  }
  return options;
}

std::string MixingWords(double most_company) {
  const std::string brief = absl::StrCat(most_company);
  double read = 0;
  // So that other numbers have other words.
  const bool is_exact = absl::SimpleAtod(brief, &read) && read == most_company;
  return absl::StrCat(kMixed, is_exact ? brief : absl::StrFormat("%.17g", most_company),
                      " times a shuffle");
}

bool IsMixed(const EpochIdentity& identity) {
  return absl::StrContains(identity.options, absl::StrCat("; ", kMixed));
}

void KeepMixing(const EpochIdentity& begun, EpochRequest& request) {
  if (!request.mixing.most_company && !IsMixed(begun)) request.mixing.is_off = true;
}

}  // namespace packhouse
