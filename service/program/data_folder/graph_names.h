// What a restore knows of a folder of source graphs: a sealed graph has a file kSealedGraphFile,
// and a folder kGraphCompanions, which may be empty.
#ifndef PACKHOUSE_SERVICE_PROGRAM_DATA_FOLDER_GRAPH_NAMES_H_
#define PACKHOUSE_SERVICE_PROGRAM_DATA_FOLDER_GRAPH_NAMES_H_

namespace packhouse {

inline constexpr char kSealedGraphFile[] = "manifest";
inline constexpr char kGraphCompanions[] = "companion";

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_DATA_FOLDER_GRAPH_NAMES_H_
