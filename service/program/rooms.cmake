packhouse_room(ledger_lmdb
  FOLDER program/data_folder
  SOURCES lmdb_log_repair.cc stores/logs/lmdb_job_logs.cc
  DEPENDS packhouse_ledger packhouse_datasets_lmdb packhouse_keys_logged)

packhouse_room(data_folder QUICK
  FOLDER program/data_folder
  SOURCES stores/limits/data_folder.cc folder_contents.cc maintenance.cc restore.cc snapshot.cc
          snapshot_manifest.cc snapshot_writer.cc value_file.cc
  DEPENDS packhouse_feedback packhouse_histograms packhouse_ledger_lmdb packhouse_security)


if(PACKHOUSE_WITH_GRPC)
  # Of packhoused: what works on the disk without a server, and on a server that runs, as its client.
  packhouse_room(program_commands QUICK
    FOLDER program/commands
    HEADERS packhouse_grpc_headers
    SOURCES admin_command.cc commands.cc policy_command.cc store_command.cc
    DEPENDS packhouse_client_command packhouse_command_line packhouse_data_folder packhouse_security)

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

  add_dependencies(packhouse_generated packhouse_commit)

  # All of packhoused but the table of its wings.
  packhouse_room(program QUICK
    FOLDER program
    HEADERS packhouse_grpc_headers
    SOURCES background_work.cc byte_flag.cc configuration.cc flag_checks.cc folder_stores.cc http_port.cc
            journal_files.cc main.cc options.cc process.cc
            served_stores.cc server_readings.cc server_security.cc signals.cc spdlog_log.cc
            wing.cc ${commit_file}
    DEPENDS packhouse_rpc packhouse_feedback packhouse_security packhouse_http packhouse_metrics
            packhouse_data_folder packhouse_program_commands packhouse_command_line
            packhouse_datasets_lmdb packhouse_ledger_lmdb CLI11::CLI11 spdlog::spdlog)
  # So that a test takes the rest without it.
  set_source_files_properties(program/main.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  add_dependencies(packhouse_program packhouse_commit packhouse-contract-check)
  target_include_directories(packhouse_program PUBLIC ${PROJECT_BINARY_DIR}/generated)

  # packhouse_server_program(name [wing ...]): a packhoused with these wings.
  function(packhouse_server_program name)
    set(table ${PROJECT_BINARY_DIR}/generated/wings/${name}.cc)
    packhouse_wings_table(${table} ${ARGN})
    add_executable(${name} ${table})
    packhouse_use_headers(${name} packhouse_grpc_headers)
    packhouse_compile_quickly(${name})
    target_link_libraries(${name} PRIVATE packhouse_flags)
    foreach(wing IN LISTS ARGN)
      if(TARGET packhouse_${wing}_wing)
        target_link_libraries(${name} PRIVATE packhouse_${wing}_wing)
      endif()
    endforeach()
    target_link_libraries(${name} PRIVATE packhouse_program)
  endfunction()
  packhouse_server_program(packhoused ${built_wings})

  install(TARGETS packhoused)

  # The image is built without that folder.
  if(NOT PACKHOUSE_SANITIZE AND EXISTS ${PROJECT_SOURCE_DIR}/deploy/wheel)
    add_subdirectory(${PROJECT_SOURCE_DIR}/deploy/wheel ${PROJECT_BINARY_DIR}/deploy/wheel)
  endif()
endif()
