// Every field of the contract is told and read by a test of this program that fills it (of all
// answers: told; of all requests: read), or it is in a list here with the test that has it or the
// reason why there is nothing to try. So a new field, message or method fails until it has its
// place. The fields are those that told_fields.h has noted, so the law is tried when all tests of
// the program have run. A test that is named has the field's word.
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "tests/wire/told_fields.h"

namespace packhouse {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;

struct Elsewhere {
  absl::string_view message;
  absl::string_view fields;  // Separated by spaces.
  absl::string_view where;
};

// Answers that a service makes of what it asks of others, without a conversion between.
constexpr Elsewhere kToldElsewhere[] = {
    {"AcknowledgeResponse", "cursor num_new", "tests/rpc/loader_service_test.cc"},
    {"AppendSourceGraphResponse", "producer_state", "tests/rpc/source_graph_service_test.cc"},
    {"ClusterMember", "address is_this", "tests/rpc/admin_service_test.cc"},
    {"DatasetDrift", "components first_graph found_graph num_changes",
     "tests/wire/append_handler_test.cc"},
    {"DatasetDrift.Component", "component mean reference_mean",
     "tests/wire/append_handler_test.cc"},
    {"DrainResponse", "was_draining", "tests/rpc/admin_service_test.cc"},
    {"EndOfEpoch", "num_pending num_steps", "tests/rpc/loader_service_test.cc"},
    {"EstimateSizesResponse", "bytes_per_graph histogram num_graphs num_seeds schema",
     "tests/rpc/sampling_service_test.cc"},
    {"ExportDatasetResponse", "examples first_graph graph_ids num_graphs tfgnn_schema",
     "tests/wire/wire_examples_test.cc"},
    {"GetDatasetResponse", "dataset drift histogram", "tests/rpc/dataset_service_test.cc"},
    {"GetHistogramResponse", "half_life histogram revision", "tests/rpc/unary_test.cc"},
    {"GetServerResponse",
     "files is_draining log_level members memory num_connections owned_jobs started version",
     "tests/rpc/admin_service_test.cc"},
    {"GetServerResponse", "quotas", "tests/end_to_end/admin_test.py"},
    {"Job", "owner", "tests/end_to_end/shared_jobs_test.py"},
    {"ListHistogramsResponse", "histograms", "tests/rpc/unary_test.cc"},
    {"ListJobsResponse", "jobs next_page_token", "tests/rpc/loader_service_test.cc"},
    {"ListModelsResponse", "models", "tests/rpc/call_log_test.cc"},
    {"ListPartitionsResponse", "partitions", "tests/rpc/partitioning_service_test.cc"},
    {"Lane", "refusal socket_path token", "tests/wire/lane_source_test.cc"},
    {"LoadOpened", "lane", "tests/wire/lane_source_test.cc"},
    {"LoadOpened", "num_steps_is_estimate", "tests/rpc/sampled_epoch_test.cc"},
    {"LoadResponse", "batch end_of_epoch opened", "tests/rpc/loader_service_test.cc"},
    {"LoadResponse", "redirect", "tests/wire/load_source_test.cc"},
    {"MemoryShare", "bound_bytes held_bytes name", "tests/rpc/admin_service_test.cc"},
    {"MergeHistogramResponse", "num_counted num_graphs", "tests/rpc/unary_test.cc"},
    {"PartitionDatasetResponse", "dataset num_graphs num_graphs_total",
     "tests/rpc/partitioning_service_test.cc"},
    {"PlanResponse", "best plan summaries", "tests/rpc/unary_test.cc"},
    {"ReadPartitionFileResponse", "data num_bytes", "tests/rpc/partitioning_service_test.cc"},
    {"ReadEdgesResponse", "columns", "tests/wire/read_requests_test.cc"},
    {"RebuildBatchesResponse", "batch opened words_of_epoch", "tests/rpc/sampled_epoch_test.cc"},
    {"Rejection", "message", "tests/wire/wire_examples_test.cc"},
    {"ReloadResponse", "files", "tests/rpc/admin_service_test.cc"},
    {"ReplanResponse", "dataset epoch job plan", "tests/rpc/loader_service_test.cc"},
    {"ReportResponse", "num_reports", "tests/rpc/call_log_test.cc"},
    {"ReportStepResponse", "cursor", "tests/rpc/loader_service_test.cc"},
    {"SampleDatasetResponse", "dataset num_drawn_smaller num_graphs num_graphs_total",
     "tests/rpc/sampling_service_test.cc"},
    {"SampleResponse", "drifted tuned", "as of PackResponse, from the same stream"},
    {"SealSourceGraphResponse", "graph work_done work_total",
     "tests/rpc/source_graph_service_test.cc"},
    {"SetLogLevelResponse", "before", "tests/rpc/admin_service_test.cc"},
    {"SizeTable", "first_id", "answers have all ids"},
    {"Tensor", "gap", "tests/wire/batch_reply_test.cc"},
    {"TakeSnapshotResponse",
     "folder is_done num_bytes num_files num_kept_bytes num_kept_files total_bytes",
     "tests/rpc/admin_service_test.cc"},
    {"TfgnnSchema", "binary text", "tests/wire/wire_examples_test.cc"},
    {"TuneResponse", "progress", "tests/rpc/tune_test.cc"},
};

constexpr absl::string_view kWhich = "what the call is about; without it nothing is found";

// Requests that a service reads by itself.
constexpr Elsewhere kReadElsewhere[] = {
    {"AcknowledgeRequest", "batches epoch generation job session",
     "tests/rpc/loader_service_test.cc"},
    {"BatchOrder", "shuffled", "tests/wire/epoch_words_test.cc"},
    {"CancelPartitionRequest", "graph name", kWhich},
    {"DeleteDatasetRequest", "name", kWhich},
    {"DeleteHistogramRequest", "histogram", kWhich},
    {"DeleteJobRequest", "job", kWhich},
    {"DeleteModelRequest", "device model", kWhich},
    {"DeletePartitionRequest", "graph name", kWhich},
    {"DeleteSourceGraphRequest", "name", kWhich},
    {"EpochSpec", "join_parts", "tests/rpc/partitioning_service_test.cc"},
    {"EstimateSizesRequest", "epoch histogram num_graphs seed seeds sub_graphs",
     "tests/rpc/sampling_service_test.cc"},
    {"ExportDatasetRequest", "first_graph name num_graphs",
     "tests/python/test_tfgnn_end_to_end.py"},
    {"ExportEpochRequest", "epoch first_graph num_graphs", "tests/python/test_tfgnn_end_to_end.py"},
    {"GetDatasetRequest", "include_histogram name", "tests/rpc/dataset_service_test.cc"},
    {"GetEpochRequest", "attempt company cursor dynamic epoch evaluation generation ranked",
     "tests/rpc/loader_service_test.cc"},
    {"GetHistogramRequest", "histogram", kWhich},
    {"GetJobRequest", "job", kWhich},
    {"GetModelRequest", "device model", kWhich},
    {"GetPartitionRequest", "graph name", kWhich},
    {"GetSourceGraphRequest", "name", kWhich},
    {"Histogram", "component_maxima component_totals num_graphs", "they follow from the others"},
    {"ListDatasetsRequest", "page_size page_token", "tests/rpc/dataset_service_test.cc"},
    {"ListJobsRequest", "page_size page_token", "tests/rpc/loader_service_test.cc"},
    {"ListPartitionsRequest", "graph", kWhich},
    {"ListSourceGraphsRequest", "page_size page_token", "tests/rpc/source_graph_service_test.cc"},
    {"LoadRequest", "lane", "tests/end_to_end/lane_test.py"},
    {"LookupNodesRequest", "graph", kWhich},
    {"MergeHistogramRequest", "addend half_life histogram producer_sequence subtract",
     "tests/rpc/unary_test.cc"},
    {"Mixing", "off", "tests/wire/epoch_words_test.cc"},
    {"MoveJobRequest", "address job", "tests/end_to_end/shared_jobs_test.py"},
    {"PackRequest", "open", kWhich},
    {"PackRequest", "slot_graphs", "tests/wire/pack_lane_test.cc"},
    {"PartitionDatasetRequest", "dataset graph halo ids max_bytes partition without_features",
     "tests/rpc/partitioning_service_test.cc"},
    {"PartitionRequest", "graph", kWhich},
    {"PlanRequest", "histogram histogram_name", "tests/rpc/unary_test.cc"},
    {"PlanRequest", "summaries_only", "tests/rpc/plan_test.cc"},
    {"RankGroup", "device_profile", "as of TuneRequest, by the same conversion"},
    {"ReadEdgesRequest", "graph", kWhich},
    {"ReadPartitionFileRequest", "graph max_bytes name offset path",
     "tests/rpc/partitioning_service_test.cc"},
    {"RebuildBatchesRequest", "epoch job numbers", "tests/rpc/sampled_epoch_test.cc"},
    {"RebuildBatchesRequest", "words", "tests/python/test_loader_end_to_end.py"},
    {"ReplanRequest", "dataset", "tests/python/test_loader_end_to_end.py"},
    {"ReplanRequest", "histogram histogram_name receipt summaries_only warm_start",
     "tests/rpc/plan_test.cc"},
    {"ReportRequest", "job rank_group", "only the log has them"},
    {"ReportStepRequest", "epoch generation job steps", "tests/rpc/loader_service_test.cc"},
    {"SampleDatasetRequest", "beyond_limits dataset epoch max_bytes max_rows seed seeds sub_graphs",
     "tests/rpc/sampling_service_test.cc"},
    {"SealDatasetRequest", "name", kWhich},
    {"SealSourceGraphRequest", "duplicates name", "tests/rpc/source_graph_service_test.cc"},
    {"Seeds", "times", "tests/python/test_sampling_end_to_end.py"},
    {"SetLogLevelRequest", "level", "tests/end_to_end/admin_test.py"},
    {"SlotGraphs", "sizes slot", "tests/wire/pack_lane_test.cc"},
    {"TakeSnapshotRequest", "name", "tests/end_to_end/admin_test.py"},
    {"TuneRequest", "histogram histogram_name", "tests/rpc/tune_test.cc"},
    {"VerifyDatasetRequest", "name", kWhich},
    {"VerifySourceGraphRequest", "name", kWhich},
};

void AddFields(const Descriptor& type, std::set<std::string>& fields) {
  for (int f = 0; f < type.field_count(); ++f) {
    if (!fields.insert(type.field(f)->full_name()).second) continue;
    if (type.field(f)->message_type() != nullptr) AddFields(*type.field(f)->message_type(), fields);
  }
}

// All of the services' answers or requests, with what is within.
std::set<std::string> FieldsOf(bool answers) {
  std::set<std::string> fields;
  for (const char* const name :
       {"admin", "dataset", "feedback", "histogram", "loader", "packing", "partitioning",
        "planning", "receipts", "sampling", "source_graph"}) {
    const FileDescriptor* const file = DescriptorPool::generated_pool()->FindFileByName(
        absl::StrCat("packhouse/v1/", name, ".proto"));
    EXPECT_NE(file, nullptr) << name;
    for (int s = 0; file != nullptr && s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        const auto& method = *file->service(s)->method(m);
        AddFields(answers ? *method.output_type() : *method.input_type(), fields);
      }
    }
  }
  return fields;
}

