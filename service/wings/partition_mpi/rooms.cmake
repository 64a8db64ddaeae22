# A graph that lies on several ranks: pure, ranks are an interface.
packhouse_room(partitioning_distributed
  FOLDER wings/partition_mpi/shares
  SOURCES ghost_nodes.cc graph_share.cc node_needs.cc part_gatherer.cc ranks.cc share_assignment.cc
          share_refiner.cc share_repair.cc shared_ids.cc symmetric_share.cc
  DEPENDS packhouse_partitioning)

packhouse_room(partition_jobs_distributed
  FOLDER wings/partition_mpi/runs
  SOURCES chunked_edge_reader.cc chunked_input.cc distributed_run.cc feature_shuffle.cc
          gathered_tables.cc own_classes.cc run_folder.cc spooled_rows.cc
  DEPENDS packhouse_partition_jobs packhouse_partitioning_distributed)


if(PACKHOUSE_WITH_GRPC)
  # packhouse-partition, for mpirun. It is built where the packages of the section `partition` are: the
  # server and the command line do without MPI. Debian's PT-Scotch has a variant with numbers of 64
  # bits in a folder of its own, whose libraries have the names of the others.
  find_package(MPI COMPONENTS CXX QUIET)
  find_path(PTSCOTCH_INCLUDE_DIR ptscotch.h PATHS /usr/include/scotch-int64 NO_DEFAULT_PATH)
  foreach(library ptscotch scotch ptscotcherr)
    find_library(PTSCOTCH_${library} ${library} NO_DEFAULT_PATH
                 PATHS /usr/lib/${CMAKE_CXX_LIBRARY_ARCHITECTURE}/scotch-int64)
  endforeach()

  if(MPI_CXX_FOUND AND PTSCOTCH_INCLUDE_DIR AND PTSCOTCH_ptscotch)
    packhouse_room(partition_mpi
      FOLDER wings/partition_mpi
      SOURCES mpi_ranks.cc scotch_engine.cc
      DEPENDS packhouse_partition_jobs_distributed MPI::MPI_CXX ${PTSCOTCH_ptscotch} ${PTSCOTCH_scotch}
              ${PTSCOTCH_ptscotcherr})
    target_compile_definitions(packhouse_partition_mpi PUBLIC OMPI_SKIP_MPICXX)
    target_include_directories(packhouse_partition_mpi SYSTEM PRIVATE ${PTSCOTCH_INCLUDE_DIR})
    add_executable(packhouse-partition wings/partition_mpi/main.cc)
    target_link_libraries(packhouse-partition PRIVATE packhouse_flags packhouse_partition_mpi
                                                      CLI11::CLI11)
    get_filename_component(ptscotch_folder ${PTSCOTCH_ptscotch} DIRECTORY)
    set_target_properties(packhouse-partition PROPERTIES BUILD_RPATH ${ptscotch_folder}
                                                         INSTALL_RPATH ${ptscotch_folder})
    install(TARGETS packhouse-partition)
  else()
    message(STATUS "No MPI or no PT-Scotch: packhouse-partition is not built")
  endif()
endif()
