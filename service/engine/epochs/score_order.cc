#include "service/engine/epochs/score_order.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/algorithms/graphs/dtype.h"
#include "service/base/seeded_random.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

template <typename Number>
double NumberAt(absl::string_view bytes) {
  Number number;
  std::memcpy(&number, bytes.data(), sizeof(number));
  return static_cast<double>(number);
}

// IEEE 754's binary16: 5 bits of exponent, 10 of mantissa.
double HalfAt(absl::string_view bytes) {
  uint16_t bits;
  std::memcpy(&bits, bytes.data(), sizeof(bits));
  constexpr int kMantissaBits = 10;
  constexpr int kBias = 15;
  const int exponent = (bits >> kMantissaBits) & 0x1f;
  const int mantissa = bits & 0x3ff;
  const double size = exponent == 0 ? std::ldexp(mantissa, 1 - kBias - kMantissaBits)
                      : exponent == 0x1f
                          ? (mantissa == 0 ? HUGE_VAL : std::nan(""))
                          : std::ldexp(1024 + mantissa, exponent - kBias - kMantissaBits);
  return (bits & 0x8000) != 0 ? -size : size;
}

// The upper half of a float32.
double BrainFloatAt(absl::string_view bytes) {
  char whole[sizeof(float)] = {};
  std::memcpy(whole + 2, bytes.data(), 2);
  return NumberAt<float>({whole, sizeof(whole)});
}

double ScoreAt(DType dtype, absl::string_view bytes) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUint8:
      return NumberAt<uint8_t>(bytes);
    case DType::kInt8:
      return NumberAt<int8_t>(bytes);
    case DType::kInt16:
      return NumberAt<int16_t>(bytes);
    case DType::kInt32:
      return NumberAt<int32_t>(bytes);
    case DType::kInt64:
      return NumberAt<int64_t>(bytes);
    case DType::kUint16:
      return NumberAt<uint16_t>(bytes);
    case DType::kUint32:
      return NumberAt<uint32_t>(bytes);
    case DType::kUint64:
      return NumberAt<uint64_t>(bytes);
    case DType::kFloat16:
      return HalfAt(bytes);
    case DType::kBfloat16:
      return BrainFloatAt(bytes);
    case DType::kFloat32:
      return NumberAt<float>(bytes);
    case DType::kFloat64:
      break;
  }
  return NumberAt<double>(bytes);
}

absl::StatusOr<double> ScoreOf(const ByScoreRequest& request, const DatasetReader& reader,
                               uint32_t graph) {
  const GraphSchema& schema = *reader.info().schema;
  if (!request.tensor) {
    return static_cast<double>(
        reader.counts()[graph * schema.num_components() + request.component]);
  }
  PH_ASSIGN_OR_RETURN(const StoredGraph stored, reader.Graph(graph));
  const TensorSpec& tensor = schema.tensors()[*request.tensor];
  const double score = ScoreAt(tensor.dtype, stored.chunk->rows(stored.index, *request.tensor));
  if (std::isfinite(score)) return score;
  return absl::InvalidArgumentError(absl::StrCat("order.by_score: graph ",
                                                 reader.graph_ids()[graph], " has ", score, " in '",
                                                 tensor.name, "', must be finite"));
}

// The batches of an epoch in their new order, rank group by rank group.
class OrderedBatches {
 public:
  // All but `num_buckets` must outlive it. 0 buckets: each batch is one.
  OrderedBatches(absl::Span<const double> scores, const SizeClasses& classes, size_t num_buckets,
                 const EpochSeed& seed, const Making& making, const EpochBatches& batches)
      : scores_(scores),
        classes_(classes),
        batches_(batches),
        num_buckets_(num_buckets),
        making_(making),
        random_(SequenceStart(seed, DrawPurpose::kScores)),
        class_of_(scores.size()) {
    for (size_t c = 0; c < classes.num_classes(); ++c) {
      for (const uint32_t item : classes.items(c)) class_of_[item] = static_cast<uint32_t>(c);
    }
    items_.reserve(batches.num_items());
    begins_.reserve(batches.num_batches() + 1);
    order_.reserve(batches.num_batches());
  }
  // The bytes that it takes for so many items and batches.
  static uint64_t BytesFor(size_t num_scores, const SizeClasses& classes,
                           const EpochBatches& batches) {
    return sizeof(uint32_t) * (num_scores + classes.num_classes() + 1 + 4 * batches.num_items()) +
           (sizeof(double) + 3 * sizeof(uint32_t)) * (batches.num_batches() + 1);
  }

