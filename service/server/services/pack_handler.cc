#include "service/server/services/pack_handler.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "service/access/policy.h"
#include "service/algorithms/pieces/graph_pieces.h"
#include "service/base/status_macros.h"
#include "service/server/calls/wire_graphs.h"
#include "service/server/calls/wire_sizes.h"

namespace packhouse {
namespace {

// Graphs that are packed before others may have a turn: some ten microseconds, or a millisecond if
// the look-ahead is large.
constexpr size_t kGraphsAtOnce = 256;
// Keeps a `rejected` message far below the smallest receive limit that clients have.
constexpr int kMaxRejectionsPerMessage = 4096;
// A stream's timer lives until it is due, even if the stream ends.
constexpr absl::Duration kMaxDelay = absl::Hours(1);

absl::StatusOr<StreamPackerOptions> OptionsFromWire(const v1::PackOpen& open,
                                                    const GraphSchema& schema,
                                                    const StreamBounds& bounds) {
  StreamPackerOptions options;
  options.bounds = bounds;
  if (!open.has_device_profile()) {
    PH_ASSIGN_OR_RETURN(options.capacities, CapacitiesFromWire(open.limits(), schema.sizes()));
  }
  PH_ASSIGN_OR_RETURN(options.padding, PaddingFromWire(open.padding()));
  PH_ASSIGN_OR_RETURN(options.derived, DerivedFromWire(open.derived()));
  if (open.look_ahead() != 0) options.packing.look_ahead = open.look_ahead();
  options.packing.max_age = open.max_age();
  PH_ASSIGN_OR_RETURN(options.packing.max_delay, BoundFromWire(open.max_delay(), "max_delay"));
  if (options.packing.max_delay > kMaxDelay &&
      options.packing.max_delay != absl::InfiniteDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_delay: ", absl::FormatDuration(options.packing.max_delay), ", at most ",
                     absl::FormatDuration(kMaxDelay)));
  }
  PH_ASSIGN_OR_RETURN(options.whole_graphs, CarriesGraphs(open.payload(), schema));
  PH_ASSIGN_OR_RETURN(const OversizeRule oversize, OversizeRuleFromWire(open.oversize_policy()));
  options.oversize_is_error = oversize == OversizeRule::kError;
  PH_ASSIGN_OR_RETURN(std::vector<uint32_t> min_rows,
                      CountsFromWire(open.min_rows(), schema.sizes(), "min_rows"));
  options.min_rows = MinRows(std::move(min_rows));
  if (!options.whole_graphs && open.derived_size() != 0) {
    return absl::InvalidArgumentError("derived: not for a stream of sizes");
  }
  PH_ASSIGN_OR_RETURN(options.integer_width,
                      IntegerWidthFromWire(open.integer_width(), options.whole_graphs));
  return options;
}

// Graphs beyond the limits are cut.
absl::StatusOr<std::shared_ptr<const PieceSchema>> PiecesOf(const v1::PackOpen& open,
                                                            const StreamPackerOptions& options,
                                                            const GraphSchema& schema) {
  const auto refuse = [](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("oversize_policy: OVERSIZE_POLICY_PARTITION needs ", what));
  };
  if (!options.whole_graphs) return refuse("whole graphs");
  if (open.has_device_profile()) return refuse("limits, and takes no device_profile");
  if (!options.min_rows.empty()) return refuse("a stream without min_rows");
  PH_ASSIGN_OR_RETURN(PieceSchema pieces, PieceSchema::Create(schema));
  return std::make_shared<const PieceSchema>(std::move(pieces));
}

PackReply OpenedToWire(const StreamPacker& packer, const StreamPackerOptions& options) {
  PackReply reply;
  v1::PackResponse& response = reply.message;
  v1::PackOpened& opened = *response.mutable_opened();
  GraphSchemaToWire(packer.schema(), *opened.mutable_schema());
  if (!packer.shapes().empty()) {
    CapacitiesToWire(packer.capacities(), packer.schema().sizes(), *opened.mutable_limits());
    CapacitiesToWire(packer.usable().capacities(), packer.schema().sizes(),
                     *opened.mutable_usable());
    if (options.whole_graphs) {
      opened.set_batch_bytes(packer.layout().FixedBatchBytes().value_or(0));
    }
  }
  opened.set_look_ahead(packer.packing().look_ahead);
  opened.set_max_age(packer.packing().max_age);
  opened.set_payload(options.whole_graphs ? v1::PAYLOAD_GRAPHS : v1::PAYLOAD_SIZES);
  opened.set_padding(PaddingToWire(options.padding));
  return reply;
}

}  // namespace

