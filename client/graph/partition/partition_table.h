// What a partition came to: a table of its parts and a picture, for terminals.
#ifndef PACKHOUSE_CLIENT_GRAPH_PARTITION_PARTITION_TABLE_H_
#define PACKHOUSE_CLIENT_GRAPH_PARTITION_PARTITION_TABLE_H_

#include <string>

#include "service/wings/partition/jobs/partition_report.h"

namespace packhouse::client {

// Why this method; a row for each part with its sizes, its cut and how its nodes and edges compare
// with the mean; the balance that was asked for and reached; notes. Of more than 64 parts, the
// table has the 32 with most and the 32 with fewest inner edges.
std::string PartitionTable(const PartitionReport& report);

// A bar for each part (of the same ones): inner nodes `#`, halo nodes `.`, to one scale; and one of
// its in-edges: inside `=`, from other parts `x`.
std::string PartitionPicture(const PartitionReport& report);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_PARTITION_PARTITION_TABLE_H_
