#include "service/wings/graphs/sampling/drawing.h"

#include <algorithm>
#include <cstring>

#include "service/wings/graphs/sampling/draw_random.h"

namespace packhouse {
namespace {

// Edges that are on their way from memory at the same time.
constexpr size_t kEdgesInFlight = 256;
// How many rows ahead their offsets are asked for.
constexpr size_t kRowsAhead = 16;
constexpr size_t kPlacesInLine = 64 / sizeof(uint32_t);

template <typename T>
uint64_t BytesOf(const std::vector<T>& values) {
  return values.capacity() * sizeof(T);
}

}  // namespace

uint64_t DrawRooms::num_bytes() const {
  uint64_t bytes = BytesOf(frontier) + BytesOf(places) + BytesOf(row_ends) + BytesOf(targets) +
                   BytesOf(induced) + choice.num_bytes();
  for (const NodeSet& set : node_sets) bytes += set.table.num_bytes() + BytesOf(set.states);
  for (const EdgeSet& set : edge_sets) {
    bytes +=
        BytesOf(set.runs) + BytesOf(set.last_run) + BytesOf(set.places) + BytesOf(set.previous);
  }
  for (const std::vector<uint32_t>& output : outputs) bytes += BytesOf(output);
  for (const std::vector<EdgeEnds>& ends : excluded) bytes += BytesOf(ends);
  return bytes;
}

Drawing::Drawing(const SamplingPlan& plan, const PlannedEdges& edges, Bounds bounds,
                 DrawRooms& rooms, SampledGraph& result)
    : plan_(plan), edges_(edges), bounds_(bounds), rooms_(rooms), result_(result) {
  result_.node_sets.resize(plan.node_sets().size());
  result_.edge_sets.resize(plan.edge_sets().size());
  result_.seeds.clear();
  for (SampledEdges& set : result_.edge_sets) {
    set.sources.clear();
    set.targets.clear();
    set.numbers.clear();
  }
  // A scratch may have served a plan with more sets.
  rooms_.node_sets.resize(std::max(rooms_.node_sets.size(), plan.node_sets().size()));
  rooms_.edge_sets.resize(std::max(rooms_.edge_sets.size(), plan.edge_sets().size()));
  rooms_.outputs.resize(std::max(rooms_.outputs.size(), plan.ops().size()));
  for (size_t n = 0; n < result_.node_sets.size(); ++n) {
    rooms_.node_sets[n].table.Begin(&result_.node_sets[n].numbers);
    rooms_.node_sets[n].states.clear();
  }
  for (DrawRooms::EdgeSet& set : rooms_.edge_sets) {
    set.runs.clear();
    set.last_run.clear();
    set.places.clear();
    set.previous.clear();
  }
  for (std::vector<uint32_t>& output : rooms_.outputs) output.clear();
  rooms_.excluded.resize(std::max(rooms_.excluded.size(), plan.edge_sets().size()));
  for (std::vector<EdgeEnds>& excluded : rooms_.excluded) excluded.clear();
  rooms_.stamp = 0;
}

uint64_t Drawing::MostEdges(size_t edge_set) const {
  return bounds_.limits == nullptr ? bounds_.max_rows
                                   : std::min(bounds_.max_rows, bounds_.limits->edges[edge_set]);
}

bool Drawing::IsWithin(size_t edge_set) const {
  const PlannedEdgeSet& planned = plan_.edge_sets()[edge_set];
  if (bounds_.limits != nullptr) {
    if (result_.edge_sets[edge_set].sources.size() > bounds_.limits->edges[edge_set]) return false;
    for (const size_t n : {planned.source, planned.target}) {
      if (result_.node_sets[n].numbers.size() > bounds_.limits->nodes[n]) return false;
    }
  }
  return result_.num_nodes() + result_.num_edges() <= bounds_.max_rows;
}

uint32_t Drawing::NextStamp() {
  if (++rooms_.stamp == 0) {
    for (DrawRooms::NodeSet& set : rooms_.node_sets) {
      for (DrawRooms::NodeState& state : set.states) state.row = 0;
    }
    rooms_.stamp = 1;
  }
  return rooms_.stamp;
}

void Drawing::TakeInputs(size_t op) {
  const PlannedOp& planned = plan_.ops()[op];
  const size_t source_set = plan_.edge_sets()[planned.edge_set].source;
  std::vector<DrawRooms::NodeState>& states = rooms_.node_sets[source_set].states;
  const uint32_t mark = static_cast<uint32_t>(op) + 1;
  rooms_.frontier.clear();
  for (const size_t input : planned.inputs) {
    const bool is_seeds = input == PlannedOp::kSeeds;
    const std::vector<uint32_t>& given = is_seeds ? result_.seeds : rooms_.outputs[input];
    for (size_t i = 0; i < given.size(); ++i) {
      // Of links between two sets, the ends in the set from which the edges leave.
      if (is_seeds && plan_.seed_set(i % plan_.seeds_per_row()) != source_set) continue;
      if (states[given[i]].op == mark) continue;
      states[given[i]].op = mark;
      rooms_.frontier.push_back(given[i]);
    }
  }
}

absl::Span<const EdgeEnds> Drawing::ExcludedFrom(size_t edge_set, uint32_t node) const {
  const std::vector<EdgeEnds>& excluded = rooms_.excluded[edge_set];
  const auto begin = std::lower_bound(excluded.begin(), excluded.end(), EdgeEnds(node, 0));
  auto end = begin;
  while (end != excluded.end() && end->first == node) ++end;
  return absl::MakeConstSpan(excluded).subspan(begin - excluded.begin(), end - begin);
}

bool Drawing::IsExcluded(size_t edge_set, uint32_t source, uint32_t target) const {
  const std::vector<EdgeEnds>& excluded = rooms_.excluded[edge_set];
  return !excluded.empty() &&
         std::binary_search(excluded.begin(), excluded.end(), EdgeEnds(source, target));
}

void Drawing::TakeExcluded(absl::Span<const uint32_t> seeds) {
  for (const SamplingPlan::Excluded& of : plan_.excluded()) {
    for (size_t link = 0; link + 1 < seeds.size(); link += 2) {
      rooms_.excluded[of.edge_set].emplace_back(seeds[link + (of.reversed ? 1 : 0)],
                                                seeds[link + (of.reversed ? 0 : 1)]);
    }
  }
  for (std::vector<EdgeEnds>& excluded : rooms_.excluded) {
    std::sort(excluded.begin(), excluded.end());
  }
}

size_t Drawing::ChooseEdges(size_t op, absl::Span<const uint32_t> nodes, size_t next,
                            uint32_t sample_size, uint64_t most, uint64_t op_key, TimeRange times,
                            bool& is_beyond) {
  const OpEdges& edges = edges_.ops[op];
  const size_t edge_set = plan_.ops()[op].edge_set;
  rooms_.places.clear();
  rooms_.row_ends.clear();
  // One edge more than there may be shows that there are too many, and takes no memory for more.
  const uint32_t asked = static_cast<uint32_t>(std::min<uint64_t>(sample_size, most + 1));
  while (next < rooms_.frontier.size() && rooms_.places.size() < kEdgesInFlight) {
    if (next + kRowsAhead < rooms_.frontier.size()) {
      __builtin_prefetch(&edges.by_source.offsets[nodes[rooms_.frontier[next + kRowsAhead]]]);
    }
    const uint32_t node = nodes[rooms_.frontier[next]];
    const size_t begin = rooms_.places.size();
    if (!IsRow(edges.by_source, node)) return next;
    rooms_.choice.Choose(edges, node, asked, times, ExcludedFrom(edge_set, node),
                         RowRandom(op_key, node), rooms_.places);
    const size_t end = rooms_.places.size();
    if (end - begin > most) {
      is_beyond = true;
      return next;
    }
    const uint32_t* const neighbours = edges.by_source.neighbours.data();
    if (end - begin > kPlacesInLine &&
        rooms_.places[end - 1] - rooms_.places[begin] < end - begin) {
      for (size_t i = begin; i < end; i += kPlacesInLine) {
        __builtin_prefetch(&neighbours[rooms_.places[i]]);
      }
      __builtin_prefetch(&neighbours[rooms_.places[end - 1]]);
    } else {
      for (size_t i = begin; i < end; ++i) __builtin_prefetch(&neighbours[rooms_.places[i]]);
    }
    rooms_.row_ends.push_back(static_cast<uint32_t>(end));
    ++next;
  }
  return next;
}

void Drawing::AddRun(DrawRooms::EdgeSet& drawn, uint32_t source, size_t first, size_t count) {
  if (count == first) return;
  drawn.runs.push_back(
      {static_cast<uint32_t>(first), static_cast<uint32_t>(count - first), drawn.last_run[source]});
  drawn.last_run[source] = static_cast<uint32_t>(drawn.runs.size());
}

void Drawing::AddRow(size_t op, uint32_t source, size_t begin, size_t end, bool edge_numbers) {
  const size_t set = plan_.ops()[op].edge_set;
  if (plan_.options().merge_parallel) return MergeRow(op, source, begin, end, edge_numbers);
  if (plan_.edge_sets()[set].num_ops > 1) {
    return AddNewEdges(op, source, begin, end, edge_numbers);
  }
  // An op draws for a source once, and each edge once.
  SampledEdges& edges = result_.edge_sets[set];
  edges.sources.resize(edges.sources.size() + (end - begin), source);
  edges.targets.insert(edges.targets.end(),
                       rooms_.targets.begin() + static_cast<std::ptrdiff_t>(begin),
                       rooms_.targets.begin() + static_cast<std::ptrdiff_t>(end));
  if (!edge_numbers) return;
  const Adjacency& by_source = edges_.ops[op].by_source;
  for (size_t i = begin; i < end; ++i) edges.numbers.push_back(by_source.edge(rooms_.places[i]));
}

void Drawing::AddNewEdges(size_t op, uint32_t source, size_t begin, size_t end, bool edge_numbers) {
  const size_t set = plan_.ops()[op].edge_set;
  DrawRooms::NodeState* const states =
      rooms_.node_sets[plan_.edge_sets()[set].target].states.data();
  SampledEdges& edges = result_.edge_sets[set];
  DrawRooms::EdgeSet& drawn = rooms_.edge_sets[set];
  const uint32_t stamp = NextStamp();
  if (drawn.last_run.size() <= source) drawn.last_run.resize(source + size_t{1});
  // Of each target the last edge that other ops drew for this source.
  for (uint32_t r = drawn.last_run[source]; r != 0; r = drawn.runs[r - 1].next) {
    const DrawRooms::Run& run = drawn.runs[r - 1];
    for (uint32_t e = run.begin; e < run.begin + run.count; ++e) {
      DrawRooms::NodeState& state = states[edges.targets[e]];
      state.edge = state.row == stamp ? std::max(state.edge, e) : e;
      state.row = stamp;
    }
  }
  const Adjacency& by_source = edges_.ops[op].by_source;
  const size_t first = edges.sources.size();
  for (size_t i = begin; i < end; ++i) {
    const uint64_t place = rooms_.places[i];
    DrawRooms::NodeState& state = states[rooms_.targets[i]];
    const uint32_t last = state.row == stamp ? state.edge + 1 : 0;
    uint32_t same = last;
    while (same != 0 && drawn.places[same - 1] != place) same = drawn.previous[same - 1];
    if (same != 0) continue;
    state.row = stamp;
    state.edge = static_cast<uint32_t>(edges.sources.size());
    edges.sources.push_back(source);
    edges.targets.push_back(rooms_.targets[i]);
    if (edge_numbers) edges.numbers.push_back(by_source.edge(place));
    drawn.places.push_back(place);
    drawn.previous.push_back(last);
  }
  AddRun(drawn, source, first, edges.sources.size());
}

void Drawing::MergeRow(size_t op, uint32_t source, size_t begin, size_t end, bool edge_numbers) {
  const size_t set = plan_.ops()[op].edge_set;
  const PlannedEdgeSet& planned = plan_.edge_sets()[set];
  DrawRooms::NodeState* const states = rooms_.node_sets[planned.target].states.data();
  SampledEdges& edges = result_.edge_sets[set];
  const uint32_t stamp = NextStamp();
  DrawRooms::EdgeSet& drawn = rooms_.edge_sets[set];
  if (planned.num_ops > 1) {
    // What other ops drew for this source.
    if (drawn.last_run.size() <= source) drawn.last_run.resize(source + size_t{1});
    for (uint32_t r = drawn.last_run[source]; r != 0; r = drawn.runs[r - 1].next) {
      const DrawRooms::Run& run = drawn.runs[r - 1];
      for (uint32_t e = run.begin; e < run.begin + run.count; ++e) {
        states[edges.targets[e]].row = stamp;
        states[edges.targets[e]].edge = e;
      }
    }
  }
  const size_t first = edges.sources.size();
  size_t count = first;
  edges.sources.resize(first + (end - begin), source);
  edges.targets.resize(first + (end - begin));
  if (edge_numbers) edges.numbers.resize(first + (end - begin));
  const Adjacency& by_source = edges_.ops[op].by_source;
  for (size_t i = begin; i < end; ++i) {
    const uint32_t target = rooms_.targets[i];
    DrawRooms::NodeState& state = states[target];
    if (state.row == stamp) {
      if (edge_numbers) {
        edges.numbers[state.edge] =
            std::min(edges.numbers[state.edge], by_source.edge(rooms_.places[i]));
      }
      continue;
    }
    state.row = stamp;
    state.edge = static_cast<uint32_t>(count);
    edges.targets[count] = target;
    if (edge_numbers) edges.numbers[count] = by_source.edge(rooms_.places[i]);
    ++count;
  }
  edges.sources.resize(count);
  edges.targets.resize(count);
  if (edge_numbers) edges.numbers.resize(count);
  if (planned.num_ops > 1) AddRun(drawn, source, first, count);
}

bool Drawing::AddEdges(size_t op, size_t first_row, bool edge_numbers) {
  const Adjacency& by_source = edges_.ops[op].by_source;
  DrawRooms::NodeSet& set = rooms_.node_sets[plan_.edge_sets()[plan_.ops()[op].edge_set].target];
  const size_t count = rooms_.places.size();
  rooms_.targets.resize(count);
  uint64_t last = 0;
  for (size_t i = 0; i < count; ++i) {
    rooms_.targets[i] = by_source.neighbours[rooms_.places[i]];
    last = std::max<uint64_t>(last, rooms_.targets[i]);
    set.table.Prefetch(rooms_.targets[i]);
    if (edge_numbers && !by_source.edges.empty()) {
      __builtin_prefetch(&by_source.edges[rooms_.places[i]]);
    }
  }
  if (count > 0 && last >= edges_.ops[op].num_targets) {
    is_damaged_ = true;
    return false;
  }
  for (size_t i = 0; i < count; ++i) rooms_.targets[i] = set.table.Insert(rooms_.targets[i]);
  set.states.resize(set.table.size());
  if (edges_.is_input[op]) {
    rooms_.outputs[op].insert(rooms_.outputs[op].end(), rooms_.targets.begin(),
                              rooms_.targets.end());
  }
  size_t begin = 0;
  for (size_t r = 0; r < rooms_.row_ends.size(); ++r) {
    AddRow(op, rooms_.frontier[first_row + r], begin, rooms_.row_ends[r], edge_numbers);
    begin = rooms_.row_ends[r];
  }
  return true;
}

bool Drawing::DrawOp(size_t op, uint32_t sample_size, uint64_t op_key, TimeRange times,
                     bool edge_numbers) {
  const size_t set = plan_.ops()[op].edge_set;
  const SampledNodes& sources = result_.node_sets[plan_.edge_sets()[set].source];
  TakeInputs(op);
  for (size_t next = 0; next < rooms_.frontier.size();) {
    bool is_beyond = false;
    const size_t first_row = next;
    next = ChooseEdges(op, sources.numbers, next, sample_size, MostEdges(set), op_key, times,
                       is_beyond);
    if (is_beyond || is_damaged_ || !AddEdges(op, first_row, edge_numbers)) return false;
    if (!IsWithin(set)) return false;
  }
  return true;
}

void Drawing::FindBySource(size_t edge_set, TimeRange times, uint64_t most) {
  const PlannedEdges::Induced& set = edges_.induced[edge_set];
  const PlannedEdgeSet& planned = plan_.edge_sets()[edge_set];
  const std::vector<uint32_t>& sources = result_.node_sets[planned.source].numbers;
  DrawRooms::NodeSet& targets = rooms_.node_sets[planned.target];
  const bool merges = plan_.options().merge_parallel;
  for (uint32_t source = 0; source < sources.size(); ++source) {
    const uint32_t stamp = NextStamp();
    if (!IsRow(*set.by_source, sources[source])) return;
    const uint64_t end = set.by_source->offsets[sources[source] + size_t{1}];
    for (uint64_t place = set.by_source->offsets[sources[source]]; place < end; ++place) {
      const uint32_t node = set.by_source->neighbours[place];
      const uint32_t target = targets.table.Find(node);
      if (target == NodeTable::kNone) continue;
      if (merges && targets.states[target].row == stamp) continue;
      if (IsExcluded(edge_set, sources[source], node)) continue;
      const uint64_t number = set.by_source->edge(place);
      if (set.node_times.exists() && !times.Has(set.node_times.Integer(node))) continue;
      if (set.edge_times.exists() && !times.Has(set.edge_times.Integer(number))) continue;
      targets.states[target].row = stamp;
      rooms_.induced.push_back({source, target, number});
      if (rooms_.induced.size() > most) return;
    }
  }
}

void Drawing::FindByTarget(size_t edge_set, TimeRange times, uint64_t most) {
  const PlannedEdges::Induced& set = edges_.induced[edge_set];
  const PlannedEdgeSet& planned = plan_.edge_sets()[edge_set];
  const std::vector<uint32_t>& targets = result_.node_sets[planned.target].numbers;
  DrawRooms::NodeSet& sources = rooms_.node_sets[planned.source];
  const bool merges = plan_.options().merge_parallel;
  for (uint32_t target = 0; target < targets.size(); ++target) {
    const uint32_t node = targets[target];
    if (set.node_times.exists() && !times.Has(set.node_times.Integer(node))) continue;
    const uint32_t stamp = NextStamp();
    if (!IsRow(*set.by_target, node)) return;
    const uint64_t end = set.by_target->offsets[node + size_t{1}];
    for (uint64_t place = set.by_target->offsets[node]; place < end; ++place) {
      const uint32_t source = sources.table.Find(set.by_target->neighbours[place]);
      if (source == NodeTable::kNone) continue;
      if (merges && sources.states[source].row == stamp) continue;
      if (IsExcluded(edge_set, set.by_target->neighbours[place], node)) continue;
      const uint64_t number = set.by_target->edge(place);
      if (set.edge_times.exists() && !times.Has(set.edge_times.Integer(number))) continue;
      sources.states[source].row = stamp;
      rooms_.induced.push_back({source, target, number});
      if (rooms_.induced.size() > most) return;
    }
  }
}

bool Drawing::TakeInduced(size_t edge_set, TimeRange times) {
  const PlannedEdges::Induced& set = edges_.induced[edge_set];
  const PlannedEdgeSet& planned = plan_.edge_sets()[edge_set];
  const auto work = [&](const std::optional<Adjacency>& adjacency, size_t node_set) {
    if (!adjacency) return ~uint64_t{0};
    uint64_t degrees = 0;
    for (const uint32_t node : result_.node_sets[node_set].numbers) {
      if (!IsRow(*adjacency, node)) return ~uint64_t{0};
      degrees += adjacency->degree(node);
    }
    return degrees;
  };
  rooms_.induced.clear();
  const uint64_t most = MostEdges(edge_set);
  const uint64_t by_source = work(set.by_source, planned.source);
  const uint64_t by_target = work(set.by_target, planned.target);
  if (is_damaged_) return false;
  // Found either way, the edges are the same, and have the same order below.
  if (by_source <= by_target) {
    FindBySource(edge_set, times, most);
  } else {
    FindByTarget(edge_set, times, most);
    std::sort(rooms_.induced.begin(), rooms_.induced.end(),
              [](const DrawRooms::InducedEdge& a, const DrawRooms::InducedEdge& b) {
                return a.source != b.source ? a.source < b.source : a.number < b.number;
              });
  }
  if (is_damaged_) return false;
  SampledEdges& edges = result_.edge_sets[edge_set];
  edges.sources.clear();
  edges.targets.clear();
  edges.numbers.clear();
  for (const DrawRooms::InducedEdge& edge : rooms_.induced) {
    edges.sources.push_back(edge.source);
    edges.targets.push_back(edge.target);
    edges.numbers.push_back(edge.number);
  }
  return IsWithin(edge_set);
}

bool Drawing::Draw(absl::Span<const uint32_t> seeds, uint64_t draw_key, uint32_t level,
                   TimeRange times, bool edge_numbers) {
  result_.level = level;
  for (size_t i = 0; i < seeds.size(); ++i) {
    DrawRooms::NodeSet& set = rooms_.node_sets[plan_.seed_set(i % plan_.seeds_per_row())];
    result_.seeds.push_back(set.table.Insert(seeds[i]));
  }
  for (const size_t end : {size_t{0}, size_t{1}}) {
    DrawRooms::NodeSet& set = rooms_.node_sets[plan_.seed_set(end)];
    set.states.resize(set.table.size());
    if (bounds_.limits != nullptr &&
        set.table.size() > bounds_.limits->nodes[plan_.seed_set(end)]) {
      return false;
    }
  }
  if (result_.num_nodes() > bounds_.max_rows) return false;
  TakeExcluded(seeds);
  // Edges that are drawn of a set that is induced are found again with all others.
  for (size_t op = 0; op < plan_.ops().size(); ++op) {
    const uint32_t sample_size = plan_.SampleSize(op, level);
    if (sample_size == 0) continue;
    if (!DrawOp(op, sample_size, OpKey(draw_key, op), times, edge_numbers)) return false;
  }
  for (size_t e = 0; e < plan_.edge_sets().size(); ++e) {
    if (!plan_.edge_sets()[e].induced) continue;
    if (!TakeInduced(e, times)) return false;
    if (!edge_numbers) result_.edge_sets[e].numbers.clear();
  }
  return true;
}

}  // namespace packhouse
