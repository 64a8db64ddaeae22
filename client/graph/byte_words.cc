#include "client/graph/byte_words.h"

#include <charconv>
#include <cstddef>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace packhouse::client {

bool ParseBytes(absl::string_view text, uint64_t& bytes) {
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc()) return false;
  const absl::string_view unit(stop, static_cast<std::size_t>(end - stop));
  constexpr std::pair<absl::string_view, uint64_t> kUnits[] = {
      {"", 1},
      {"B", 1},
      {"KiB", uint64_t{1} << 10},
      {"MiB", uint64_t{1} << 20},
      {"GiB", uint64_t{1} << 30},
      {"TiB", uint64_t{1} << 40},
      {"kB", 1'000},
      {"MB", 1'000'000},
      {"GB", 1'000'000'000},
      {"TB", 1'000'000'000'000},
  };
  for (const auto& [name, factor] : kUnits) {
    if (unit != name) continue;
    if (number > std::numeric_limits<uint64_t>::max() / factor) return false;
    bytes = number * factor;
    return true;
  }
  return false;
}

std::string BytesText(uint64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes) / 1024;
  for (const char* const unit : {"KiB", "MiB", "GiB", "TiB", "PiB"}) {
    if (value < 1024) return absl::StrFormat("%.1f %s", value, unit);
    value /= 1024;
  }
  return absl::StrFormat("%.1f EiB", value);
}

std::string RateText(double bytes_per_second) {
  return absl::StrFormat("%.1f MB/s", bytes_per_second / 1e6);
}

}  // namespace packhouse::client
