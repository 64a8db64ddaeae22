#include "service/engine/histograms/histogram_file.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/checksum.h"
#include "service/base/disk_file.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr absl::string_view kTitleOfHistograms = "packhouse histograms 1\n";
constexpr uint64_t kRowsInSection = 1 << 14;
// Rows for which memory is reserved at a time while they are read. A reservation is more than most
// rows need, so a few at a time let a file be read within the memory that its histograms had.
constexpr uint64_t kRowsAtATime = 256;
// A histogram's names and producers, or its rows, are less.
constexpr uint64_t kMaxSectionBytes = uint64_t{64} << 20;
// The first byte of a section.
constexpr char kOfHistogram = 'h';
constexpr char kOfRows = 'r';
constexpr char kOfEnd = 'e';

void PutNumber(uint64_t number, size_t bytes, std::string& out) {
  for (size_t i = 0; i < bytes; ++i) out.push_back(static_cast<char>(number >> (8 * i)));
}
void PutText(absl::string_view text, std::string& out) {
  PutNumber(text.size(), 4, out);
  out.append(text.data(), text.size());
}

// Reads what was put. After bytes that are too few, all is 0, and is_whole() is false.
class SectionReader {
 public:
  explicit SectionReader(absl::string_view bytes) : bytes_(bytes) {}

  uint64_t Number(size_t bytes) {
    const absl::string_view taken = Take(bytes);
    uint64_t number = 0;
    for (size_t i = taken.size(); i-- > 0;) {
      number = number << 8 | static_cast<unsigned char>(taken[i]);
    }
    return number;
  }
  std::string Text() { return std::string(Take(Number(4))); }
  // Nothing is missing, and nothing is left.
  bool is_read() const { return is_whole_ && bytes_.empty(); }
  bool is_whole() const { return is_whole_; }

 private:
  absl::string_view Take(uint64_t bytes) {
    is_whole_ &= bytes <= bytes_.size();
    if (!is_whole_) return {};
    const absl::string_view taken = bytes_.substr(0, bytes);
    bytes_.remove_prefix(bytes);
    return taken;
  }

  absl::string_view bytes_;
  bool is_whole_ = true;
};

// A section: its length, its bytes, the checksum of both.
absl::Status AppendSection(const std::string& section,
                           absl::FunctionRef<absl::Status(absl::string_view)> append) {
  std::string framed;
  framed.reserve(section.size() + 12);
  PutNumber(section.size(), 8, framed);
  framed += section;
  PutNumber(Crc32c(framed), 4, framed);
  return append(framed);
}

std::string HeadOf(const KeptHistogram& kept) {
  std::string head(1, kOfHistogram);
  PutText(kept.name, head);
  PutNumber(kept.schema.num_components(), 4, head);
  for (const std::string& component : kept.schema.components()) PutText(component, head);
  const auto* decaying = std::get_if<DecayingHistogram>(&kept.histogram);
  PutNumber(decaying == nullptr ? 0 : 1, 1, head);
  if (decaying != nullptr) {
    absl::Duration rest;
    PutNumber(
        static_cast<uint64_t>(absl::IDivDuration(decaying->half_life(), absl::Seconds(1), &rest)),
        8, head);
    PutNumber(static_cast<uint64_t>(absl::ToInt64Nanoseconds(rest)), 4, head);
    PutNumber(static_cast<uint64_t>(absl::ToUnixNanos(decaying->landmark())), 8, head);
    PutNumber(static_cast<uint64_t>(absl::ToUnixNanos(decaying->latest())), 8, head);
    PutNumber(std::bit_cast<uint64_t>(decaying->total_weight()), 8, head);
  }
  PutNumber(static_cast<uint64_t>(std::max<int64_t>(0, absl::ToInt64Nanoseconds(kept.unused))), 8,
            head);
  PutNumber(kept.producers.size(), 4, head);
  for (const KeptProducer& each : kept.producers) {
    PutText(each.name, head);
    PutNumber(each.history.last(), 8, head);
    PutNumber(each.history.forget_seconds(), 8, head);
    PutNumber(each.history.digests().size(), 4, head);
    for (const uint32_t digest : each.history.digests()) PutNumber(digest, 4, head);
  }
  PutNumber(std::visit([](const auto& any) { return any.num_distinct(); }, kept.histogram), 8,
            head);
  return head;
}

