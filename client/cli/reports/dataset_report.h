// The output of `packhouse datasets`.
//
// Pure functions of the server's answers; texts end in a newline unless they are parts of a line.
#ifndef PACKHOUSE_CLIENT_CLI_REPORTS_DATASET_REPORT_H_
#define PACKHOUSE_CLIENT_CLI_REPORTS_DATASET_REPORT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "packhouse/v1/dataset.pb.h"
#include "service/command_line/json.h"

namespace packhouse::client {

// `x: int16 [9] of nodes`, `senders: int32 of edges, into nodes`: everything about a tensor.
std::string TensorText(const v1::TensorSpec& spec);

// `open`, `sealed`, `damaged`.
std::string StateText(v1::DatasetState state);

// Name, state, graphs, bytes, version: one row each.
std::string DatasetTable(const std::vector<v1::Dataset>& datasets);

// Everything about one data set: state, bounds, schema, the histogram in sum.
//
// Errors: INTERNAL if the histogram lacks what the server should have filled in.
absl::StatusOr<std::string> DatasetText(const v1::GetDatasetResponse& response);

// As JSON objects. A version is a text: JSON's numbers do not hold 64 bits.
Json DatasetJson(const v1::Dataset& dataset);
Json DatasetJson(const v1::GetDatasetResponse& response);

// One line for a terminal, without its newline: the progress of a verification.
std::string VerifyProgressLine(const v1::VerifyDatasetResponse& response);

// Whether no damage was found.
bool IsUndamaged(const v1::VerifyDatasetResponse& response);

// The findings of a verification.
std::string VerifyText(const std::string& name, const v1::VerifyDatasetResponse& response);
Json VerifyJson(const std::string& name, const v1::VerifyDatasetResponse& response);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_REPORTS_DATASET_REPORT_H_