  // Adds batches [first, end), those of the next rank group.
  absl::Status Add(size_t first, size_t end) {
    first_ = first;
    num_batches_ = end - first;
    buckets_ = num_buckets_ == 0 ? num_batches_ : std::min(num_buckets_, num_batches_);
    std::vector<uint32_t> drawn(num_batches_);
    std::iota(drawn.begin(), drawn.end(), 0);
    SortByMeans([&](uint32_t i) { return batches_.batch(first + i); }, absl::MakeSpan(drawn));
    const size_t first_item = items_.size();
    for (const uint32_t i : drawn) {
      PH_RETURN_IF_ERROR(making_.StillWantedAt(i));
      const auto batch = batches_.batch(first + i);
      items_.insert(items_.end(), batch.begin(), batch.end());
      begins_.push_back(static_cast<uint32_t>(items_.size()));
    }
    PH_RETURN_IF_ERROR(Exchange(first_item));
    order_.resize(end);
    const auto added = absl::MakeSpan(order_).subspan(first);
    std::iota(added.begin(), added.end(), static_cast<uint32_t>(first));
    if (buckets_ == num_batches_) {
      SortByMeans([this](uint32_t place) { return BatchAt(place); }, added);
      return absl::OkStatus();
    }
    for (size_t bucket = 0; bucket < buckets_; ++bucket) {
      const size_t begin = bucket * num_batches_ / buckets_;
      PH_RETURN_IF_ERROR(Shuffle(
          added.subspan(begin, (bucket + 1) * num_batches_ / buckets_ - begin), random_, making_));
    }
    return absl::OkStatus();
  }

  absl::Span<const uint32_t> batch(size_t number) const { return BatchAt(order_[number]); }

 private:
  // Before batches were shuffled within their buckets.
  absl::Span<const uint32_t> BatchAt(size_t place) const {
    return absl::MakeConstSpan(items_).subspan(begins_[place], begins_[place + 1] - begins_[place]);
  }

  // Sorts numbers of the rank group's batches.
  void SortByMeans(absl::FunctionRef<absl::Span<const uint32_t>(uint32_t)> batch,
                   absl::Span<uint32_t> numbers) {
    if (numbers.empty()) return;
    const uint32_t least = numbers[0];
    means_.resize(numbers.size());
    for (const uint32_t number : numbers) {
      double sum = 0;
      for (const uint32_t item : batch(number)) sum += scores_[item];
      means_[number - least] = sum / static_cast<double>(batch(number).size());
    }
    std::stable_sort(numbers.begin(), numbers.end(),
                     [&](uint32_t a, uint32_t b) { return means_[a - least] < means_[b - least]; });
  }

  // Of the place of an item.
  size_t BucketOf(uint32_t place) const {
    const auto after = std::upper_bound(begins_.begin(), begins_.end(), place);
    const size_t number = static_cast<size_t>(after - begins_.begin()) - 1 - first_;
    return ((number + 1) * buckets_ - 1) / num_batches_;
  }

  // Of the items of a size, gives those with lower scores to earlier buckets.
  absl::Status Exchange(size_t first_item) {
    // The places of each size, ascending.
    std::vector<uint32_t> ends(classes_.num_classes() + 1);
    for (size_t i = first_item; i < items_.size(); ++i) ++ends[class_of_[items_[i]] + 1];
    std::partial_sum(ends.begin(), ends.end(), ends.begin());
    std::vector<uint32_t> places(items_.size() - first_item);
    for (size_t i = first_item; i < items_.size(); ++i) {
      places[ends[class_of_[items_[i]]]++] = static_cast<uint32_t>(i);
    }
    std::vector<uint32_t> of_size;
    for (size_t c = 0, begin = 0; c < classes_.num_classes(); begin = ends[c++]) {
      PH_RETURN_IF_ERROR(making_.StillWantedAt(c));
      const auto here = absl::MakeConstSpan(places).subspan(begin, ends[c] - begin);
      of_size.clear();
      for (const uint32_t place : here) of_size.push_back(items_[place]);
      std::stable_sort(of_size.begin(), of_size.end(),
                       [this](uint32_t a, uint32_t b) { return scores_[a] < scores_[b]; });
      for (size_t done = 0; done < here.size();) {
        const size_t bucket = BucketOf(here[done]);
        size_t next = done + 1;
        while (next < here.size() && BucketOf(here[next]) == bucket) ++next;
        PH_RETURN_IF_ERROR(
            Shuffle(absl::MakeSpan(of_size).subspan(done, next - done), random_, making_));
        done = next;
      }
      for (size_t i = 0; i < here.size(); ++i) items_[here[i]] = of_size[i];
    }
    return absl::OkStatus();
  }

