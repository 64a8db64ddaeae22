# Apart, for its tests under ThreadSanitizer.
packhouse_room(page_jobs QUICK
  FOLDER wings/page
  SOURCES page_jobs.cc
  DEPENDS packhouse_admission protobuf::libprotobuf)

packhouse_room(page QUICK
  FOLDER wings/page
  SOURCES data_json.cc epoch_json.cc heat_map.cc history.cc json.cc next_fit.cc page_answers.cc
          page_api.cc page_query.cc plan_json.cc server_reading.cc
  DEPENDS packhouse_page_jobs packhouse_wire nlohmann_json::nlohmann_json)

if(PACKHOUSE_WITH_GRPC)
  # The page: its TypeScript in one script, with what it uses of D3, and all files as C++. Takes less
  # than a second.
  find_program(PACKHOUSE_ESBUILD esbuild REQUIRED)
  set(PACKHOUSE_NODE_PATH /usr/share/nodejs CACHE PATH "Debian's JavaScript packages")

  set(web ${CMAKE_CURRENT_SOURCE_DIR}/wings/page/web)

  set(page ${PROJECT_BINARY_DIR}/generated/page)

  file(GLOB page_sources CONFIGURE_DEPENDS ${web}/*)

  add_custom_command(
    OUTPUT ${page}/page.js
    COMMAND ${CMAKE_COMMAND} -E env NODE_PATH=${PACKHOUSE_NODE_PATH} ${PACKHOUSE_ESBUILD}
            ${web}/main.ts --bundle --minify --charset=utf8 --target=es2020 --log-level=warning
            --outfile=${page}/page.js
    DEPENDS ${page_sources} VERBATIM)

  add_custom_command(
    OUTPUT ${page}/page_files.cc
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${page}/page_files.cc -DFOLDER=${web} -DSCRIPT=${page}/page.js
            -P ${CMAKE_CURRENT_SOURCE_DIR}/wings/page/page_files.cmake
    DEPENDS ${page}/page.js ${page_sources} wings/page/page_files.cmake VERBATIM)

  add_custom_target(packhouse_page_files DEPENDS ${page}/page_files.cc)

  add_dependencies(packhouse_generated packhouse_page_files)

  # What packhoused has of it.
  packhouse_room(page_wing QUICK
    FOLDER program/wings
    HEADERS packhouse_grpc_headers
    SOURCES page.cc ${page}/page_files.cc
    DEPENDS packhouse_page packhouse_program)
endif()
