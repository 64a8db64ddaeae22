#include "service/engine/jobs/ledger_writer.h"

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "service/base/out_of_memory.h"
#include "service/engine/jobs/event_codec.h"
#include "service/engine/jobs/ledger_event.h"

namespace packhouse {

absl::Status LedgerWriter::Write(absl::Span<const std::string> records,
                                 absl::FunctionRef<void()> apply) {
  {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &LedgerWriter::IsOpen));
    ++num_at_sea_;
  }
  const absl::Cleanup is_back = [&] {
    absl::MutexLock lock(&mutex_);
    --num_at_sea_;
    num_records_ += records.size();
  };
  absl::Status status = log_->Append(records);
  if (status.ok()) apply();
  return status;
}

bool LedgerWriter::TakeDue() {
  absl::MutexLock lock(&mutex_);
  if (due_ || compacting_ || num_records_ < max_records_) return false;
  due_ = true;
  return true;
}

void LedgerWriter::Compact(absl::FunctionRef<std::vector<std::string>()> snapshot) {
  {
    absl::MutexLock lock(&mutex_);
    due_ = false;
    if (compacting_) return;
    compacting_ = true;
    mutex_.Await(absl::Condition(this, &LedgerWriter::IsCalm));
  }
  std::vector<std::string> records;
  bool replaced = false;
  HasMemoryFor([&] {
    records = snapshot();
    records.push_back(EncodeEvent(GenerationsUsed{"", last_generation()}));
    replaced = log_->Replace(records).ok();
  });
  absl::MutexLock lock(&mutex_);
  compacting_ = false;
  num_records_ = replaced ? std::min(records.size(), max_records_ / 2) : max_records_ / 2;
}

uint64_t LedgerWriter::DrawGeneration(uint64_t named) {
  uint64_t last = last_generation();
  while (!last_generation_.compare_exchange_weak(last, std::max(last, named) + 1,
                                                 std::memory_order_relaxed)) {
  }
  return std::max(last, named) + 1;
}

}  // namespace packhouse