absl::Status PackHandler::Open(const v1::PackOpen& open) {
  PH_ASSIGN_OR_RETURN(GraphSchema schema, SchemaOf(open, format_));
  return OpenWith(open, std::move(schema));
}

absl::Status PackHandler::OpenWith(const v1::PackOpen& open, GraphSchema schema_value,
                                   absl::string_view named) {
  const absl::string_view where = NamespaceOf(named.empty() ? open.histogram() : named);
  if (bounds_.quota_of) {
    namespace_quota_ = bounds_.quota_of(where);
    if (namespace_quota_ != nullptr) bounds_.quota = namespace_quota_.get();
  }
  auto schema = std::make_shared<const GraphSchema>(std::move(schema_value));
  PH_ASSIGN_OR_RETURN(StreamPackerOptions options, OptionsFromWire(open, *schema, bounds_));
  std::shared_ptr<const PieceSchema> pieces;
  if (open.oversize_policy() == v1::OVERSIZE_POLICY_PARTITION) {
    PH_ASSIGN_OR_RETURN(pieces, PiecesOf(open, options, *schema));
    schema = pieces->shared_with_pieces();
  }
  batches_ = {
      options.padding,         options.derived,  options.whole_graphs, bounds_.max_graphs_per_batch,
      bounds_.max_batch_bytes, options.min_rows, options.integer_width};
  PH_ASSIGN_OR_RETURN(std::optional<StreamTuningRequest> tuning,
                      StreamTuningFromWire(open, *schema, batches_, bounds_.measured));
  PH_ASSIGN_OR_RETURN(const std::optional<StreamDrift::Options> drift,
                      StreamDrift::OptionsFromWire(open));
  if (tuning) {
    if (!options.min_rows.empty()) {
      return absl::InvalidArgumentError("min_rows: not with a device profile: name the limits");
    }
    tuning->packing = options.packing;
    tuning->steps = bounds_.shape_search_steps;
    tuning->is_watched = drift.has_value();
    PH_ASSIGN_OR_RETURN(const uint64_t num_graphs,
                        GraphsToHold(*tuning, schema->sizes(), *histograms_, clock_->Now()));
    options.calibration = CalibrationOptions{tuning->profile, num_graphs};
  }
  PH_ASSIGN_OR_RETURN(std::unique_ptr<StreamPacker> packer,
                      StreamPacker::Create(schema, options,
                                           observers_->ForStream(schema->sizes(), {where, named})));
  std::unique_ptr<StreamDrift> watch;
  // Graphs without components are all alike.
  if (drift && schema->num_components() != 0) {
    PH_ASSIGN_OR_RETURN(
        watch,
        StreamDrift::Create(*drift, schema, tuning ? std::optional(tuning->profile) : std::nullopt,
                            working_, planning_, packer->observer()));
  }
  if (!open.histogram().empty()) {
    histogram_ = HistogramKey{open.histogram(), schema->sizes(), std::nullopt};
    // Creates the histogram now, or reports what is wrong with it. Where servers share their
    // histograms, it is created soon, and only what this server knows by itself is reported.
    PH_RETURN_IF_ERROR(histograms_->ObserveSoon(*histogram_, SizeTable(), clock_->Now()));
  }
  packer_ = std::move(packer);
  pieces_ = std::move(pieces);
  tuning_request_ = std::move(tuning);
  schema_ = std::move(schema);
  whole_graphs_ = options.whole_graphs;
  drift_ = std::move(watch);
  if (drift_ != nullptr && !tuning_request_) PH_RETURN_IF_ERROR(BeginWatch(std::nullopt));
  if (live_streams_ != nullptr) {
    live_ = live_streams_->Enter(std::move(caller_), named.empty() ? open.histogram() : named,
                                 schema_->sizes(), clock_->Now());
  }
  opened_ = OpenedToWire(*packer_, options);
  return absl::OkStatus();
}

