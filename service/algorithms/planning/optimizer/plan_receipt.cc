#include "service/algorithms/planning/optimizer/plan_receipt.h"

#include <cstddef>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/base/digest.h"
#include "service/base/quoted.h"

namespace packhouse {
namespace {

constexpr size_t kHashBytes = 16;
constexpr size_t kSizesBytes = 8;
// No histogram has more components.
constexpr uint64_t kMostCapacities = uint64_t{1} << 16;

std::string HashOfSizes(const SizeHistogram& histogram) {
  Digest digest;
  digest.Add(histogram.num_components());
  digest.Add(histogram.num_distinct());
  for (const uint32_t row : histogram.SortedRows()) {
    for (const uint32_t rows : histogram.tuple(row)) digest.Add(rows);
    digest.Add(histogram.count(row));
  }
  return digest.Hex(kHashBytes);
}

void AppendNumber(uint64_t number, std::string& bytes) {
  for (; number >= 0x80; number >>= 7) bytes.push_back(static_cast<char>(number | 0x80));
  bytes.push_back(static_cast<char>(number));
}

// Takes a number from the front; nullopt if there is none.
std::optional<uint64_t> TakeNumber(absl::string_view& bytes) {
  uint64_t number = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    if (shift == 63 && byte > 1) return std::nullopt;
    number |= uint64_t{byte & 0x7Fu} << shift;
    if ((byte & 0x80) == 0) return number;
  }
  return std::nullopt;
}

std::optional<ReceiptTerms> ReadTerms(absl::string_view text) {
  std::string bytes;
  if (!absl::WebSafeBase64Unescape(text, &bytes) || absl::WebSafeBase64Escape(bytes) != text ||
      bytes.size() < kSizesBytes) {
    return std::nullopt;
  }
  ReceiptTerms terms;
  absl::string_view left = bytes;
  terms.sizes = absl::BytesToHexString(left.substr(0, kSizesBytes));
  left.remove_prefix(kSizesBytes);
  const auto steps = TakeNumber(left);
  const auto seed = TakeNumber(left);
  const auto warm = TakeNumber(left);
  if (!steps || !seed || !warm || *warm > 1) return std::nullopt;
  terms.steps = *steps;
  terms.seed = *seed;
  terms.has_warm_start = *warm == 1;
  while (!left.empty()) {
    const auto capacity = TakeNumber(left);
    if (!capacity || terms.capacities.size() == kMostCapacities) return std::nullopt;
    // Each is written plus 1; 0 is no limit.
    terms.capacities.push_back(*capacity == 0 ? kUnlimited : *capacity - 1);
  }
  if (terms.capacities.empty()) return std::nullopt;
  return terms;
}

}  // namespace

std::string PlanReceipt(const SizeHistogram& histogram, const Limits& limits,
                        const OptimizerOptions& options) {
  // The digest is of all that the plan depends on; the terms are what it can be made from again,
  // with the sizes.
  const std::string sizes = HashOfSizes(histogram);
  std::string terms = absl::HexStringToBytes(absl::string_view(sizes).substr(0, 2 * kSizesBytes));
  Digest digest;
  digest.Add(kPlannerVersion);
  digest.Add(sizes);
  for (const uint64_t number :
       {options.steps, options.seed, uint64_t{options.warm_start != nullptr}}) {
    digest.Add(number);
    AppendNumber(number, terms);
  }
  for (const uint64_t capacity : limits.capacities()) {
    digest.Add(capacity);
    AppendNumber(capacity == kUnlimited ? 0 : capacity + 1, terms);
  }
  if (const PackingPlan* const warm = options.warm_start; warm != nullptr) {
    digest.Add(warm->num_components);
    digest.Add(warm->tuples.size());
    for (const uint32_t rows : warm->tuples) digest.Add(rows);
    for (const Pattern& pattern : warm->patterns) {
      digest.Add(pattern.repeats);
      digest.Add(pattern.entries.size());
      for (const auto& [tuple, copies] : pattern.entries) {
        digest.Add(tuple);
        digest.Add(copies);
      }
    }
  }
  return absl::StrCat("v", kPlannerVersion, "-", digest.Hex(kHashBytes), "-",
                      absl::WebSafeBase64Escape(terms));
}

absl::StatusOr<ReceiptTerms> ReadReceipt(absl::string_view receipt) {
  const std::vector<absl::string_view> parts = absl::StrSplit(receipt, absl::MaxSplits('-', 2));
  uint64_t version = 0;
  if (parts.size() < 2 || parts[0].empty() || parts[0][0] != 'v' ||
      !absl::SimpleAtoi(parts[0].substr(1), &version) || parts[1].size() != 2 * kHashBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("receipt ", Quoted(receipt), ": is not that of one plan"));
  }
  if (version != kPlannerVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("receipt ", Quoted(receipt), ": is of version ", version,
                     " of the planner, which is now of version ", kPlannerVersion,
                     "; only the plans of remembered epochs outlive it"));
  }
  std::optional<ReceiptTerms> terms = parts.size() == 3 ? ReadTerms(parts[2]) : std::nullopt;
  if (!terms) {
    return absl::InvalidArgumentError(
        absl::StrCat("receipt ", Quoted(receipt), ": is not that of one plan, or not all of it"));
  }
  terms->version = version;
  return *std::move(terms);
}

absl::Status CheckReceipt(absl::string_view receipt, const ReceiptTerms& terms,
                          const SizeHistogram& histogram, const Limits& limits,
                          const OptimizerOptions& options) {
  if (terms.has_warm_start != (options.warm_start != nullptr)) {
    return absl::FailedPreconditionError(
        absl::StrCat("receipt ", Quoted(receipt),
                     terms.has_warm_start ? ": its plan started from another one, which is needed"
                                          : ": its plan did not start from another one"));
  }
  const std::string sizes = HashOfSizes(histogram).substr(0, 2 * kSizesBytes);
  if (sizes != terms.sizes) {
    return absl::FailedPreconditionError(absl::StrCat(
        "receipt ", Quoted(receipt), ": is for other sizes (", terms.sizes, ") than these (", sizes,
        "): ", histogram.num_graphs(), " graphs of ", histogram.num_distinct(), " sizes"));
  }
  if (PlanReceipt(histogram, limits, options) == receipt) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "receipt ", Quoted(receipt),
      terms.has_warm_start ? ": its plan started from another one than this" : ": is damaged"));
}

}  // namespace packhouse
