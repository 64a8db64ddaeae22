#include "service/wings/graphs/services/sample_handler.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/server/calls/wire_graphs.h"
#include "service/server/calls/wire_sizes.h"
#include "service/wings/graphs/services/wire_sampling.h"

namespace packhouse {
namespace {

// A chunk of sub-graphs ends when it has so many bytes, or when drawing has taken about a
// millisecond.
constexpr uint64_t kChunkBytes = uint64_t{256} << 10;
constexpr uint64_t kRowsAtOnce = 16384;
constexpr uint64_t kSubGraphsAtOnce = 256;

// The most rows of each component that a graph may have.
std::vector<uint32_t> LargestGraphOf(const StreamPacker& packer) {
  std::vector<uint32_t> largest;
  for (size_t k = 0; k < packer.schema().num_components(); ++k) {
    largest.push_back(static_cast<uint32_t>(std::min<uint64_t>(
        packer.shapes()[0].shape.LargestGraph(k), std::numeric_limits<uint32_t>::max())));
  }
  return largest;
}

}  // namespace

absl::Status SampleHandler::Open(const v1::SampleOpen& open) {
  if (source_ != nullptr) {
    return absl::FailedPreconditionError("the stream is open already: a second 'open'");
  }
  PH_ASSIGN_OR_RETURN(std::shared_ptr<const SubGraphSource> source,
                      OpenSubGraphs(open.sub_graphs(), graphs_));
  PH_ASSIGN_OR_RETURN(const bool draws_smaller, DrawsSmaller(open.beyond_limits()));
  limits_.clear();
  if (open.has_pack()) {
    if (open.pack().has_schema() || open.pack().has_tfgnn_schema()) {
      return absl::InvalidArgumentError("pack.schema: the server makes it of the source graph's");
    }
    PH_RETURN_IF_ERROR(packer_->OpenWith(open.pack(), source->schema(), open.sub_graphs().graph()));
    whole_graphs_ = packer_->whole_graphs();
    if (draws_smaller && !packer_->packer().shapes().empty()) {
      limits_ = LargestGraphOf(packer_->packer());
    }
  } else {
    packer_ = nullptr;
    opened_.emplace();
    GraphSchemaToWire(source->schema(), *opened_->message.mutable_opened()->mutable_schema());
  }
  PH_ASSIGN_OR_RETURN(drawer_, SubGraphDrawer::Create(source, working_, observer_));
  counter_.emplace(source->graph().num_nodes(source->seed_node_set()),
                   source->sampler().plan().seeds_per_row());
  PH_RETURN_IF_ERROR(HoldCounter());
  seed_ = open.seed();
  epoch_ = open.epoch();
  source_ = std::move(source);
  return absl::OkStatus();
}

absl::Status SampleHandler::HoldCounter() {
  if (working_ == nullptr) return absl::OkStatus();
  constexpr absl::string_view kWhat = "which seeds came before";
  const uint64_t bytes = counter_->num_bytes();
  if (bytes <= counter_memory_.bytes()) return absl::OkStatus();
  if (counter_memory_.bytes() != 0) {
    return counter_memory_.Grow(kWhat, bytes - counter_memory_.bytes());
  }
  PH_ASSIGN_OR_RETURN(counter_memory_, working_->Hold(kWhat, bytes));
  return absl::OkStatus();
}

absl::Status SampleHandler::AcceptSeeds(const v1::SampleSeeds& wire) {
  Pending pending;
  if (working_ != nullptr) {
    PH_ASSIGN_OR_RETURN(pending.memory,
                        working_->Hold("seeds", BytesOfSeeds(wire.seeds()) + wire.ids().size()));
  }
  PH_ASSIGN_OR_RETURN(pending.seeds,
                      SeedsFromWire(/*is_set=*/true, wire.seeds(), *source_, &*counter_));
  PH_RETURN_IF_ERROR(HoldCounter());
  if (whole_graphs_) PH_RETURN_IF_ERROR(source_->CheckHasReadout(pending.seeds));
  if (source_->NumSeeds(pending.seeds) > kMaxStreamSeeds) {
    return absl::InvalidArgumentError(absl::StrCat("seeds: ", source_->NumSeeds(pending.seeds),
                                                   " in one request, at most ", kMaxStreamSeeds));
  }
  pending.num_graphs = source_->NumGraphs(pending.seeds);
  pending.first_id = num_drawn_;
  switch (wire.graph_ids_case()) {
    case v1::SampleSeeds::kFirstId:
      pending.first_id = wire.first_id();
      if (pending.first_id > std::numeric_limits<uint64_t>::max() - pending.num_graphs) {
        return absl::InvalidArgumentError(absl::StrCat("first_id: ", wire.first_id(), " and ",
                                                       pending.num_graphs,
                                                       " sub-graphs exceed 2^64 - 1"));
      }
      break;
    case v1::SampleSeeds::kIds:
      if (wire.ids().size() != sizeof(uint64_t) * pending.num_graphs) {
        return absl::InvalidArgumentError(
            absl::StrCat("ids: ", wire.ids().size(), " bytes, 8 for each of ", pending.num_graphs,
                         " sub-graphs are ", sizeof(uint64_t) * pending.num_graphs));
      }
      pending.ids = Uint64sFromWire(wire.ids());
      break;
    case v1::SampleSeeds::GRAPH_IDS_NOT_SET:
      break;
  }
  if (pending.num_graphs != 0) pending_ = std::move(pending);
  return absl::OkStatus();
}

absl::Status SampleHandler::Accept(std::unique_ptr<v1::SampleRequest> request) {
  if (!failure_.ok()) return failure_;
  if (request->has_open()) return Open(request->open());
  if (source_ == nullptr) {
    return absl::FailedPreconditionError("the first request of a stream must carry 'open'");
  }
  switch (request->message_case()) {
    case v1::SampleRequest::kSeeds:
      return AcceptSeeds(request->seeds());
    case v1::SampleRequest::kFlush: {
      if (packer_ == nullptr) {
        flush_token_ = request->flush().token();
        return absl::OkStatus();
      }
      auto flush = std::make_unique<v1::PackRequest>();
      *flush->mutable_flush() = request->flush();
      return packer_->Accept(std::move(flush));
    }
    default:
      return absl::InvalidArgumentError("the request carries none of 'open', 'seeds', 'flush'");
  }
}

bool SampleHandler::IsBusy() const {
  if (packer_ == nullptr) return pending_.has_value();
  return packer_->IsBusy() || (pending_ && !packer_->IsWaiting());
}

absl::Time SampleHandler::NextDeadline() const {
  return packer_ == nullptr || source_ == nullptr ? absl::InfiniteFuture()
                                                  : packer_->NextDeadline();
}

absl::Status SampleHandler::DrawSome() {
  chunk_.emplace(&source_->sampled_schema());
  sizes_.clear();
  chunk_ids_.clear();
  MemoryHold memory;
  uint64_t rows = 0;
  Pending& pending = *pending_;
  const size_t nodes_per_graph = source_->nodes_per_graph();
  const absl::Span<const uint32_t> nodes = *pending.seeds.nodes;
  while (pending.next < pending.num_graphs && chunk_ids_.size() < kSubGraphsAtOnce &&
         rows < kRowsAtOnce && chunk_->num_bytes() < kChunkBytes) {
    const uint64_t id =
        pending.ids.empty() ? pending.first_id + pending.next : pending.ids[pending.next];
    SubGraphDrawer::Draw draw;
    draw.seed_number = seed_;
    draw.epoch = epoch_;
    draw.seeds = nodes.subspan(pending.next * nodes_per_graph, nodes_per_graph);
    if (!pending.seeds.occurrences.empty()) {
      const uint64_t per_graph = source_->request().seeds_per_graph;
      draw.occurrences = absl::MakeConstSpan(pending.seeds.occurrences)
                             .subspan(pending.next * per_graph, per_graph);
    }
    if (!pending.seeds.times.empty()) draw.time = pending.seeds.times[pending.next];
    draw.limits = limits_;
    const absl::Status drawn = drawer_->Next(draw);
    if (!drawn.ok()) {
      return absl::Status(drawn.code(), absl::StrCat("sub-graph ", id, ": ", drawn.message()));
    }
    if (whole_graphs_) {
      if (working_ != nullptr) {
        // Columns may grow to twice their bytes.
        const uint64_t bytes = 2 * drawer_->num_bytes();
        if (memory.bytes() == 0) {
          PH_ASSIGN_OR_RETURN(memory, working_->Hold("sub-graphs that were drawn", bytes));
        } else {
          PH_RETURN_IF_ERROR(memory.Grow("sub-graphs that were drawn", bytes));
        }
      }
      const uint64_t per_graph = source_->request().seeds_per_graph;
      const uint64_t begin = pending.next * per_graph;
      const uint64_t end = std::min(source_->NumSeeds(pending.seeds), begin + per_graph);
      PH_RETURN_IF_ERROR(
          drawer_->AppendTo(*chunk_, readout_.Gather(*source_, pending.seeds, begin, end)));
    } else {
      sizes_.insert(sizes_.end(), drawer_->tuple().begin(), drawer_->tuple().end());
    }
    if (drawer_->level() != 0) smaller_[id] = drawer_->level();
    chunk_ids_.push_back(id);
    rows += drawer_->num_rows();
    ++num_drawn_;
    ++pending.next;
  }
  if (pending.next == pending.num_graphs) pending_.reset();
  return absl::OkStatus();
}

absl::Status SampleHandler::PackSome() {
  if (whole_graphs_) {
    const uint64_t bytes = 2 * chunk_->num_bytes();
    PH_ASSIGN_OR_RETURN(GraphChunk chunk, chunk_->Finish(0));
    PH_ASSIGN_OR_RETURN(chunk, WithGraphIds(std::move(chunk), std::move(chunk_ids_)));
    return packer_->AcceptChunk(std::move(chunk), bytes);
  }
  // Before the ids are moved: arguments are evaluated in any order.
  const size_t num_graphs = chunk_ids_.size();
  PH_ASSIGN_OR_RETURN(SizeTable sizes,
                      SizeTable::WithIds(num_graphs, source_->schema().num_components(),
                                         std::move(sizes_), std::move(chunk_ids_)));
  return packer_->AcceptChunk(GraphChunk::OfSizes(&source_->schema(), std::move(sizes)), 0);
}

void SampleHandler::EndWith(const absl::Status& status) {
  failure_ = status;
  pending_.reset();
  half_closed_ = true;
}

SampleReply SampleHandler::Converted(PackReply from) {
  SampleReply reply;
  switch (from.message.message_case()) {
    case v1::PackResponse::kOpened:
      *reply.message.mutable_opened() = std::move(*from.message.mutable_opened());
      break;
    case v1::PackResponse::kBatch:
      *reply.message.mutable_batch() = std::move(*from.message.mutable_batch());
      break;
    case v1::PackResponse::kRejected:
      *reply.message.mutable_rejected() = std::move(*from.message.mutable_rejected());
      for (const v1::Rejection& rejection : reply.message.rejected().rejections()) {
        smaller_.erase(rejection.graph_id());
      }
      break;
    case v1::PackResponse::kFlushed:
      *reply.message.mutable_flushed() = std::move(*from.message.mutable_flushed());
      break;
    case v1::PackResponse::kTuned:
      *reply.message.mutable_tuned() = std::move(*from.message.mutable_tuned());
      break;
    case v1::PackResponse::kDrifted:
      *reply.message.mutable_drifted() = std::move(*from.message.mutable_drifted());
      break;
    case v1::PackResponse::MESSAGE_NOT_SET:
      break;
  }
  reply.framed_tensors = from.framed_tensors;
  reply.buffer = std::move(from.buffer);
  if (!reply.message.has_batch() || smaller_.empty()) return reply;
  for (const uint64_t id : Uint64sFromWire(reply.message.batch().graph_ids())) {
    const auto found = smaller_.find(id);
    if (found == smaller_.end()) continue;
    v1::DrawnSmaller& smaller = *reply.message.add_drawn_smaller();
    smaller.set_graph_id(id);
    smaller.set_level(found->second);
    smaller_.erase(found);
  }
  return reply;
}

absl::StatusOr<std::optional<SampleReply>> SampleHandler::Next() {
  if (opened_) return std::exchange(opened_, std::nullopt);
  if (source_ == nullptr)
    return failure_.ok() ? absl::StatusOr<std::optional<SampleReply>>(std::nullopt) : failure_;
  if (packer_ != nullptr) {
    PH_ASSIGN_OR_RETURN(std::optional<PackReply> reply, packer_->Next());
    if (reply) return Converted(*std::move(reply));
    if (packer_->IsBusy() || packer_->IsWaiting()) return std::nullopt;
  }
  if (pending_) {
    absl::Status drawn = DrawSome();
    const bool has_graphs = !chunk_ids_.empty();
    if (has_graphs && packer_ != nullptr) {
      drawn.Update(PackSome());
    }
    if (!drawn.ok()) EndWith(drawn);
    if (has_graphs && packer_ == nullptr) {
      PH_ASSIGN_OR_RETURN(GraphChunk chunk, chunk_->Finish(0));
      PH_ASSIGN_OR_RETURN(chunk, WithGraphIds(std::move(chunk), std::move(chunk_ids_)));
      SampleReply reply;
      GraphChunkToWire(chunk, *reply.message.mutable_graphs());
      return reply;
    }
    chunk_.reset();
    // Whatever the packer has now comes next.
    if (packer_ != nullptr) return Next();
  }
  if (flush_token_) {
    SampleReply reply;
    v1::PackFlushed& flushed = *reply.message.mutable_flushed();
    flushed.set_token(*std::exchange(flush_token_, std::nullopt));
    flushed.set_num_graphs(num_drawn_);
    return reply;
  }
  if (half_closed_ && packer_ != nullptr && !std::exchange(packer_closed_, true)) {
    packer_->HalfClose();
    return Next();
  }
  if (!failure_.ok()) return failure_;
  return std::nullopt;
}

}  // namespace packhouse
