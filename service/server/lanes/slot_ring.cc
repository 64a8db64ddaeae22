#include "service/server/lanes/slot_ring.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace packhouse {

SlotRing::SlotRing(uint32_t num_slots) : owners_(num_slots, Owner::kNobody) {
  free_.reserve(num_slots);
  for (uint32_t slot = num_slots; slot > 0; --slot) free_.push_back(slot - 1);
}

std::optional<uint32_t> SlotRing::Take() {
  if (free_.empty()) return std::nullopt;
  const uint32_t slot = free_.back();
  free_.pop_back();
  owners_[slot] = Owner::kServer;
  return slot;
}

void SlotRing::GiveBack(uint32_t slot) {
  owners_[slot] = Owner::kNobody;
  free_.push_back(slot);
}

void SlotRing::Send(uint32_t slot) {
  owners_[slot] = Owner::kClient;
  ++num_sent_;
}

absl::Status SlotRing::TakeBack(uint32_t slot) {
  if (slot >= owners_.size() || owners_[slot] != Owner::kClient) {
    return absl::InvalidArgumentError(
        absl::StrCat("lane: slot ", slot, " of ", owners_.size(), " is not the client's"));
  }
  owners_[slot] = Owner::kServer;
  --num_sent_;
  return absl::OkStatus();
}

absl::Status SlotRing::Release(absl::string_view message) {
  if (message.empty() || message.size() % sizeof(uint32_t) != 0 ||
      message.size() / sizeof(uint32_t) > owners_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("lane: a release of ", message.size(),
                                                   " bytes: numbers of 4 bytes, 1 to ",
                                                   owners_.size()));
  }
  for (; !message.empty(); message.remove_prefix(sizeof(uint32_t))) {
    uint32_t slot;
    std::memcpy(&slot, message.data(), sizeof(slot));
    if (slot >= owners_.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("lane: a release of slot ", slot, ", there are ", owners_.size()));
    }
    if (owners_[slot] != Owner::kClient) {
      return absl::InvalidArgumentError(
          absl::StrCat("lane: a release of slot ", slot, ", which the client does not have"));
    }
    GiveBack(slot);
    --num_sent_;
  }
  return absl::OkStatus();
}

}  // namespace packhouse
