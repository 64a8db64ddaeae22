// The source graphs of a data folder, as commands and snapshots have them.
#ifndef PACKHOUSE_SERVICE_PROGRAM_WINGS_GRAPHS_IN_FOLDER_H_
#define PACKHOUSE_SERVICE_PROGRAM_WINGS_GRAPHS_IN_FOLDER_H_

#include <memory>

#include "service/program/data_folder/graph_folder.h"
#include "service/wings/graphs/stored/file_source_graph_store.h"

namespace packhouse {

OpenedGraphs OpenedGraphsIn(std::shared_ptr<const FileSourceGraphStore> store);

// What is kept beside a graph is checked by `companions`; without such a check, standard error says
// that it is not checked.
GraphFolder GraphsInFolder(const CompanionChecks& companions);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_WINGS_GRAPHS_IN_FOLDER_H_
