// Where files are mapped in this process, as the kernel tells it.
#ifndef PACKHOUSE_SERVICE_DATASETS_LMDB_FILE_MAPS_H_
#define PACKHOUSE_SERVICE_DATASETS_LMDB_FILE_MAPS_H_

#include <cstddef>
#include <string>
#include <vector>

namespace packhouse {

struct MappedFile {
  const void* begin;
  size_t bytes;
};

// Of the file with this name, by its number or its name: where one file system lies over another,
// either may be another than the map's. Reads /proc/self/maps; empty if it cannot.
std::vector<MappedFile> FindMaps(const std::string& path);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DATASETS_LMDB_FILE_MAPS_H_
