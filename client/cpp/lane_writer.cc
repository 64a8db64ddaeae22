#include "client/cpp/lane_writer.h"

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace packhouse::client {
namespace {

// Columns begin at multiples of it.
constexpr uint64_t kColumnAlignment = 64;
// Fewer bytes are sent: a slot for them costs more than it saves.
constexpr uint64_t kFewestSlotBytes = uint64_t{16} << 10;

// The data of each tensor of the schema. nullopt if a tensor or its length is not as the schema and
// the sizes say: that is the server's to refuse.
std::optional<std::vector<absl::string_view>> ColumnsOf(const v1::GraphChunk& chunk,
                                                        const SchemaLayout& schema) {
  const absl::string_view counts = chunk.sizes().counts();
  const uint64_t num_graphs = chunk.sizes().num_graphs();
  const size_t width = schema.components.size();
  const auto num_tensors = static_cast<int>(schema.tensors.size());
  if (counts.size() != num_graphs * width * sizeof(uint32_t)) return std::nullopt;
  if (chunk.tensors_size() != num_tensors) return std::nullopt;
  std::vector<uint64_t> rows(width, 0);
  for (size_t i = 0; i < num_graphs * width; ++i) {
    uint32_t count;
    std::memcpy(&count, counts.data() + i * sizeof(count), sizeof(count));
    rows[i % width] += count;
  }
  rows.push_back(num_graphs);
  std::vector<absl::string_view> columns;
  for (int t = 0; t < num_tensors; ++t) {
    const TensorLayout& tensor = schema.tensors[static_cast<size_t>(t)];
    // In any order, and mostly in this one.
    int found = t;
    for (int i = 0; chunk.tensors(found).name() != tensor.name; ++i) {
      if (i == num_tensors) return std::nullopt;
      found = i;
    }
    const std::string& data = chunk.tensors(found).data();
    if (data.size() / tensor.row_bytes != rows[tensor.component] ||
        data.size() % tensor.row_bytes != 0) {
      return std::nullopt;
    }
    columns.emplace_back(data);
  }
  return columns;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LaneWriter>> LaneWriter::Open(const v1::Lane& offer,
                                                             SchemaLayout schema) {
  auto slots = LaneSlots::Open(offer, absl::InfiniteDuration());
  if (!slots.ok()) return slots.status();
  return std::unique_ptr<LaneWriter>(new LaneWriter(*std::move(slots), std::move(schema)));
}

std::optional<uint32_t> LaneWriter::Place(const v1::GraphChunk& chunk) {
  const auto columns = ColumnsOf(chunk, schema_);
  if (!columns) return std::nullopt;
  std::vector<uint64_t> begins;
  uint64_t end = 0;
  for (const absl::string_view column : *columns) {
    begins.push_back((end + kColumnAlignment - 1) / kColumnAlignment * kColumnAlignment);
    end = begins.back() + column.size();
  }
  if (end < kFewestSlotBytes || end > slots_->slot_bytes() || !AwaitFree()) return std::nullopt;
  const uint32_t slot = free_.back();
  free_.pop_back();
  for (size_t t = 0; t < begins.size(); ++t) {
    std::memcpy(slots_->slot(slot) + begins[t], (*columns)[t].data(), (*columns)[t].size());
  }
  return slot;
}

bool LaneWriter::AwaitFree() {
  while (free_.empty()) {
    const auto given = slots_->Receive(/*waits=*/true);
    if (!given && errno == EINTR) continue;
    if (!given || given->slot >= slots_->num_slots()) return false;
    free_.push_back(given->slot);
  }
  return true;
}

}  // namespace packhouse::client
