#include "client/graph/files/sizes_file.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/cpp/little_endian.h"
#include "client/graph/files/file_kinds.h"

namespace packhouse::client {
namespace {

constexpr std::size_t kMaxComponents = 64;
constexpr std::size_t kMaxNameLength = 128;
constexpr std::size_t kShownValueLength = 40;
constexpr std::size_t kMaxLineLength = std::size_t{1} << 20;
constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Lines of a file, read by zlib, which passes uncompressed bytes through.
class LineReader {
 public:
  LineReader(const std::string& path, gzFile file) : path_(path), file_(file) {}
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;
  ~LineReader() { gzclose_r(file_); }

  // The next line without its end; nullopt after the last one.
  absl::StatusOr<std::optional<absl::string_view>> Next() {
    line_.clear();
    while (true) {
      const char* const begin = buffer_.data() + position_;
      const char* const end = buffer_.data() + filled_;
      const char* const newline = std::find(begin, end, '\n');
      if (line_.size() + static_cast<std::size_t>(newline - begin) > kMaxLineLength) {
        return absl::InvalidArgumentError(absl::StrCat(
            path_, ":", line_number_ + 1, ": is longer than ", kMaxLineLength, " bytes"));
      }
      line_.append(begin, newline);
      if (newline != end) {
        position_ += static_cast<std::size_t>(newline - begin) + 1;
        break;
      }
      const int read = gzread(file_, buffer_.data(), static_cast<unsigned>(buffer_.size()));
      int error = Z_OK;
      const char* const message = gzerror(file_, &error);
      // A truncated file gives the bytes that it has, then Z_BUF_ERROR.
      if (read < 0 || (error != Z_OK && error != Z_STREAM_END)) {
        return absl::DataLossError(absl::StrCat(path_, ": after line ", line_number_, ": ",
                                                error == Z_ERRNO
                                                    ? absl::string_view(std::strerror(errno))
                                                    : absl::string_view(message)));
      }
      position_ = 0;
      filled_ = static_cast<std::size_t>(read);
      if (read == 0) {
        if (line_.empty()) return std::nullopt;
        break;
      }
    }
    ++line_number_;
    return absl::StripSuffix(line_, "\r");
  }

  std::size_t line_number() const { return line_number_; }

