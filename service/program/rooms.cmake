packhouse_room(ledger_lmdb
  FOLDER program/data_folder
  SOURCES lmdb_log_repair.cc stores/logs/lmdb_job_logs.cc
  DEPENDS packhouse_ledger packhouse_datasets_lmdb)

packhouse_room(data_folder QUICK
  FOLDER program/data_folder
  SOURCES stores/limits/data_folder.cc folder_contents.cc maintenance.cc restore.cc snapshot.cc
          snapshot_manifest.cc snapshot_writer.cc value_file.cc
  DEPENDS packhouse_feedback packhouse_ledger_lmdb packhouse_partition_jobs packhouse_security
          packhouse_source_graphs_stored)


if(PACKHOUSE_WITH_GRPC)
  # Of packhoused: what works on the disk without a server, and on a server that runs, as its client.
  packhouse_room(program_commands QUICK
    FOLDER program/commands
    HEADERS packhouse_grpc_headers
    SOURCES admin_command.cc admin_report.cc commands.cc copy_command.cc policy_command.cc store_command.cc
    DEPENDS packhouse_client_command packhouse_command_line packhouse_data_folder packhouse_security packhouse_shared_datasets)

  configure_file(program/version.h.in ${PROJECT_BINARY_DIR}/generated/service/program/version.h @ONLY)

  # The commit is asked for at each build; the file changes only if the commit does.
  set(PACKHOUSE_COMMIT "" CACHE STRING "Commit of the sources; empty: git is asked at each build")

  set(commit_file ${PROJECT_BINARY_DIR}/generated/service/program/commit.cc)

  add_custom_target(packhouse_commit
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${PROJECT_SOURCE_DIR} -DCOMMIT=${PACKHOUSE_COMMIT}
            -DOUTPUT=${commit_file} -P ${CMAKE_CURRENT_SOURCE_DIR}/program/commit.cmake
    BYPRODUCTS ${commit_file}
    VERBATIM)

  set_source_files_properties(${commit_file} PROPERTIES GENERATED ON SKIP_PRECOMPILE_HEADERS ON
                              SKIP_UNITY_BUILD_INCLUSION ON)

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
            -P ${CMAKE_CURRENT_SOURCE_DIR}/program/page_files.cmake
    DEPENDS ${page}/page.js ${page_sources} program/page_files.cmake VERBATIM)

  add_custom_target(packhouse_page_files DEPENDS ${page}/page_files.cc)

  add_dependencies(packhouse_generated packhouse_commit packhouse_page_files)

  add_executable(packhoused program/background_work.cc program/byte_flag.cc program/configuration.cc program/folder_stores.cc program/http_port.cc
                            program/journal_files.cc program/main.cc program/membership.cc program/options.cc program/page_routes.cc program/process.cc
                            program/served_stores.cc program/server_readings.cc program/server_security.cc program/signals.cc program/spdlog_log.cc
                            program/store_options.cc ${commit_file} ${page}/page_files.cc)

  add_dependencies(packhoused packhouse_commit)

  target_include_directories(packhoused PRIVATE ${PROJECT_BINARY_DIR}/generated)

  packhouse_use_headers(packhoused packhouse_grpc_headers)

  packhouse_compile_quickly(packhoused)

  target_link_libraries(packhoused PRIVATE packhouse_flags packhouse_rpc packhouse_feedback_shared packhouse_security packhouse_http
                                           packhouse_metrics packhouse_data_folder packhouse_program_commands
                                           packhouse_datasets_lmdb packhouse_ledger_lmdb
                                           packhouse_ledger_etcd packhouse_cluster_etcd
                                           packhouse_source_graphs_stored
                                           packhouse_partitioning_engines packhouse_shared_datasets
                                           CLI11::CLI11 spdlog::spdlog)

  install(TARGETS packhoused)

  # The image is built without that folder.
  if(NOT PACKHOUSE_SANITIZE AND EXISTS ${PROJECT_SOURCE_DIR}/deploy/wheel)
    add_subdirectory(${PROJECT_SOURCE_DIR}/deploy/wheel ${PROJECT_BINARY_DIR}/deploy/wheel)
  endif()
endif()