uint64_t CountBits(const SizeHistogram& histogram, size_t row) { return histogram.count(row); }
uint64_t CountBits(const DecayingHistogram& histogram, size_t row) {
  return std::bit_cast<uint64_t>(histogram.weight(row));
}
absl::Status AddStored(SizeHistogram& histogram, absl::Span<const uint32_t> tuple, uint64_t bits) {
  return histogram.Add(tuple, bits);
}
absl::Status AddStored(DecayingHistogram& histogram, absl::Span<const uint32_t> tuple,
                       uint64_t bits) {
  return histogram.RestoreRow(tuple, std::bit_cast<double>(bits));
}

template <typename Histogram>
absl::Status AppendRows(const Histogram& histogram,
                        absl::FunctionRef<absl::Status(absl::string_view)> append) {
  const size_t rows = histogram.num_distinct();
  for (size_t row = 0; row < rows;) {
    std::string section(1, kOfRows);
    for (const size_t end = std::min<size_t>(rows, row + kRowsInSection); row < end; ++row) {
      for (const uint32_t count : histogram.tuple(row)) PutNumber(count, 4, section);
      PutNumber(CountBits(histogram, row), 8, section);
    }
    PH_RETURN_IF_ERROR(AppendSection(section, append));
  }
  return absl::OkStatus();
}

absl::Status AppendHistogram(const KeptHistogram& kept,
                             absl::FunctionRef<absl::Status(absl::string_view)> append) {
  PH_RETURN_IF_ERROR(AppendSection(HeadOf(kept), append));
  return std::visit([&](const auto& any) { return AppendRows(any, append); }, kept.histogram);
}

absl::Status AppendEnd(uint64_t count, absl::FunctionRef<absl::Status(absl::string_view)> append) {
  std::string end(1, kOfEnd);
  PutNumber(count, 8, end);
  return AppendSection(end, append);
}

// One after the other, from a file.
class HistogramReader {
 public:
  // Reads up to so many bytes at an offset; how many there were.
  using ReadAt = absl::FunctionRef<absl::StatusOr<size_t>(uint64_t at, char* into, size_t bytes)>;

  HistogramReader(std::string name, ReadAt read_at, uint64_t size, MemoryBudget* memory)
      : name_(std::move(name)), read_at_(read_at), size_(size), memory_(memory) {}

  absl::StatusOr<uint64_t> ReadAll(absl::FunctionRef<absl::Status(KeptHistogram)> take) {
    std::string title(std::min<uint64_t>(size_, kTitleOfHistograms.size()), '\0');
    PH_RETURN_IF_ERROR(Read(title));
    if (title != kTitleOfHistograms) return Damaged("begins otherwise");
    for (uint64_t count = 0;; ++count) {
      PH_ASSIGN_OR_RETURN(const std::string section, NextSection());
      if (section[0] == kOfEnd) {
        SectionReader end(absl::string_view(section).substr(1));
        if (end.Number(8) != count || !end.is_read() || at_ != size_) {
          return Damaged("ends otherwise");
        }
        return count;
      }
      if (section[0] != kOfHistogram) return Damaged("is no histogram");
      PH_ASSIGN_OR_RETURN(KeptHistogram kept, ReadHistogram(absl::string_view(section).substr(1)));
      PH_RETURN_IF_ERROR(take(std::move(kept)));
    }
  }

 private:
  absl::Status Damaged(absl::string_view what) const {
    return absl::DataLossError(
        absl::StrCat("'", name_, "': the section that ends at byte ", at_, " ", what));
  }

  absl::Status Read(std::string& into) {
    PH_ASSIGN_OR_RETURN(const size_t got, read_at_(at_, into.data(), into.size()));
    at_ += got;
    return got == into.size() ? absl::OkStatus() : Damaged("is cut off");
  }

  // Never empty.
  absl::StatusOr<std::string> NextSection() {
    std::string framed(8, '\0');
    PH_RETURN_IF_ERROR(Read(framed));
    const uint64_t length = SectionReader(framed).Number(8);
    if (length == 0 || length > kMaxSectionBytes || length > size_ - at_) {
      return Damaged("has no such length");
    }
    std::string section(length, '\0');
    std::string checksum(4, '\0');
    PH_RETURN_IF_ERROR(Read(section));
    PH_RETURN_IF_ERROR(Read(checksum));
    if (Crc32c(section, Crc32c(framed)) != SectionReader(checksum).Number(4)) {
      return Damaged("has another checksum");
    }
    return section;
  }