 private:
  const std::string path_;
  const gzFile file_;
  std::vector<char> buffer_ = std::vector<char>(std::size_t{1} << 18);
  std::size_t position_ = 0;
  std::size_t filled_ = 0;
  std::string line_;
  std::size_t line_number_ = 0;
};

// Of text: bytes that a terminal would act on are escaped.
std::string ShownValue(absl::string_view value) {
  return absl::Utf8SafeCHexEscape(value.substr(0, kShownValueLength));
}

constexpr KindAdvice kAdvice = {
    "list of sizes, which is a CSV file", "write its graphs' arrays as .npz or Parquet",
    "load it in Python, and give its graphs to packhouse.pyg.ingest or that of another framework"};

// The text without the spaces that it begins with; a tab that divides fields is none.
absl::string_view WithoutLeadingSpaces(absl::string_view text, char delimiter) {
  while (!text.empty() && absl::ascii_isspace(text.front()) && text.front() != delimiter) {
    text.remove_prefix(1);
  }
  return text;
}

// The fields of a line without spaces around them and without quotes; nullopt if a quote is not
// closed, or something follows it.
std::optional<std::vector<std::string>> SplitFields(absl::string_view line, char delimiter) {
  std::vector<std::string> fields;
  while (true) {
    line = WithoutLeadingSpaces(line, delimiter);
    std::string field;
    if (absl::ConsumePrefix(&line, "\"")) {
      while (true) {
        const std::size_t quote = line.find('"');
        if (quote == absl::string_view::npos) return std::nullopt;
        field.append(line.data(), quote);
        line.remove_prefix(quote + 1);
        // Two of them are one within a field.
        if (!absl::ConsumePrefix(&line, "\"")) break;
        field += '"';
      }
      line = WithoutLeadingSpaces(line, delimiter);
      if (!line.empty() && line.front() != delimiter) return std::nullopt;
    }
    const std::size_t end = std::min(line.find(delimiter), line.size());
    absl::StrAppend(&field, line.substr(0, end));
    fields.emplace_back(absl::StripAsciiWhitespace(field));
    if (end == line.size()) return fields;
    line.remove_prefix(end + 1);
  }
}

// Other words for `count`. Taken for a component, a histogram would be a list of graphs.
bool IsLikeCount(absl::string_view column) {
  constexpr absl::string_view kWords[] = {"count", "counts",    "n",     "num",
                                          "freq",  "frequency", "weight"};
  const std::string lower = absl::AsciiStrToLower(column);
  return std::find(std::begin(kWords), std::end(kWords), lower) != std::end(kWords);
}

bool IsComponentName(absl::string_view name) {
  constexpr absl::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.#/:%!^~@+=-";
  return !name.empty() && name.size() <= kMaxNameLength &&
         name.find_first_not_of(kAllowed) == absl::string_view::npos;
}

struct Header {
  std::vector<std::string> components;
  std::optional<std::size_t> count_column;
  std::vector<std::string> columns;
  char delimiter = ',';
  // The first column has no name: pandas and R number rows there.
  bool has_row_numbers = false;
};

absl::StatusOr<Header> ParseHeader(const std::string& where, absl::string_view line) {
  Header header;
  for (const char delimiter : {',', ';', '\t'}) {
    if (line.find(delimiter) == absl::string_view::npos) continue;
    header.delimiter = delimiter;
    break;
  }
  std::optional<std::vector<std::string>> columns = SplitFields(line, header.delimiter);
  if (!columns.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": '", ShownValue(line), "' has a quote that is not closed"));
  }
  header.columns = *std::move(columns);
  header.has_row_numbers = header.columns.size() > 1 && header.columns.front().empty();
  for (std::size_t i = header.has_row_numbers ? 1 : 0; i < header.columns.size(); ++i) {
    const absl::string_view column = header.columns[i];
    const absl::string_view name = absl::StripPrefix(column, "num_");
    const auto fail = [&](absl::string_view what) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": column '", ShownValue(column), "'", what));
    };
    if (column == "count") {
      if (header.count_column.has_value()) return fail(" is there twice");
      header.count_column = i;
      continue;
    }
    if (header.columns.size() > 1 + static_cast<std::size_t>(header.has_row_numbers) &&
        IsLikeCount(column)) {
      return fail(absl::StrCat(": are these the graphs of a row? Then name it 'count', else 'num_",
                               column, "'"));
    }
    if (!IsComponentName(name)) {
      return fail(" is no component name (letters, digits, '_', '.', '-'); is the header missing?");
    }
    if (name.find_first_not_of("0123456789") == absl::string_view::npos) {
      return fail(" is a number; the first line must name the columns, as in num_nodes,num_edges");
    }
    if (name == "graphs") return fail(" is reserved: every row is a graph; did you mean 'count'?");
    if (std::count(header.components.begin(), header.components.end(), std::string(name)) > 0) {
      return fail(" is there twice");
    }
    header.components.emplace_back(name);
  }
  if (header.components.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": no column names a component"));
  }
  if (header.components.size() > kMaxComponents) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": ", header.components.size(),
                                                   " components, at most ", kMaxComponents,
                                                   " are supported"));
  }
  return header;
}

// Refuses leading signs, spaces and exponents, which strtoul would accept.
bool ParseWhole(absl::string_view text, uint64_t max, uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value <= max;
}

