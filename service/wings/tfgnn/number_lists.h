// Numbers of tf.Examples to elements of tensors and back. The hot loops of the formats.
#ifndef PACKHOUSE_SERVICE_WINGS_TFGNN_NUMBER_LISTS_H_
#define PACKHOUSE_SERVICE_WINGS_TFGNN_NUMBER_LISTS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "absl/strings/string_view.h"

namespace packhouse::tfgnn {

// How many varints a packed list has: bytes below 128. O(bytes).
inline size_t CountVarints(absl::string_view packed) {
  size_t count = 0;
  for (const char c : packed) count += static_cast<signed char>(c) >= 0;
  return count;
}

// Calls take(value) with each varint of a packed list whose last one is whole. False if one is
// longer than ten bytes. `take` is called with every value, whatever came before.
template <typename Take>
bool ForEachVarint(absl::string_view packed, Take take) {
  constexpr uint64_t kHighBits = 0x8080808080808080;
  const char* at = packed.data();
  const char* const end = at + packed.size();
  while (end - at >= static_cast<std::ptrdiff_t>(sizeof(uint64_t))) {
    uint64_t word;
    std::memcpy(&word, at, sizeof(word));
    const uint64_t stops = ~word & kHighBits;
    if (stops == kHighBits) {
      for (int i = 0; i < 8; ++i) take(word >> (8 * i) & 0x7f);
      at += 8;
      continue;
    }
    if (stops == 0) {
      // Nine or ten bytes: negative numbers, and those of 2^56 or more.
      uint64_t value = 0;
      int shift = 0;
      for (;; shift += 7) {
        if (shift == 70 || at == end) return false;
        const uint8_t byte = static_cast<uint8_t>(*at++);
        value |= static_cast<uint64_t>(byte & 0x7f) << shift;
        if (byte < 0x80) break;
      }
      take(value);
      continue;
    }
    // The first varint ends at the lowest of `stops`. Its bits are joined without a branch, so that
    // lengths that vary cost nothing.
    word &= stops ^ (stops - 1);
    word &= 0x7f7f7f7f7f7f7f7f;
    word = (word & 0x007f007f007f007f) | (word & 0x7f007f007f007f00) >> 1;
    word = (word & 0x00003fff00003fff) | (word & 0x3fff00003fff0000) >> 2;
    word = (word & 0x000000000fffffff) | (word & 0x0fffffff00000000) >> 4;
    take(word);
    at += __builtin_ctzll(stops) / 8 + 1;
  }
  while (at != end) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      if (shift == 70 || at == end) return false;
      const uint8_t byte = static_cast<uint8_t>(*at++);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    take(value);
  }
  return true;
}

// Whether an int64, as its bits, is a value of T. Every uint64 is one: it keeps its bits.
template <typename T>
constexpr bool IsValueOf(uint64_t bits) {
  if constexpr (sizeof(T) == sizeof(uint64_t)) {
    return true;
  } else {
    const auto value = static_cast<int64_t>(bits);
    return value >= static_cast<int64_t>(std::numeric_limits<T>::min()) &&
           value <= static_cast<int64_t>(std::numeric_limits<T>::max());
  }
}

// To the nearest, ties to even; too large becomes infinity, NaN stays NaN.
inline uint16_t Float16Of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const uint32_t sign = bits >> 16 & 0x8000;
  bits &= 0x7fffffff;
  if (bits > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00 | (bits >> 13 & 0x1ff));
  if (bits >= 0x47800000) return static_cast<uint16_t>(sign | 0x7c00);
  if (bits < 0x38800000) {
    // Subnormal there, or 0. The sum's last bit has the weight of float16's last one, and the
    // addition rounds.
    float magnitude;
    std::memcpy(&magnitude, &bits, sizeof(bits));
    magnitude += 0.5F;
    std::memcpy(&bits, &magnitude, sizeof(bits));
    return static_cast<uint16_t>(sign | (bits - 0x3f000000));
  }
  const uint32_t odd = bits >> 13 & 1;
  bits += 0xc8000fff + odd;
  return static_cast<uint16_t>(sign | (bits >> 13));
}

inline float FloatOfFloat16(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t magnitude = half & 0x7fff;
  float value;
  if (magnitude < 0x0400) {
    value = static_cast<float>(magnitude) * 0x1p-24F;
  } else {
    const uint32_t bits =
        magnitude >= 0x7c00 ? 0x7f800000 | magnitude << 13 : (magnitude << 13) + 0x38000000;
    std::memcpy(&value, &bits, sizeof(value));
  }
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  bits |= sign;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline uint16_t Bfloat16Of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float FloatOfBfloat16(uint16_t value) {
  const uint32_t bits = static_cast<uint32_t>(value) << 16;
  float wide;
  std::memcpy(&wide, &bits, sizeof(wide));
  return wide;
}

}  // namespace packhouse::tfgnn

#endif  // PACKHOUSE_SERVICE_WINGS_TFGNN_NUMBER_LISTS_H_