// Whether a test has a field's name, by itself or as an accessor.
bool HasName(absl::string_view text, absl::string_view field) {
  const auto is_in_word = [](char c) { return absl::ascii_isalnum(c) || c == '_'; };
  for (size_t at = text.find(field); at != absl::string_view::npos; at = text.find(field, at + 1)) {
    absl::string_view before = text.substr(0, at);
    for (const char* const verb : {"set_", "mutable_", "has_", "add_"}) {
      if (absl::ConsumeSuffix(&before, verb)) break;
    }
    absl::string_view after = text.substr(at + field.size());
    absl::ConsumePrefix(&after, "_size");
    if ((before.empty() || !is_in_word(before.back())) &&
        (after.empty() || !is_in_word(after.front()))) {
      return true;
    }
  }
  return false;
}

// Fields whose test, if the list names one, does not have their names.
template <size_t kSize>
std::vector<std::string> Unnamed(const Elsewhere (&list)[kSize]) {
  std::vector<std::string> wrong;
  for (const Elsewhere& row : list) {
    if (!absl::StartsWith(row.where, "tests/")) continue;
    std::ifstream file(absl::StrCat(PACKHOUSE_SOURCE, "/", row.where));
    const std::string text(std::istreambuf_iterator<char>(file), {});
    for (const absl::string_view field : absl::StrSplit(row.fields, ' ')) {
      if (!HasName(text, field)) {
        wrong.push_back(absl::StrCat(row.message, ".", field, ": not in ", row.where));
      }
    }
  }
  return wrong;
}