absl::Status PackHandler::BeginWatch(std::optional<DriftReference> reference) {
  DriftSearch search;
  search.shapes.batches = batches_;
  search.shapes.packing = packer_->packing();
  search.shapes.steps = bounds_.shape_search_steps;
  search.present.assign(packer_->shapes().begin(), packer_->shapes().end());
  search.min_loss = drift_->min_loss();
  if (tuning_request_) {
    search.profile = tuning_request_->profile;
  } else {
    // Limits that leave nothing to choose, such as a number of graphs alone, have no profile.
    absl::StatusOr<DeviceProfile> within =
        ProfileWithin(packer_->shapes()[0].requested, *schema_, batches_);
    if (within.ok()) search.profile = *std::move(within);
  }
  drift_->SetShapes(std::move(search));
  return reference ? drift_->SetReference(*std::move(reference)) : absl::OkStatus();
}

absl::StatusOr<bool> PackHandler::Tune() {
  if (tuning_ == nullptr) {
    tuning_ = StreamTuning::Start(*tuning_request_, schema_, packer_->TakeCalibration(),
                                  histograms_, clock_, working_, planning_.get());
  }
  std::optional<absl::StatusOr<FoundShapes>> found = tuning_->Take();
  if (!found) return false;
  tuning_.reset();
  PH_RETURN_IF_ERROR(found->status());
  tuned_.emplace();
  v1::PackTuned& tuned = *tuned_->message.mutable_tuned();
  TunedToWire(**found, schema_->sizes(), tuned);
  absl::StatusOr<std::vector<Rejection>> rejections =
      packer_->SetShapes(std::move((*found)->shapes.shapes));
  if (absl::IsOutOfRange(rejections.status())) {
    held_too_large_ = rejections.status();
    packer_->Flush();
  } else {
    PH_RETURN_IF_ERROR(rejections.status());
    rejections_ = *std::move(rejections);
  }
  if (drift_ != nullptr) PH_RETURN_IF_ERROR(BeginWatch(std::move((*found)->reference)));
  if (whole_graphs_) {
    for (int i = 0; i < tuned.shapes_size(); ++i) {
      const BatchLayout& layout = packer_->shapes()[static_cast<size_t>(i)].shape.layout;
      tuned.mutable_shapes(i)->set_batch_bytes(layout.FixedBatchBytes().value_or(0));
    }
  }
  return true;
}

absl::Status PackHandler::Accept(std::unique_ptr<v1::PackRequest> request) {
  const bool opens = request->message_case() == v1::PackRequest::kOpen;
  if (!opens && packer_ == nullptr) {
    return absl::FailedPreconditionError("the first request of a stream must carry 'open'");
  }
  switch (request->message_case()) {
    case v1::PackRequest::kOpen:
      if (packer_ != nullptr) {
        return absl::FailedPreconditionError("the stream is open already: a second 'open'");
      }
      return Open(request->open());
    case v1::PackRequest::kGraphs:
      return AcceptGraphs(std::move(request));
    case v1::PackRequest::kSizes:
      return AcceptSizes(request->sizes());
    case v1::PackRequest::kExamples:
      return AcceptExamples(request->examples());
    case v1::PackRequest::kFlush:
      flush_token_ = request->flush().token();
      packer_->Flush();
      return absl::OkStatus();
    case v1::PackRequest::kSlotGraphs:
      return absl::FailedPreconditionError("'slot_graphs' in a stream without a lane for graphs");
    case v1::PackRequest::MESSAGE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "the request carries none of 'graphs', 'sizes', 'examples', 'flush'");
}

absl::Status PackHandler::AcceptGraphs(std::unique_ptr<v1::PackRequest> request) {
  if (!whole_graphs_) {
    return absl::InvalidArgumentError("'graphs' in a stream that was opened for sizes");
  }
  const std::shared_ptr<v1::PackRequest> owner = std::move(request);
  PH_ASSIGN_OR_RETURN(GraphChunk chunk,
                      GraphChunkFromWire(owner->graphs(), &GivenSchema(), NextId(), owner));
  // The chunk has its own sizes. The rest of the message is held as long as one of its graphs is
  // pending.
  delete owner->mutable_graphs()->release_sizes();
  const uint64_t owner_bytes = owner->SpaceUsedLong();
  return AcceptChunk(std::move(chunk), owner_bytes);
}

