#include "service/program/byte_flag.h"

#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace packhouse {
namespace {

constexpr absl::string_view kLetters = "KMGT";

// Nothing, or 0 for no unit.
uint64_t BytesOfUnit(absl::string_view unit) {
  if (unit.empty() || absl::EqualsIgnoreCase(unit, "B")) return 1;
  const size_t power = kLetters.find(absl::ascii_toupper(static_cast<unsigned char>(unit[0])));
  if (power == absl::string_view::npos) return 0;
  const absl::string_view rest = unit.substr(1);
  uint64_t base = 0;
  if (absl::EqualsIgnoreCase(rest, "iB") || absl::EqualsIgnoreCase(rest, "i")) base = 1024;
  if (absl::EqualsIgnoreCase(rest, "B")) base = 1000;
  uint64_t bytes = base == 0 ? 0 : 1;
  for (size_t i = 0; i <= power; ++i) bytes *= base;
  return bytes;
}

}  // namespace

absl::StatusOr<uint64_t> ParseBytes(absl::string_view text) {
  const auto wrong = [text] {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not a number of bytes, such as 4GiB or 4294967296"));
  };
  const size_t end = text.find_first_not_of("0123456789.");
  const absl::string_view number = text.substr(0, end);
  const uint64_t unit = end == absl::string_view::npos
                            ? 1
                            : BytesOfUnit(absl::StripAsciiWhitespace(text.substr(end)));
  uint64_t whole = 0;
  if (unit != 0 && absl::SimpleAtoi(number, &whole)) {
    if (whole >= (uint64_t{1} << 63) / unit) return wrong();
    return whole * unit;
  }
  double parsed = 0;
  if (unit == 0 || number.empty() || !absl::SimpleAtod(number, &parsed)) return wrong();
  const double bytes = parsed * static_cast<double>(unit);
  if (bytes != std::floor(bytes) || bytes >= 0x1p53) return wrong();
  return static_cast<uint64_t>(bytes);
}

std::string BytesText(uint64_t bytes) {
  for (size_t power = kLetters.size(); power > 0; --power) {
    const uint64_t unit = uint64_t{1} << (10 * power);
    if (bytes != 0 && bytes % unit == 0) {
      return absl::StrCat(bytes / unit, kLetters.substr(power - 1, 1), "iB");
    }
  }
  return absl::StrCat(bytes);
}

CLI::Validator BytesFrom(uint64_t least, uint64_t most) {
  return {[least, most](std::string& text) -> std::string {
            const auto bytes = ParseBytes(text);
            if (!bytes.ok()) return std::string(bytes.status().message());
            if (*bytes < least || *bytes > most) {
              return absl::StrCat("'", text, "' is not from ", BytesText(least), " to ",
                                  BytesText(most));
            }
            text = absl::StrCat(*bytes);
            return "";
          },
          absl::StrCat("BYTES from ", BytesText(least), " to ", BytesText(most))};
}

}  // namespace packhouse
