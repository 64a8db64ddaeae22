# Headers of the standard library, Abseil, gRPC and GoogleTest, compiled once a build instead of in
# each file. A source includes what it uses all the same: `make lint` and builds through ccache, which
# cannot keep what depends on compiled headers, compile without them.
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache")
  set(precompiled OFF)
else()
  set(precompiled ON)
endif()
option(PACKHOUSE_PRECOMPILED_HEADERS "Compile the headers of libraries once" ${precompiled})

set(PACKHOUSE_DOMAIN_HEADERS
    <algorithm> <array> <atomic> <cstdint> <cstring> <deque> <functional> <limits> <map> <memory>
    <optional> <set> <string> <thread> <tuple> <utility> <variant> <vector>
    <absl/container/btree_map.h> <absl/container/flat_hash_map.h>
    <absl/container/flat_hash_set.h> <absl/container/inlined_vector.h>
    <absl/functional/function_ref.h> <absl/status/status.h> <absl/status/statusor.h>
    <absl/strings/str_cat.h> <absl/strings/str_format.h> <absl/strings/str_join.h>
    <absl/strings/string_view.h> <absl/synchronization/mutex.h> <absl/time/time.h>
    <absl/types/span.h>)

# packhouse_headers(name [OPTIONS option ...] HEADERS <header> ... DEPENDS library ...): compiles the
# headers for targets whose options are the same.
function(packhouse_headers name)
  cmake_parse_arguments(HEADERS "" "" "OPTIONS;HEADERS;DEPENDS" ${ARGN})
  if(NOT PACKHOUSE_PRECOMPILED_HEADERS)
    return()
  endif()
  file(CONFIGURE OUTPUT ${name}.cc CONTENT "")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc)
  target_compile_options(${name} PRIVATE ${HEADERS_OPTIONS})
  target_link_libraries(${name} PRIVATE ${HEADERS_DEPENDS} packhouse_flags)
  target_precompile_headers(${name} PRIVATE ${HEADERS_HEADERS})
endfunction()

# packhouse_use_headers(target name)
function(packhouse_use_headers target name)
  if(PACKHOUSE_PRECOMPILED_HEADERS)
    target_precompile_headers(${target} REUSE_FROM ${name})
  endif()
endfunction()

packhouse_headers(
  packhouse_domain_headers
  HEADERS ${PACKHOUSE_DOMAIN_HEADERS}
  DEPENDS absl::btree absl::flat_hash_map absl::flat_hash_set absl::function_ref
          absl::inlined_vector absl::span absl::statusor absl::str_format absl::synchronization)
