// The files of the page, embedded when the server is built (page_files.cmake).
#ifndef PACKHOUSE_SERVICE_WINGS_PAGE_PAGE_FILES_H_
#define PACKHOUSE_SERVICE_WINGS_PAGE_PAGE_FILES_H_

#include <cstddef>

#include "absl/types/span.h"

namespace packhouse {

struct StaticFile {
  const char* path;  // "/page.css"
  const char* type;  // "text/css; charset=utf-8"
  const unsigned char* bytes;
  size_t size;
};

absl::Span<const StaticFile> PageFiles();

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PAGE_PAGE_FILES_H_
