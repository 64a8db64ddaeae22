#include "service/wings/cluster/histograms/shared_histogram_format.h"

#include <bit>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "service/base/quoted.h"

namespace packhouse::shared_histogram {
namespace {

uint64_t BytesOfNumber(uint64_t number) {
  return 1 + (static_cast<uint64_t>(std::bit_width(number)) + 6) / 7;
}

}  // namespace

bool IsName(absl::string_view name) {
  return IsValidName(name, HistogramStore::kMaxNameLength, "_./-");
}

std::string FromKey(absl::string_view key) { return absl::StrReplaceAll(key, {{"%2F", "/"}}); }

SharedLog LogOf(KeyStore* keys, absl::string_view name) {
  const std::string in_key = absl::StrReplaceAll(name, {{"/", "%2F"}});
  return SharedLog(keys,
                   {.name = absl::StrCat("histogram '", name, "' in etcd"),
                    .keys = {absl::StrCat(kHeads, in_key), absl::StrCat(kEntries, in_key, "/")},
                    // Of a run, with its producers; the head is in the same transaction.
                    .max_entry_bytes = Transaction::kMaxBytes - (size_t{64} << 10)});
}

absl::Status NoHistogram(absl::string_view name) {
  return absl::NotFoundError(absl::StrCat("histogram: there is none named ", Quoted(name)));
}
absl::Status Damaged(absl::string_view name, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("histogram '", name, "' in etcd: ", what));
}

uint64_t RunBytes(const SizeHistogram& sizes) {
  uint64_t bytes_of_row = BytesOfNumber(sizes.num_graphs());
  for (size_t k = 0; k < sizes.num_components(); ++k) {
    bytes_of_row += BytesOfNumber(sizes.maximum(k));
  }
  return 4096 + sizes.num_distinct() * bytes_of_row;
}

void DescribeTo(const HistogramKey& key, internal::SharedHistogramHead& head) {
  for (const std::string& component : key.schema.components()) head.add_components(component);
  const absl::Duration half_life = key.half_life.value_or(absl::InfiniteDuration());
  if (half_life == absl::InfiniteDuration()) return;
  absl::Duration rest;
  head.set_half_life_seconds(absl::IDivDuration(half_life, absl::Seconds(1), &rest));
  head.set_half_life_nanos(static_cast<uint32_t>(absl::ToInt64Nanoseconds(rest)));
}

absl::StatusOr<HistogramKey> KeyOf(absl::string_view name,
                                   const internal::SharedHistogramHead& head) {
  auto schema = SizeSchema::Create({head.components().begin(), head.components().end()});
  if (!schema.ok()) return Damaged(name, schema.status().message());
  absl::Duration half_life =
      absl::Seconds(head.half_life_seconds()) + absl::Nanoseconds(head.half_life_nanos());
  if (half_life == absl::ZeroDuration()) half_life = absl::InfiniteDuration();
  return HistogramKey{std::string(name), *std::move(schema), half_life};
}

}  // namespace packhouse::shared_histogram