// What is wrong, a line each.
template <size_t kSize>
std::vector<std::string> Wrong(absl::string_view what, const std::set<std::string>& fields,
                               const std::set<std::string>& seen, const Elsewhere (&list)[kSize]) {
  std::map<std::string, absl::string_view> elsewhere;
  for (const Elsewhere& row : list) {
    for (const absl::string_view field : absl::StrSplit(row.fields, ' ')) {
      elsewhere[absl::StrCat("packhouse.v1.", row.message, ".", field)] = row.where;
    }
  }
  std::vector<std::string> wrong;
  for (const std::string& field : fields) {
    if (!seen.contains(field) && !elsewhere.contains(field)) {
      wrong.push_back(absl::StrCat(field, " is not ", what, " by any test of wire_test"));
    }
  }
  for (const auto& [field, where] : elsewhere) {
    if (!fields.contains(field)) wrong.push_back(absl::StrCat(field, " is in the list only"));
    if (seen.contains(field)) {
      wrong.push_back(absl::StrCat(field, " is ", what, " here: it need not be in the list"));
    }
  }
  return wrong;
}

TEST(ToldMessagesTest, WhatIsForgottenIsNamed) {
  constexpr Elsewhere kList[] = {{"A", "x gone", "somewhere"}};
  EXPECT_EQ(Wrong("told", {"packhouse.v1.A.x", "packhouse.v1.A.new", "packhouse.v1.A.told"},
                  {"packhouse.v1.A.told"}, kList),
            (std::vector<std::string>{"packhouse.v1.A.new is not told by any test of wire_test",
                                      "packhouse.v1.A.gone is in the list only"}));
  EXPECT_EQ(Wrong("read", {"packhouse.v1.A.x", "packhouse.v1.A.gone"}, {"packhouse.v1.A.x"}, kList),
            std::vector<std::string>{"packhouse.v1.A.x is read here: it need not be in the list"});
}

