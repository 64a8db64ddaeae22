// The output of `packhouse graph list|show|seal|verify`.
//
// Pure functions of the server's answers; texts end in a newline unless they are parts of a line.
#ifndef PACKHOUSE_CLIENT_CLI_SOURCE_GRAPHS_SOURCE_GRAPH_REPORT_H_
#define PACKHOUSE_CLIENT_CLI_SOURCE_GRAPHS_SOURCE_GRAPH_REPORT_H_

#include <string>
#include <vector>

#include "packhouse/v1/source_graph.pb.h"
#include "service/command_line/json.h"

namespace packhouse::client {

// `1,940 nodes, 21,111 edges, 1.2 MiB`: a part of a line. The edges of a reversed edge set are
// those of another one and do not count.
std::string SourceGraphSizeText(const v1::SourceGraph& graph);

// Name, state and size.
std::string SourceGraphLine(const v1::SourceGraph& graph);

// Name, state, nodes, edges, bytes, version: one row each.
std::string SourceGraphTable(const std::vector<v1::SourceGraph>& graphs);

// Everything about one graph.
std::string SourceGraphText(const v1::SourceGraph& graph);

// As a JSON object. A version is a text: JSON's numbers do not hold 64 bits. A damaged graph has
// its name and state only.
Json SourceGraphJson(const v1::SourceGraph& graph);

// The findings of a verification.
std::string SourceGraphVerifyText(const std::string& name,
                                  const v1::VerifySourceGraphResponse& response);
Json SourceGraphVerifyJson(const std::string& name, const v1::VerifySourceGraphResponse& response);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_SOURCE_GRAPHS_SOURCE_GRAPH_REPORT_H_
