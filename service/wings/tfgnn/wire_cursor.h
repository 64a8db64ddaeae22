// Walks the fields of a protobuf message's bytes, as protobuf's own parser would.
#ifndef PACKHOUSE_SERVICE_WINGS_TFGNN_WIRE_CURSOR_H_
#define PACKHOUSE_SERVICE_WINGS_TFGNN_WIRE_CURSOR_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace packhouse::tfgnn {

enum WireType : uint32_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,
  kGroupBegin = 3,
  kGroupEnd = 4,
  kFixed32 = 5,
};

constexpr uint32_t TagOf(uint32_t field, WireType type) { return field << 3 | type; }

// Reads a message from its beginning. Once something is malformed, it stays so. Accepts what
// protobuf accepts: overlong varints of values, groups of unknown fields, tags of up to five bytes.
class WireCursor {
 public:
  explicit WireCursor(absl::string_view bytes)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  // Whether another field begins here. False at the end, and if something was malformed.
  bool Next(uint32_t* tag) {
    if (at_ == end_ || is_malformed_) return false;
    if (static_cast<signed char>(*at_) > 0) {
      *tag = static_cast<uint8_t>(*at_++);
    } else {
      *tag = ReadUint32();
    }
    if (*tag >> 3 == 0) is_malformed_ = true;
    return !is_malformed_;
  }

  uint64_t ReadVarint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (at_ == end_) break;
      const uint8_t byte = static_cast<uint8_t>(*at_++);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    is_malformed_ = true;
    return 0;
  }

  // A length, and as many bytes.
  absl::string_view ReadBytes() {
    const uint64_t length = ReadUint32();
    if (is_malformed_ || length > static_cast<size_t>(end_ - at_)) {
      is_malformed_ = true;
      return {};
    }
    const char* const begin = at_;
    at_ += length;
    return absl::string_view(begin, length);
  }

  // `bytes` bytes of a fixed-width value.
  absl::string_view ReadFixed(size_t bytes) {
    if (bytes > static_cast<size_t>(end_ - at_)) {
      is_malformed_ = true;
      return {};
    }
    at_ += bytes;
    return absl::string_view(at_ - bytes, bytes);
  }

  // What comes after the tag of a field that is not known. `depth`: how many groups it is in.
  void Skip(uint32_t tag, int depth = 0) {
    constexpr int kMaxDepth = 100;
    switch (tag & 7) {
      case kVarint:
        ReadVarint();
        return;
      case kFixed64:
        ReadFixed(8);
        return;
      case kBytes:
        ReadBytes();
        return;
      case kFixed32:
        ReadFixed(4);
        return;
      case kGroupBegin: {
        uint32_t inner;
        while (depth < kMaxDepth && Next(&inner)) {
          if (inner == TagOf(tag >> 3, kGroupEnd)) return;
          Skip(inner, depth + 1);
        }
        is_malformed_ = true;
        return;
      }
      default:
        is_malformed_ = true;
    }
  }

  bool is_malformed() const { return is_malformed_; }
  // What comes next, to the end.
  absl::string_view rest() const { return absl::string_view(at_, end_ - at_); }

 private:
  // Tags and lengths: at most five bytes, of which bits beyond the 32nd are dropped.
  uint32_t ReadUint32() {
    uint32_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
      if (at_ == end_) break;
      const uint8_t byte = static_cast<uint8_t>(*at_++);
      value |= static_cast<uint32_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    is_malformed_ = true;
    return 0;
  }

  const char* at_;
  const char* end_;
  bool is_malformed_ = false;
};

}  // namespace packhouse::tfgnn

#endif  // PACKHOUSE_SERVICE_WINGS_TFGNN_WIRE_CURSOR_H_