// Adds the row of a line. `row_number` is that of the row before.
//
// Errors: INVALID_ARGUMENT naming file, line and value.
absl::Status AddRow(const std::string& path, std::size_t line_number, absl::string_view line,
                    const Header& header, std::optional<uint64_t>& row_number, GraphSizes& sizes) {
  const auto where = [&] { return absl::StrCat(path, ":", line_number); };
  std::optional<std::vector<std::string>> quoted;
  if (line.find('"') != absl::string_view::npos) {
    quoted = SplitFields(line, header.delimiter);
    if (!quoted.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where(), ": '", ShownValue(line), "' has a quote that is not closed"));
    }
  }
  const std::size_t num_fields =
      quoted.has_value()
          ? quoted->size()
          : static_cast<std::size_t>(std::count(line.begin(), line.end(), header.delimiter)) + 1;
  if (num_fields != header.columns.size()) {
    return absl::InvalidArgumentError(absl::StrCat(where(), ": '", ShownValue(line), "' has ",
                                                   num_fields, " values, the header has ",
                                                   header.columns.size(), " columns"));
  }
  absl::string_view rest = line;
  for (std::size_t column = 0; column < num_fields; ++column) {
    const std::size_t end = std::min(rest.find(header.delimiter), rest.size());
    const absl::string_view text =
        quoted.has_value() ? (*quoted)[column] : absl::StripAsciiWhitespace(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const bool is_row_number = header.has_row_numbers && column == 0;
    const bool is_count = header.count_column == column;
    const uint64_t max =
        is_count ? std::numeric_limits<uint64_t>::max() : std::numeric_limits<uint32_t>::max();
    uint64_t value = 0;
    if (!ParseWhole(text, max, value)) {
      return absl::InvalidArgumentError(
          absl::StrCat(where(), ": ", is_row_number ? "the row number" : header.columns[column],
                       " is '", ShownValue(text), "', not a whole number from 0 to ", max));
    }
    if (is_row_number) {
      if (row_number.has_value() && value <= *row_number) {
        return absl::InvalidArgumentError(
            absl::StrCat(where(), ": the first column has no name, and is no row number: ", value,
                         " after ", *row_number, "; name or remove it"));
      }
      row_number = value;
    } else if (is_count) {
      sizes.counts.push_back(value);
    } else {
      sizes.values.push_back(static_cast<uint32_t>(value));
    }
  }
  ++sizes.num_rows;
  return absl::OkStatus();
}

// Takes the file over.
absl::StatusOr<GraphSizes> ReadSizes(const std::string& path, gzFile file) {
  LineReader lines(path, file);
  absl::StatusOr<std::optional<absl::string_view>> line = lines.Next();
  if (!line.ok()) return line.status();
  if (!line->has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is empty; a header line is needed"));
  }
  absl::string_view first = **line;
  if (const absl::Status text = CheckIsText(path, first, kAdvice); !text.ok()) return text;
  absl::ConsumePrefix(&first, kByteOrderMark);
  // Excel's own line, which says what the columns are divided by.
  if (first.size() == 5 && absl::StartsWithIgnoreCase(first, "sep=")) {
    line = lines.Next();
    if (!line.ok()) return line.status();
    first = line->value_or("");
  }
  absl::StatusOr<Header> header = ParseHeader(absl::StrCat(path, ":", lines.line_number()), first);
  if (!header.ok()) return header.status();

  GraphSizes sizes;
  sizes.components = std::move(header->components);
  std::optional<std::size_t> empty_line;
  std::optional<uint64_t> row_number;
  while (true) {
    line = lines.Next();
    if (!line.ok()) return line.status();
    if (!line->has_value()) break;
    if (absl::StripAsciiWhitespace(**line).empty()) {
      if (!empty_line.has_value()) empty_line = lines.line_number();
      continue;
    }
    if (empty_line.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ":", *empty_line, ": is empty"));
    }
    const absl::Status added =
        AddRow(path, lines.line_number(), **line, *header, row_number, sizes);
    if (!added.ok()) return added;
  }
  if (sizes.num_rows == 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": has a header but no sizes"));
  }
  return sizes;
}

}  // namespace

absl::StatusOr<GraphSizes> ReadSizesFile(const std::string& path) {
  const gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) {
    return absl::NotFoundError(absl::StrCat(path, ": cannot open: ", std::strerror(errno)));
  }
  return ReadSizes(path, file);
}

absl::StatusOr<GraphSizes> ReadSizesStdin() {
  // zlib closes what it was given.
  const int input = dup(STDIN_FILENO);
  const gzFile file = input < 0 ? nullptr : gzdopen(input, "rb");
  if (file == nullptr) {
    if (input >= 0) close(input);
    return absl::NotFoundError(absl::StrCat("stdin: cannot open: ", std::strerror(errno)));
  }
  return ReadSizes("stdin", file);
}

