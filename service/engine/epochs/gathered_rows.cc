#include "service/engine/epochs/gathered_rows.h"

#include <sys/mman.h>

#include <exception>
#include <limits>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "service/algorithms/collation/gathered_graph.h"
#include "service/base/low_priority.h"
#include "service/base/out_of_memory.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// Graphs at random places need a place of the processor's page table each; large pages need fewer.
constexpr uint64_t kLargePage = uint64_t{2} << 20;

uint64_t BytesOf(const DatasetReader& reader, size_t i) {
  const GraphSchema& schema = *reader.info().schema;
  const size_t l = schema.num_components();
  return GatheredGraph::BytesOf(schema, reader.counts().subspan(i * l, l));
}

}  // namespace

GatheredRows::Copy::~Copy() {
  if (data_ != nullptr) munmap(data_, mapped_bytes_);
}

std::shared_ptr<const GatheredRows::Copy> GatheredRows::Ready() const {
  was_used_.store(true, std::memory_order_relaxed);
  absl::MutexLock lock(&mutex_);
  return is_ready_ ? copy_ : nullptr;
}

void GatheredRows::Make() {
  if (is_over_.load(std::memory_order_relaxed)) return;
  if (is_making_.exchange(true, std::memory_order_acquire)) return;
  // Also if memory runs out below.
  absl::Cleanup end = [this] { is_making_.store(false, std::memory_order_release); };
  {
    absl::MutexLock lock(&mutex_);
    if (calls_to_skip_ != 0) {
      --calls_to_skip_;
      return;
    }
    is_unwanted_ = false;
  }
  // Without the lock: who makes room for it may call Drop().
  std::shared_ptr<Copy> copy = Begin();
  if (copy == nullptr) return;
  {
    absl::MutexLock lock(&mutex_);
    if (is_unwanted_) {
      calls_to_skip_ = kCallsAfterDrop;
    } else {
      copy_ = copy;
    }
    copy->is_wanted_ = !is_unwanted_;
  }
  if (!copy->is_wanted_) return;
  try {
    // The one before has ended, or is about to.
    thread_ = Thread([this, copy]() mutable { CopyAll(std::move(copy)); });
    std::move(end).Cancel();
  } catch (const std::exception&) {
    // There are no more threads, or no memory for one.
    Drop();
  }
}

void GatheredRows::CopyAll(std::shared_ptr<Copy> copy) {
  LowerPriority();
  bool is_whole = false;
  RunWithinMemory([&] { is_whole = CopyGraphs(*copy).ok(); });
  std::shared_ptr<Copy> failed;  // Destroyed without the lock.
  {
    absl::MutexLock lock(&mutex_);
    // Otherwise it was dropped meanwhile.
    if (copy_ == copy) {
      if (!is_whole) failed = std::move(copy_);
      if (!is_whole) copy_ = nullptr;
      is_ready_ = is_whole;
      is_over_ = true;
    }
  }
  copy = nullptr;
  is_making_.store(false, std::memory_order_release);
}

absl::Status GatheredRows::CopyGraphs(Copy& copy) const {
  for (size_t i = 0; i < reader_->num_graphs(); ++i) {
    if (!copy.is_wanted_.load(std::memory_order_relaxed)) return absl::CancelledError("dropped");
    PH_ASSIGN_OR_RETURN(const StoredGraph stored, reader_->Graph(i));
    const uint32_t place = copy.places_.back();
    GatherGraph(*stored.chunk, stored.index, copy.data_ + place * Copy::kUnit);
    copy.places_.push_back(place + static_cast<uint32_t>(BytesOf(*reader_, i) / Copy::kUnit));
  }
  // The rows were copied from the store's file, which may have been lost meanwhile.
  return reader_->CheckIntact();
}

void GatheredRows::Count() {
  if (num_units_.load(std::memory_order_relaxed) != 0) return;
  uint64_t units = 0;
  for (size_t i = 0; i < reader_->num_graphs(); ++i) units += BytesOf(*reader_, i) / Copy::kUnit;
  num_units_.store(units, std::memory_order_relaxed);
}

std::shared_ptr<GatheredRows::Copy> GatheredRows::Begin() {
  Count();
  const uint64_t num_units = num_units_.load(std::memory_order_relaxed);
  const size_t n = reader_->num_graphs();
  if (num_units > std::numeric_limits<uint32_t>::max()) {
    is_over_ = true;
    return nullptr;
  }
  const uint64_t mapped = (num_units * Copy::kUnit / kLargePage + 1) * kLargePage;
  const uint64_t bytes = mapped + (n + 1) * sizeof(uint32_t);
  auto copy = std::shared_ptr<Copy>(new Copy());
  if (memory_ != nullptr) {
    // It must not push out what others have made.
    if (memory_->held() + bytes > memory_->bound() / 2) return nullptr;
    auto memory = memory_->Hold(
        absl::StrCat("a copy of the graphs of data set '", reader_->info().name, "'"), bytes);
    if (!memory.ok()) return nullptr;
    copy->memory_ = *std::move(memory);
  }
  void* const data =
      mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
           /*fd=*/-1, /*offset=*/0);
  if (data == MAP_FAILED) return nullptr;
  copy->data_ = static_cast<char*>(data);
  copy->mapped_bytes_ = mapped;
  // Only faster with it.
  (void)madvise(data, mapped, MADV_HUGEPAGE);
  copy->places_.reserve(n + 1);
  copy->places_.push_back(0);
  return copy;
}

std::shared_ptr<absl::Notification> GatheredRows::Drop() {
  std::shared_ptr<Copy> dropped;  // Destroyed without the lock.
  absl::MutexLock lock(&mutex_);
  is_unwanted_ = true;
  if (copy_ == nullptr) return nullptr;
  dropped = std::move(copy_);
  copy_ = nullptr;
  dropped->is_wanted_ = false;
  is_ready_ = false;
  calls_to_skip_ = kCallsAfterDrop;
  is_over_ = false;
  return dropped->ending_.gone();
}

}  // namespace packhouse