  absl::StatusOr<KeptHistogram> ReadHistogram(absl::string_view section) {
    SectionReader head(section);
    std::string name = head.Text();
    std::vector<std::string> components;
    for (uint64_t left = head.Number(4); left != 0 && head.is_whole(); --left) {
      components.push_back(head.Text());
    }
    auto schema = SizeSchema::Create(std::move(components));
    if (!schema.ok()) return Damaged(schema.status().message());
    const size_t l = schema->num_components();
    std::variant<SizeHistogram, DecayingHistogram> histogram = SizeHistogram(l);
    absl::Time latest;
    double total_weight = 0;
    if (head.Number(1) != 0) {
      absl::Duration half_life = absl::Seconds(static_cast<int64_t>(head.Number(8)));
      half_life += absl::Nanoseconds(head.Number(4));
      const absl::Time landmark = absl::FromUnixNanos(static_cast<int64_t>(head.Number(8)));
      latest = absl::FromUnixNanos(static_cast<int64_t>(head.Number(8)));
      total_weight = std::bit_cast<double>(head.Number(8));
      if (half_life <= absl::ZeroDuration() || half_life == absl::InfiniteDuration()) {
        return Damaged("has no such half-life");
      }
      histogram = DecayingHistogram(l, half_life, landmark);
    }
    KeptHistogram kept = {std::move(name), *std::move(schema), std::move(histogram), {}, {}};
    kept.unused = absl::Nanoseconds(static_cast<int64_t>(head.Number(8)));
    for (uint64_t left = head.Number(4); left != 0 && head.is_whole(); --left) {
      std::string producer = head.Text();
      const uint64_t last = head.Number(8);
      const uint64_t forget_seconds = head.Number(8);
      std::vector<uint32_t> digests;
      for (uint64_t more = head.Number(4); more != 0 && head.is_whole(); --more) {
        digests.push_back(static_cast<uint32_t>(head.Number(4)));
      }
      if (digests.size() > last) return Damaged("has a producer with more digests than requests");
      kept.producers.push_back(
          {std::move(producer), ProducerHistory(last, std::move(digests), forget_seconds)});
    }
    const uint64_t rows = head.Number(8);
    if (!head.is_read()) return Damaged("is no description of a histogram");
    if (rows > (size_ - at_) / (4 * l + 8)) return Damaged("has more rows than the file has");
    const std::string room = absl::StrCat("histogram '", kept.name, "': room");
    if (memory_ != nullptr) {
      const uint64_t bytes = std::visit(
          [&](const auto& any) { return any.BytesWhenExpected(rows, l); }, kept.histogram);
      PH_ASSIGN_OR_RETURN(kept.memory, memory_->Hold(room, bytes));
    }
    const auto hold = [&](uint64_t bytes, uint64_t more) -> absl::Status {
      if (memory_ == nullptr) return absl::OkStatus();
      kept.memory.ShrinkTo(bytes);
      return kept.memory.Grow(room, more);
    };
    PH_RETURN_IF_ERROR(
        std::visit([&](auto& any) { return ReadRows(rows, any, hold); }, kept.histogram));
    if (auto* decaying = std::get_if<DecayingHistogram>(&kept.histogram)) {
      const absl::Status restored = decaying->RestoreTotal(latest, total_weight);
      if (!restored.ok()) return Damaged(restored.message());
    }
    return kept;
  }

  // hold(bytes, more) keeps the memory that the histogram has, and reserves what it may need more.
  template <typename Histogram, typename Hold>
  absl::Status ReadRows(uint64_t rows, Histogram& histogram, Hold hold) {
    const size_t l = histogram.num_components();
    std::vector<uint32_t> tuple(l);
    histogram.Expect(rows);
    for (uint64_t row = 0; row < rows;) {
      PH_ASSIGN_OR_RETURN(const std::string section, NextSection());
      SectionReader reader(absl::string_view(section).substr(1));
      for (const uint64_t end = std::min(rows, row + kRowsInSection); row < end; ++row) {
        if (row % kRowsAtATime == 0) {
          const uint64_t next = std::min(kRowsAtATime, end - row);
          PH_RETURN_IF_ERROR(hold(histogram.bytes(), Histogram::BytesToAdd(next, l)));
        }
        for (uint32_t& count : tuple) count = static_cast<uint32_t>(reader.Number(4));
        const uint64_t bits = reader.Number(8);
        if (section[0] != kOfRows || !reader.is_whole()) return Damaged("has other rows");
        const absl::Status added = AddStored(histogram, tuple, bits);
        if (!added.ok()) return Damaged(added.message());
        // A size that was there, or a count of 0.
        if (histogram.num_distinct() != row + 1) return Damaged("has no new size");
      }
      if (!reader.is_read()) return Damaged("has more rows");
    }
    return absl::OkStatus();
  }