absl::StatusOr<GraphSizes> ExpandHistogram(GraphSizes sizes, uint64_t max_graphs) {
  if (!sizes.is_histogram()) return sizes;
  uint64_t total = 0;
  for (const uint64_t count : sizes.counts) {
    if (count > max_graphs - total) {
      return absl::OutOfRangeError(
          absl::StrCat("the counts add up to more than ", max_graphs, " graphs"));
    }
    total += count;
  }
  GraphSizes expanded;
  expanded.components = sizes.components;
  expanded.num_rows = total;
  expanded.values.reserve(total * sizes.components.size());
  for (std::size_t row = 0; row < sizes.num_rows; ++row) {
    const absl::Span<const uint32_t> tuple = sizes.Row(row);
    for (uint64_t i = 0; i < sizes.counts[row]; ++i) {
      expanded.values.insert(expanded.values.end(), tuple.begin(), tuple.end());
    }
  }
  return expanded;
}

std::vector<uint64_t> ShuffleRows(uint64_t seed, GraphSizes& sizes) {
  // std::shuffle and the standard distributions differ between libraries; this does not. The bias
  // of the remainder is below num_rows / 2^64.
  std::mt19937_64 random(seed);
  std::vector<uint64_t> order(sizes.num_rows);
  std::iota(order.begin(), order.end(), uint64_t{0});
  for (std::size_t row = order.size(); row > 1; --row) {
    std::swap(order[row - 1], order[random() % row]);
  }
  std::vector<uint32_t> values;
  values.reserve(sizes.values.size());
  for (const uint64_t row : order) {
    const absl::Span<const uint32_t> tuple = sizes.Row(row);
    values.insert(values.end(), tuple.begin(), tuple.end());
  }
  sizes.values = std::move(values);
  return order;
}

absl::StatusOr<v1::Histogram> MakeHistogram(const GraphSizes& sizes) {
  std::map<std::vector<uint32_t>, uint64_t> counts;
  uint64_t total = 0;
  for (std::size_t row = 0; row < sizes.num_rows; ++row) {
    const uint64_t count = sizes.is_histogram() ? sizes.counts[row] : 1;
    if (count > std::numeric_limits<uint64_t>::max() - total) {
      return absl::OutOfRangeError("the counts add up to more than 2^64 - 1 graphs");
    }
    total += count;
    if (count == 0) continue;
    const absl::Span<const uint32_t> tuple = sizes.Row(row);
    counts[std::vector<uint32_t>(tuple.begin(), tuple.end())] += count;
  }
  v1::Histogram histogram;
  histogram.mutable_components()->Add(sizes.components.begin(), sizes.components.end());
  for (const auto& [tuple, count] : counts) {
    AppendLittleEndian(absl::MakeConstSpan(tuple), *histogram.mutable_tuples());
    AppendLittleEndian(absl::MakeConstSpan(&count, 1), *histogram.mutable_counts());
  }
  return histogram;
}

absl::StatusOr<GraphSizes> SizesOf(const v1::Histogram& histogram) {
  GraphSizes sizes;
  sizes.components.assign(histogram.components().begin(), histogram.components().end());
  sizes.num_rows = histogram.counts().size() / sizeof(uint64_t);
  if (sizes.num_rows * sizeof(uint64_t) != histogram.counts().size() ||
      sizes.num_rows * sizeof(uint32_t) * sizes.components.size() != histogram.tuples().size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("histogram: ", histogram.tuples().size(), " bytes of tuples and ",
                     histogram.counts().size(), " of counts disagree"));
  }
  const LittleEndianView<uint32_t> tuples(histogram.tuples());
  const LittleEndianView<uint64_t> counts(histogram.counts());
  for (std::size_t i = 0; i < tuples.size(); ++i) sizes.values.push_back(tuples[i]);
  for (std::size_t i = 0; i < counts.size(); ++i) sizes.counts.push_back(counts[i]);
  return sizes;
}

absl::Status WriteHistogramFile(const std::string& path, const GraphSizes& histogram) {
  std::ofstream file(path);
  for (const std::string& component : histogram.components) file << "num_" << component << ',';
  file << "count\n";
  for (std::size_t row = 0; row < histogram.num_rows; ++row) {
    for (const uint32_t value : histogram.Row(row)) file << value << ',';
    file << histogram.counts[row] << '\n';
  }
  file.close();
  if (!file) {
    return absl::UnavailableError(absl::StrCat(path, ": cannot write: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

}  // namespace packhouse::client