  const absl::Span<const double> scores_;
  const SizeClasses& classes_;
  const EpochBatches& batches_;
  const size_t num_buckets_;
  const Making& making_;
  SeededRandom random_;
  std::vector<uint32_t> class_of_;  // By item.
  // Of the rank group that is added: its first batch, how many it has, and in how many buckets.
  size_t first_ = 0;
  size_t num_batches_ = 0;
  size_t buckets_ = 0;
  // Batch after batch, and where each begins.
  std::vector<uint32_t> items_;
  std::vector<uint32_t> begins_ = {0};
  std::vector<uint32_t> order_;
  std::vector<double> means_;
};

}  // namespace

bool IsScore(const GraphSchema& schema, size_t tensor) {
  return schema.tensors()[tensor].component == schema.num_components() &&
         schema.row_bytes(tensor) == ElementBytes(schema.tensors()[tensor].dtype);
}

absl::StatusOr<ScoreOrder> ScoreOrder::Begin(const ByScoreRequest& request, size_t num_items,
                                             const Making& making) {
  ScoreOrder order;
  order.num_buckets_ = request.num_buckets;
  order.memory_bytes_ = sizeof(double) * num_items;
  PH_ASSIGN_OR_RETURN(order.memory_, making.Hold(absl::StrCat("scores of ", num_items, " items"),
                                                 order.memory_bytes_));
  order.scores_.resize(num_items);
  return order;
}

absl::StatusOr<ScoreOrder> ScoreOrder::OfSizes(const ByScoreRequest& request,
                                               const ItemSizes& sizes, const Making& making) {
  PH_ASSIGN_OR_RETURN(ScoreOrder order, Begin(request, sizes.num_items(), making));
  for (size_t i = 0; i < order.scores_.size(); ++i) {
    const double rows = sizes.tuple(i)[request.component];
    order.scores_[i] = request.descending ? -rows : rows;
  }
  return order;
}

absl::StatusOr<ScoreOrder> ScoreOrder::Create(const ByScoreRequest& request,
                                              const DatasetReader& reader,
                                              absl::Span<const uint32_t> items, size_t num_items,
                                              GraphsOf graphs_of, const Making& making) {
  PH_ASSIGN_OR_RETURN(ScoreOrder order, Begin(request, num_items, making));
  for (size_t i = 0; i < items.size(); ++i) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(i));
    const absl::Span<const uint32_t> graphs = graphs_of(items[i]);
    double sum = 0;
    for (const uint32_t graph : graphs) {
      PH_ASSIGN_OR_RETURN(const double score, ScoreOf(request, reader, graph));
      sum += score;
    }
    const double mean = sum / static_cast<double>(graphs.size());
    order.scores_[items[i]] = request.descending ? -mean : mean;
  }
  PH_RETURN_IF_ERROR(reader.CheckIntact());
  return order;
}

absl::Status ScoreOrder::Order(const SizeClasses& classes, const EpochSeed& seed,
                               const Making& making, EpochBatches& batches) const {
  PH_ASSIGN_OR_RETURN(
      const MemoryHold memory,
      making.Hold(absl::StrCat("batches of ", batches.num_items(), " items by score"),
                  OrderedBatches::BytesFor(scores_.size(), classes, batches)));
  OrderedBatches ordered(scores_, classes, num_buckets_, seed, making, batches);
  for (size_t i = 0; i + 1 < batches.first_batches().size(); ++i) {
    PH_RETURN_IF_ERROR(ordered.Add(batches.first_batches()[i], batches.first_batches()[i + 1]));
  }
  batches.SetItems([&](size_t number) { return ordered.batch(number); });
  return absl::OkStatus();
}

}  // namespace packhouse