absl::Status PackHandler::AcceptSizes(const v1::SizeTable& sizes) {
  if (whole_graphs_) {
    return absl::InvalidArgumentError("'sizes' in a stream that was opened for whole graphs");
  }
  const GraphSchema& schema = packer_->schema();
  PH_ASSIGN_OR_RETURN(SizeTable table, SizeTableFromWire(sizes, schema.num_components(), NextId()));
  return AcceptChunk(GraphChunk::OfSizes(&schema, std::move(table)), 0);
}

absl::Status PackHandler::AcceptExamples(const v1::Examples& examples) {
  if (!whole_graphs_) {
    return absl::InvalidArgumentError("'examples' in a stream that was opened for sizes");
  }
  if (examples_ == nullptr) {
    PH_ASSIGN_OR_RETURN(examples_, format_.Open(&GivenSchema(), working_, {rpcs_, Method::kPack}));
  }
  PH_ASSIGN_OR_RETURN(DecodedExamples decoded, examples_->Read(examples, NextId()));
  const absl::Status accepted = AcceptChunk(std::move(decoded.chunk), decoded.bytes);
  num_malformed_ += decoded.left_out.size();
  malformed_ = std::move(decoded.left_out);
  return accepted;
}

const GraphSchema& PackHandler::GivenSchema() const {
  return pieces_ != nullptr ? pieces_->whole() : packer_->schema();
}

absl::StatusOr<GraphChunk> PackHandler::CutToFit(const GraphChunk& chunk) {
  const BatchShape& shape = packer_->shapes()[0].shape;
  std::vector<uint64_t> limits;
  for (size_t k = 0; k < packer_->schema().num_components(); ++k) {
    limits.push_back(shape.LargestGraph(k));
  }
  MemoryHold memory;
  if (working_ != nullptr) {
    PH_ASSIGN_OR_RETURN(memory, working_->Hold("graphs that are cut", CuttingBytes(chunk)));
  }
  return CutOversizeGraphs(*pieces_, chunk, limits, [&](uint64_t bytes) {
    return working_ == nullptr ? absl::OkStatus() : memory.Grow("pieces of graphs", bytes);
  });
}

absl::Status PackHandler::AcceptChunk(GraphChunk given, uint64_t owner_bytes) {
  const size_t num_given = given.num_graphs();
  GraphChunk chunk = std::move(given);
  if (pieces_ != nullptr) {
    PH_ASSIGN_OR_RETURN(chunk, CutToFit(chunk));
    owner_bytes = 0;
  }
  if (live_ != nullptr) live_->Observe(chunk.sizes());
  const std::optional<SizeTable> to_count =
      histogram_ || drift_ != nullptr ? std::optional(chunk.sizes()) : std::nullopt;
  const bool is_choosing = packer_->shapes().empty();
  const uint64_t counted_before = is_choosing ? packer_->calibration().sizes().num_graphs() : 0;
  PH_ASSIGN_OR_RETURN(std::vector<Rejection> rejections,
                      packer_->Offer(std::move(chunk), owner_bytes));
  num_given_ += num_given;
  if (drift_ != nullptr && is_choosing) {
    drift_->ObserveWhileChoosing(*to_count,
                                 packer_->calibration().sizes().num_graphs() - counted_before);
  } else if (drift_ != nullptr) {
    PH_RETURN_IF_ERROR(drift_->Observe(*to_count));
  }
  if (histogram_) {
    absl::Status counted = CountSizes(*to_count, rejections);
    rejections_ = std::move(rejections);
    return counted;
  }
  rejections_ = std::move(rejections);
  return absl::OkStatus();
}

