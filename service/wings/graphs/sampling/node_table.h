// The nodes of one set that a sub-graph has so far, and their positions.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_NODE_TABLE_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_NODE_TABLE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace packhouse {

// Open addressing, at most half full. Its size is that of the sub-graph, not of the source graph:
// it stays in the processor's caches. Thread-compatible.
class NodeTable {
 public:
  // No node has this number (SourceGraph::kMaxNodes).
  static constexpr uint32_t kNone = 0xffffffff;

  // Empties the table. `nodes` takes the numbers of the nodes in the order of their positions; it
  // must outlive the table's use, and is emptied. O(nodes before), or O(slots) if that is less.
  void Begin(std::vector<uint32_t>* nodes) {
    if (slots_.empty()) slots_.assign(kMinSlots, Slot{kNone, 0});
    if (used_.size() >= slots_.size() / 8) {
      std::memset(slots_.data(), 0xff, slots_.size() * sizeof(Slot));
    } else {
      for (const uint32_t slot : used_) slots_[slot].node = kNone;
    }
    used_.clear();
    nodes_ = nodes;
    nodes_->clear();
    SetShift();
  }

  uint32_t size() const { return static_cast<uint32_t>(nodes_->size()); }

  void Prefetch(uint32_t node) const { __builtin_prefetch(&slots_[SlotOf(node)]); }

  // The position of a node; kNone if it is not here.
  uint32_t Find(uint32_t node) const {
    for (size_t slot = SlotOf(node);; slot = (slot + 1) & (slots_.size() - 1)) {
      if (slots_[slot].node == node) return slots_[slot].position;
      if (slots_[slot].node == kNone) return kNone;
    }
  }

  // The position of a node, which is added if it is not here.
  uint32_t Insert(uint32_t node) {
    for (size_t slot = SlotOf(node);; slot = (slot + 1) & (slots_.size() - 1)) {
      if (slots_[slot].node == node) return slots_[slot].position;
      if (slots_[slot].node == kNone) return Add(slot, node);
    }
  }

  uint64_t num_bytes() const {
    return slots_.capacity() * sizeof(Slot) + used_.capacity() * sizeof(uint32_t);
  }

 private:
  struct Slot {
    uint32_t node;
    uint32_t position;
  };
  static constexpr size_t kMinSlots = 1024;

  // Fibonacci hashing: neighbours in the numbering lie apart.
  size_t SlotOf(uint32_t node) const {
    return static_cast<size_t>((node * uint64_t{0x9e3779b97f4a7c15}) >> shift_);
  }
  void SetShift() { shift_ = 64 - static_cast<int>(__builtin_ctzll(slots_.size())); }

  uint32_t Add(size_t slot, uint32_t node) {
    const uint32_t position = size();
    slots_[slot] = {node, position};
    nodes_->push_back(node);
    used_.push_back(static_cast<uint32_t>(slot));
    if (nodes_->size() > slots_.size() / 2) Grow();
    return position;
  }

  void Grow() {
    slots_.assign(slots_.size() * 2, Slot{kNone, 0});
    SetShift();
    used_.clear();
    for (uint32_t position = 0; position < nodes_->size(); ++position) {
      size_t slot = SlotOf((*nodes_)[position]);
      while (slots_[slot].node != kNone) slot = (slot + 1) & (slots_.size() - 1);
      slots_[slot] = {(*nodes_)[position], position};
      used_.push_back(static_cast<uint32_t>(slot));
    }
  }

  std::vector<Slot> slots_;  // A power of two of them.
  std::vector<uint32_t> used_;
  std::vector<uint32_t>* nodes_ = nullptr;
  int shift_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_NODE_TABLE_H_
