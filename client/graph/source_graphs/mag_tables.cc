#include "client/graph/source_graphs/mag_tables.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/graph/files/fingerprint.h"
#include "service/base/seeded_random.h"

namespace packhouse::client {
namespace {

using graph_files::SourceRows;

enum MagNodes : size_t { kAuthor, kField, kInstitution, kPaper };
enum MagEdges : size_t { kAffiliated, kCites, kTopic, kWrites, kWritten };

constexpr uint64_t kNumLabels = 349;
constexpr uint32_t kFeatWidth = 128;
constexpr uint64_t kNodeCounts[] = {1'134'649, 59'965, 8'740, 736'389};
constexpr uint64_t kEdgeCounts[] = {1'043'998, 5'416'271, 7'505'078, 7'145'660};
// Which draws are meant, so that no two of them share their numbers.
constexpr uint64_t kFeatDraws = 16;
constexpr uint64_t kCentreDraws = 17;
constexpr uint64_t kYearDraws = 18;
constexpr uint64_t kTopicDraws = 19;

struct MagCounts {
  uint64_t nodes[4];
  uint64_t edges[4];
  uint64_t seed;
};

// The random numbers of one row.
SeededRandom RandomOf(uint64_t seed, uint64_t draws, uint64_t row) {
  SeededRandom mixed(seed + 0x632be59bd9b4e019 * draws);
  return SeededRandom(SeededRandom(mixed.Next() ^ row).Next());
}

// A place in [0, n): at x with the density x^(1/power - 1), which makes degrees heavy-tailed.
uint64_t SkewedPlace(SeededRandom& random, uint64_t n, int power) {
  const double u = static_cast<double>(random.Next() >> 11) * 0x1p-53;
  double x = u;
  for (int i = 1; i < power; ++i) x *= u;
  return std::min(n - 1, static_cast<uint64_t>(x * static_cast<double>(n)));
}

// Which node has a place: neighbours in places are far apart in numbers. A permutation.
class Scatter {
 public:
  explicit Scatter(uint64_t n)
      : n_(n),
        factor_(
            std::max<uint64_t>(1, static_cast<uint64_t>(0.6180339887 * static_cast<double>(n)))) {
    while (std::gcd(factor_, n_) != 1) ++factor_;
  }
  uint64_t operator()(uint64_t place) const { return (place * factor_ + n_ / 3) % n_; }

 private:
  const uint64_t n_;
  uint64_t factor_;
};

uint64_t LabelOf(uint64_t paper) { return paper % kNumLabels; }

// A paper near `paper` with that label; `paper` itself where there is none.
uint64_t WithLabel(uint64_t paper, uint64_t label, uint64_t num_papers) {
  const uint64_t other = paper - LabelOf(paper) + label;
  return other < num_papers ? other : paper;
}

template <typename T>
void AppendNumber(T value, std::string* bytes) {
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  bytes->append(raw, sizeof(T));
}

int64_t YearOf(uint64_t seed, uint64_t paper) {
  SeededRandom random = RandomOf(seed, kYearDraws, paper);
  const uint64_t share = random.Below(10'000);
  if (share >= 9'430) return 2019;
  if (share >= 8'549) return 2018;
  return 2010 + static_cast<int64_t>(random.Below(8));
}

// 128 floats: noise of variance 1 around the label's centre, whose elements are 0.3 or -0.3.
void AppendFeat(const MagCounts& counts, uint64_t paper, std::string* bytes) {
  float row[kFeatWidth];
  SeededRandom random = RandomOf(counts.seed, kFeatDraws, paper);
  SeededRandom centre = RandomOf(counts.seed, kCentreDraws, LabelOf(paper));
  constexpr float kToUnit = 3.4641016F * 0x1p-32F;
  for (uint32_t d = 0; d < kFeatWidth; d += 64) {
    const uint64_t signs = centre.Next();
    for (uint32_t i = 0; i < 64; i += 2) {
      const uint64_t bits = random.Next();
      const float a = static_cast<float>(static_cast<int32_t>(bits)) * kToUnit;
      const float b = static_cast<float>(static_cast<int32_t>(bits >> 32)) * kToUnit;
      row[d + i] = a + ((signs >> i & 1) != 0 ? 0.3F : -0.3F);
      row[d + i + 1] = b + ((signs >> (i + 1) & 1) != 0 ? 0.3F : -0.3F);
    }
  }
  bytes->append(reinterpret_cast<const char*>(row), sizeof(row));
}

class MagNodeTable final : public TableReader {
 public:
  MagNodeTable(const MagCounts& counts, size_t set) : counts_(counts), set_(set) {}

  absl::StatusOr<bool> Read(size_t max_bytes, SourceRows* rows) override {
    *rows = {};
    rows->set = set_;
    const bool is_paper = set_ == kPaper;
    const uint64_t row_bytes =
        sizeof(int64_t) * (is_paper ? 3 : 1) + (is_paper ? sizeof(float) * kFeatWidth : 0);
    const uint64_t left = counts_.nodes[set_] - next_;
    rows->count = std::min(left, std::max<uint64_t>(1, max_bytes / row_bytes));
    if (rows->count == 0) return false;
    if (is_paper) rows->columns.resize(3);
    for (uint64_t i = 0; i < rows->count; ++i, ++next_) {
      rows->ids.numbers.push_back(static_cast<int64_t>(next_));
      if (!is_paper) continue;
      AppendFeat(counts_, next_, &rows->columns[0].bytes);
      AppendNumber(static_cast<int64_t>(LabelOf(next_)), &rows->columns[1].bytes);
      AppendNumber(YearOf(counts_.seed, next_), &rows->columns[2].bytes);
    }
    return true;
  }

 private:
  const MagCounts counts_;
  const size_t set_;
  uint64_t next_ = 0;
};

class MagEdgeTable final : public TableReader {
 public:
  MagEdgeTable(const MagCounts& counts, size_t set)
      : counts_(counts),
        set_(set),
        authors_(counts.nodes[kAuthor]),
        fields_(counts.nodes[kField]),
        institutions_(counts.nodes[kInstitution]),
        papers_(counts.nodes[kPaper]) {}

  absl::StatusOr<bool> Read(size_t max_bytes, SourceRows* rows) override {
    *rows = {};
    rows->is_edges = true;
    rows->set = set_;
    const uint64_t left = counts_.edges[set_] - next_;
    rows->count = std::min(left, std::max<uint64_t>(1, max_bytes / (2 * sizeof(int64_t))));
    if (rows->count == 0) return false;
    rows->sources.numbers.reserve(rows->count);
    rows->targets.numbers.reserve(rows->count);
    for (uint64_t i = 0; i < rows->count; ++i, ++next_) {
      const auto [source, target] = Draw(next_);
      rows->sources.numbers.push_back(static_cast<int64_t>(source));
      rows->targets.numbers.push_back(static_cast<int64_t>(target));
    }
    return true;
  }

 private:
  // Half of the edges fall on any node alike, half on few.
  uint64_t Node(SeededRandom& random, const Scatter& scatter, MagNodes set) const {
    return scatter(SkewedPlace(random, counts_.nodes[set], random.Below(2) == 0 ? 1 : 2));
  }

  std::pair<uint64_t, uint64_t> Draw(uint64_t edge) const {
    SeededRandom random = RandomOf(counts_.seed, set_, edge);
    const uint64_t num_papers = counts_.nodes[kPaper];
    const bool is_alike = random.Below(2) == 0;
    if (set_ == kAffiliated) {
      const uint64_t author = Node(random, authors_, kAuthor);
      return {author, institutions_(SkewedPlace(random, counts_.nodes[kInstitution], 2))};
    }
    if (set_ == kCites) {
      const uint64_t paper = Node(random, papers_, kPaper);
      uint64_t cited = papers_(SkewedPlace(random, num_papers, 2));
      if (is_alike) cited = WithLabel(cited, LabelOf(paper), num_papers);
      // No paper cites itself.
      if (cited == paper) cited = (cited + 1) % num_papers;
      return {paper, cited};
    }
    if (set_ == kTopic) {
      // Every paper has a topic.
      const uint64_t paper = edge < num_papers ? edge : Node(random, papers_, kPaper);
      uint64_t place = SkewedPlace(random, counts_.nodes[kField], 3);
      if (is_alike) {
        place = RandomOf(counts_.seed, kTopicDraws, LabelOf(paper) * 8 + random.Below(8))
                    .Below(counts_.nodes[kField]);
      }
      return {paper, fields_(place)};
    }
    const uint64_t author = authors_(SkewedPlace(random, counts_.nodes[kAuthor], 2));
    // Every paper has an author.
    if (edge < num_papers) return {author, edge};
    const uint64_t paper = Node(random, papers_, kPaper);
    return {author, is_alike ? WithLabel(paper, author % kNumLabels, num_papers) : paper};
  }

  const MagCounts counts_;
  const size_t set_;
  const Scatter authors_;
  const Scatter fields_;
  const Scatter institutions_;
  const Scatter papers_;
  uint64_t next_ = 0;
};

}  // namespace

absl::StatusOr<SourceTables> OpenMagTables(const MagOptions& options) {
  if (!(options.scale > 0) || options.scale > 100) {
    return absl::InvalidArgumentError(
        absl::StrCat("--scale ", options.scale, ": must be above 0, and at most 100"));
  }
  MagCounts counts = {};
  counts.seed = options.seed;
  const auto scaled = [&](uint64_t count) {
    return static_cast<uint64_t>(
        std::max<int64_t>(1, std::llround(static_cast<double>(count) * options.scale)));
  };
  for (size_t i = 0; i < std::size(kNodeCounts); ++i) counts.nodes[i] = scaled(kNodeCounts[i]);
  for (size_t i = 0; i < std::size(kEdgeCounts); ++i) counts.edges[i] = scaled(kEdgeCounts[i]);

  std::vector<SourceNodeSetSpec> node_sets = {
      {"author", {}}, {"field_of_study", {}}, {"institution", {}}, {"paper", {}}};
  node_sets[kPaper].columns = {{"feat", DType::kFloat32, {kFeatWidth}, false, false},
                               {"labels", DType::kInt64, {1}, false, false},
                               {"year", DType::kInt64, {1}, false, false}};
  std::vector<SourceEdgeSetSpec> edge_sets = {{"affiliated_with", kAuthor, kInstitution, {}, {}},
                                              {"cites", kPaper, kPaper, {}, {}},
                                              {"has_topic", kPaper, kField, {}, {}},
                                              {"writes", kAuthor, kPaper, {}, {}},
                                              {"written", kPaper, kAuthor, {}, size_t{kWrites}}};
  absl::StatusOr<SourceGraphSchema> schema =
      SourceGraphSchema::Create(std::move(node_sets), std::move(edge_sets));
  if (!schema.ok()) return schema.status();
  std::vector<OpenTable> tables;
  for (size_t set = 0; set < std::size(kNodeCounts); ++set) {
    tables.emplace_back([counts, set]() -> absl::StatusOr<std::unique_ptr<TableReader>> {
      return std::make_unique<MagNodeTable>(counts, set);
    });
  }
  for (size_t set = 0; set < std::size(kEdgeCounts); ++set) {
    tables.emplace_back([counts, set]() -> absl::StatusOr<std::unique_ptr<TableReader>> {
      return std::make_unique<MagEdgeTable>(counts, set);
    });
  }
  Fingerprint fingerprint;
  fingerprint.Add("mag");
  fingerprint.Add(options.seed);
  for (const uint64_t count : counts.nodes) fingerprint.Add(count);
  for (const uint64_t count : counts.edges) fingerprint.Add(count);
  return SourceTables{*std::move(schema), /*has_text_ids=*/false, std::move(tables),
                      fingerprint.Hex()};
}

}  // namespace packhouse::client