  const std::string name_;
  const ReadAt read_at_;
  const uint64_t size_;
  MemoryBudget* const memory_;
  uint64_t at_ = 0;
};

}  // namespace

absl::Status WriteHistograms(const HistogramStore& store, absl::Time now,
                             absl::FunctionRef<absl::Status(absl::string_view bytes)> append) {
  PH_RETURN_IF_ERROR(append(kTitleOfHistograms));
  uint64_t count = 0;
  PH_ASSIGN_OR_RETURN(const std::vector<std::string> names, store.Names());
  for (const std::string& name : names) {
    const auto write = [&](const KeptHistogram& kept) { return AppendHistogram(kept, append); };
    const auto kept = store.Keep(name, now);
    // It was deleted meanwhile.
    if (absl::IsNotFound(kept.status())) continue;
    if (absl::IsResourceExhausted(kept.status())) {
      // One that fills the memory must not keep the others from being stored.
      PH_RETURN_IF_ERROR(store.UseKept(name, now, write));
    } else {
      PH_RETURN_IF_ERROR(kept.status());
      PH_RETURN_IF_ERROR(write(*kept));
    }
    ++count;
  }
  return AppendEnd(count, append);
}

absl::Status WriteHistogramBytes(const KeptHistogram& kept,
                                 absl::FunctionRef<absl::Status(absl::string_view bytes)> append) {
  PH_RETURN_IF_ERROR(append(kTitleOfHistograms));
  PH_RETURN_IF_ERROR(AppendHistogram(kept, append));
  return AppendEnd(1, append);
}

absl::StatusOr<uint64_t> ReadHistogramBytes(
    const std::string& name, absl::string_view bytes, MemoryBudget* memory,
    absl::FunctionRef<absl::Status(KeptHistogram histogram)> take) {
  const auto read_at = [&](uint64_t at, char* into, size_t most) -> absl::StatusOr<size_t> {
    return at > bytes.size() ? 0 : bytes.copy(into, most, at);
  };
  return HistogramReader(name, read_at, bytes.size(), memory).ReadAll(take);
}

absl::Status SaveHistogramFile(const HistogramStore& store, const std::string& folder,
                               absl::Time now) {
  const std::string path = absl::StrCat(folder, "/", kHistogramsFile);
  const std::string unfinished = path + ".unfinished";
  const auto save = [&]() -> absl::Status {
    PH_ASSIGN_OR_RETURN(const DiskFile file, DiskFile::Open(unfinished, DiskFile::Mode::kNew));
    uint64_t at = 0;
    PH_RETURN_IF_ERROR(WriteHistograms(store, now, [&](absl::string_view bytes) {
      at += bytes.size();
      return file.WriteAt(at - bytes.size(), bytes);
    }));
    PH_RETURN_IF_ERROR(file.Sync());
    return RenameDurably(unfinished, path);
  };
  absl::Status saved = save();
  if (!saved.ok() && !DiskOutcomeIsUnknown(saved)) RemoveAll(unfinished).IgnoreError();
  return saved;
}

absl::StatusOr<uint64_t> ReadHistogramFile(
    const std::string& path, MemoryBudget* memory,
    absl::FunctionRef<absl::Status(KeptHistogram histogram)> take) {
  PH_ASSIGN_OR_RETURN(const DiskFile file, DiskFile::Open(path, DiskFile::Mode::kRead));
  PH_ASSIGN_OR_RETURN(const uint64_t size, file.Size());
  const auto read_at = [&](uint64_t at, char* into, size_t bytes) {
    return file.ReadAt(at, into, bytes);
  };
  return HistogramReader(path, read_at, size, memory).ReadAll(take);
}

absl::Status LoadHistogramFile(const std::string& folder, absl::Time now, MemoryBudget* memory,
                               HistogramStore& store) {
  const std::string path = absl::StrCat(folder, "/", kHistogramsFile);
  const absl::Status read = ReadHistogramFile(path, memory, [&](KeptHistogram histogram) {
                              return store.PutBack(std::move(histogram), now);
                            }).status();
  if (read.ok() || absl::IsNotFound(read)) return absl::OkStatus();
  return absl::Status(read.code(),
                      absl::StrCat(read.message(), "; without the file '", path,
                                   "' the server starts, and has no named histograms"));
}

}  // namespace packhouse
