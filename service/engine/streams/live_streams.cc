#include "service/engine/streams/live_streams.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace packhouse {
namespace {

constexpr size_t kFirstRoom = 64;
// The numbers of a process begin anywhere below this; those of two processes meet once in 2^48 / n
// for n streams.
constexpr uint64_t kNumbers = uint64_t{1} << 48;

uint64_t FirstNumber() {
  std::random_device device;
  return (uint64_t{device()} << 32 | device()) % kNumbers;
}

}  // namespace

size_t SizeSample::MostGraphs(size_t num_components) {
  return kMostBytes / (std::max<size_t>(1, num_components) * sizeof(uint32_t));
}

SizeSample::SizeSample(size_t num_components, uint64_t seed, MemoryBudget* memory)
    : num_components_(num_components),
      random_(seed),
      memory_(memory),
      most_(MostGraphs(num_components)) {}

void SizeSample::Grow() {
  const size_t wanted = std::min(most_, std::max(kFirstRoom, 2 * capacity_));
  const uint64_t more = (wanted - capacity_) * num_components_ * sizeof(uint32_t);
  if (memory_ != nullptr && more != 0) {
    absl::Status held;
    // A sample is worth less than what others have made.
    if (memory_->held() + more > memory_->bound()) {
      most_ = num_kept_;
      return;
    }
    if (hold_.bytes() == 0) {
      absl::StatusOr<MemoryHold> hold = memory_->Hold("sizes of a stream", more);
      held = hold.status();
      if (hold.ok()) hold_ = *std::move(hold);
    } else {
      held = hold_.Grow("sizes of a stream", more);
    }
    if (!held.ok()) {
      most_ = num_kept_;
      return;
    }
  }
  counts_.reserve(wanted * num_components_);
  capacity_ = wanted;
}

void SizeSample::Add(const SizesView& sizes) {
  for (size_t i = 0; i < sizes.num_graphs(); ++i) {
    const auto tuple = sizes.counts().subspan(i * num_components_, num_components_);
    if (num_kept_ == capacity_ && num_kept_ < most_) Grow();
    ++num_seen_;
    if (num_kept_ < most_) {
      counts_.insert(counts_.end(), tuple.begin(), tuple.end());
      ++num_kept_;
      continue;
    }
    const uint64_t place = random_.Below(num_seen_);
    if (place < most_) {
      std::copy(tuple.begin(), tuple.end(),
                counts_.begin() + static_cast<ptrdiff_t>(place * num_components_));
    }
  }
}

SizeHistogram SizeSample::Kept::Histogram() const {
  SizeHistogram histogram(num_components);
  for (size_t i = 0; i < num_graphs; ++i) {
    // So few graphs exceed no sum.
    histogram.Add(absl::MakeConstSpan(counts).subspan(i * num_components, num_components))
        .IgnoreError();
  }
  return histogram;
}

LiveStreams::LiveStreams(MemoryBudget* memory) : memory_(memory), last_(FirstNumber()) {}

struct LiveStreams::Place::Entry {
  Entry(Stream said, SizeSchema its_schema, MemoryBudget* memory)
      : stream(std::move(said)),
        schema(std::move(its_schema)),
        sample(schema.num_components(), stream.number, memory) {}

  const Stream stream;  // As it began.
  const SizeSchema schema;
  mutable absl::Mutex mutex;
  SizeSample sample ABSL_GUARDED_BY(mutex);
};

LiveStreams::Place::Place(LiveStreams* all, std::shared_ptr<Entry> entry)
    : all_(all), entry_(std::move(entry)) {}

LiveStreams::Place::~Place() {
  absl::MutexLock lock(&all_->mutex_);
  all_->streams_.erase(entry_->stream.number);
}

void LiveStreams::Place::Observe(const SizesView& sizes) {
  absl::MutexLock lock(&entry_->mutex);
  entry_->sample.Add(sizes);
}

std::unique_ptr<LiveStreams::Place> LiveStreams::Enter(Caller caller, absl::string_view name,
                                                       const SizeSchema& schema, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  Stream stream = {++last_,
                   std::move(caller.client),
                   std::move(caller.principal),
                   std::string(name),
                   now,
                   schema.components(),
                   0};
  auto entry = std::make_shared<Place::Entry>(std::move(stream), schema, memory_);
  streams_.emplace(last_, entry);
  return std::unique_ptr<Place>(new Place(this, std::move(entry)));
}

LiveStreams::Stream LiveStreams::ReadStream(const Place::Entry& entry) {
  Stream stream = entry.stream;
  absl::MutexLock lock(&entry.mutex);
  stream.num_graphs = entry.sample.num_seen();
  return stream;
}

std::vector<LiveStreams::Stream> LiveStreams::List() const {
  std::vector<std::shared_ptr<Place::Entry>> entries;
  {
    absl::MutexLock lock(&mutex_);
    entries.reserve(streams_.size());
    for (const auto& [_, entry] : streams_) entries.push_back(entry);
  }
  std::vector<Stream> streams;
  streams.reserve(entries.size());
  for (const auto& entry : entries) streams.push_back(ReadStream(*entry));
  return streams;
}

absl::Status LiveStreams::NoSuchStream(uint64_t number) {
  return absl::NotFoundError(absl::StrCat("stream ", number, ": no open stream has this number"));
}

absl::StatusOr<LiveStreams::Sizes> LiveStreams::Find(uint64_t number) const {
  std::shared_ptr<Place::Entry> entry;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = streams_.find(number);
    if (found == streams_.end()) return NoSuchStream(number);
    entry = found->second;
  }
  Stream stream = entry->stream;
  SizeSample::Kept kept;
  {
    absl::MutexLock lock(&entry->mutex);
    stream.num_graphs = entry->sample.num_seen();
    kept = entry->sample.kept();
  }
  return Sizes{std::move(stream), entry->schema, kept.Histogram()};
}

}  // namespace packhouse