TEST(ToldMessagesTest, WhatIsInTheListHasATest) {
  EXPECT_THAT(Unnamed(kToldElsewhere), testing::IsEmpty());
  EXPECT_THAT(Unnamed(kReadElsewhere), testing::IsEmpty());
  constexpr Elsewhere kList[] = {{"A", "UnsetFields gone", "tests/wire/told_fields.h"},
                                 {"B", "x", "tests/none.cc"}};
  EXPECT_THAT(Unnamed(kList), testing::ElementsAre("A.gone: not in tests/wire/told_fields.h",
                                                   "B.x: not in tests/none.cc"));
}

class EveryField final : public testing::Environment {
 public:
  void TearDown() override {
    const testing::UnitTest& all = *testing::UnitTest::GetInstance();
    // Some alone do not see all.
    if (all.test_to_run_count() != all.total_test_count()) return;
    for (const std::string& each :
         Wrong("told", FieldsOf(/*answers=*/true), Seen().told, kToldElsewhere)) {
      ADD_FAILURE() << each;
    }
    for (const std::string& each :
         Wrong("read", FieldsOf(/*answers=*/false), Seen().read, kReadElsewhere)) {
      ADD_FAILURE() << each;
    }
  }
};
const testing::Environment* const every_field = testing::AddGlobalTestEnvironment(new EveryField());

}  // namespace
}  // namespace packhouse