PackReply PackHandler::NextRejected() {
  PackReply reply;
  v1::PackRejected& rejected = *reply.message.mutable_rejected();
  const size_t num_malformed = malformed_.size();
  for (; next_rejection_ < num_malformed + rejections_.size(); ++next_rejection_) {
    if (rejected.rejections_size() == kMaxRejectionsPerMessage) return reply;
    v1::Rejection& to = *rejected.add_rejections();
    if (next_rejection_ < num_malformed) {
      LeftOut& example = malformed_[next_rejection_];
      to.set_graph_id(example.graph_id);
      to.set_reason(v1::REJECTION_REASON_MALFORMED);
      to.set_message(std::move(example.message));
      continue;
    }
    const Rejection& from = rejections_[next_rejection_ - num_malformed];
    to.set_graph_id(from.graph_id);
    if (from.component == Rejection::kBytes) {
      to.set_reason(v1::REJECTION_REASON_TOO_MANY_BYTES);
    } else if (from.component == Rejection::kMemory) {
      to.set_reason(v1::REJECTION_REASON_TOO_MUCH_MEMORY);
    } else {
      to.set_reason(from.is_too_small ? v1::REJECTION_REASON_TOO_SMALL
                                      : v1::REJECTION_REASON_TOO_LARGE);
      to.set_component(std::string(packer_->schema().sizes().name(from.component)));
    }
    to.set_value(from.value);
    to.set_bound(from.bound);
  }
  malformed_.clear();
  rejections_.clear();
  next_rejection_ = 0;
  return reply;
}

absl::Status PackHandler::CountSizes(const SizeTable& sizes,
                                     const std::vector<Rejection>& rejections) {
  const absl::Time now = clock_->Now();
  if (rejections.empty()) {
    return histograms_->ObserveSoon(*histogram_, sizes, now);
  }
  // Rejections are in the order of the table.
  std::vector<uint32_t> counts;
  size_t accepted = 0;
  auto rejection = rejections.begin();
  for (size_t i = 0; i < sizes.num_graphs(); ++i) {
    if (rejection != rejections.end() && rejection->graph_id == sizes.graph_id(i)) {
      ++rejection;
      continue;
    }
    counts.insert(counts.end(), sizes.tuple(i).begin(), sizes.tuple(i).end());
    ++accepted;
  }
  PH_ASSIGN_OR_RETURN(
      const SizeTable table,
      SizeTable::WithConsecutiveIds(accepted, sizes.num_components(), std::move(counts), 0));
  return histograms_->ObserveSoon(*histogram_, table, now);
}

void PackHandler::HalfClose() {
  half_closed_ = true;
  if (packer_ != nullptr) packer_->Flush();
}

absl::StatusOr<std::optional<PackReply>> PackHandler::Next() {
  if (opened_) return std::exchange(opened_, std::nullopt);
  if (packer_ == nullptr) return std::nullopt;
  if (tuned_) return std::exchange(tuned_, std::nullopt);
  if (!rejections_.empty() || !malformed_.empty()) return NextRejected();
  if (drift_ != nullptr) {
    if (std::optional<v1::PackDrifted> drifted = drift_->Next()) {
      PackReply reply;
      *reply.message.mutable_drifted() = *std::move(drifted);
      return reply;
    }
  }
  const uint64_t batch_id = packer_->num_batches();
  PH_ASSIGN_OR_RETURN(std::optional<Batch> batch, packer_->Next(clock_->Now(), kGraphsAtOnce));
  if (packer_->needs_shapes()) {
    PH_ASSIGN_OR_RETURN(const bool is_tuned, Tune());
    if (!is_tuned) return std::nullopt;
    return std::exchange(tuned_, std::nullopt);
  }
  PackReply reply;
  if (batch) {
    BatchToWire(*batch, batch_id, *reply.message.mutable_batch());
    reply.TakeTensors(*std::move(batch));
    return reply;
  }
  if (IsBusy()) return std::nullopt;
  PH_RETURN_IF_ERROR(held_too_large_);
  if (!flush_token_) return std::nullopt;
  v1::PackFlushed& flushed = *reply.message.mutable_flushed();
  flushed.set_token(*flush_token_);
  flushed.set_num_graphs(packer_->num_packed());
  flushed.set_num_batches(packer_->num_batches());
  flushed.set_num_rejected(packer_->num_rejected() + num_malformed_);
  flush_token_.reset();
  return reply;
}

bool PackHandler::IsWaiting() const {
  if (tuning_ != nullptr) return true;
  return drift_ != nullptr && drift_->is_searching() && (half_closed_ || drift_->has_change());
}

absl::Time PackHandler::NextDeadline() const {
  return packer_ == nullptr ? absl::InfiniteFuture() : packer_->NextDeadline();
}

}  // namespace packhouse
