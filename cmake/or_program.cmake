# or_program(name SOURCES ... LIBRARIES ...): a program that runs models, and its twin in tests/emulated/bin, whose GPU is the emulator of
# kernels/cuda: tests of the programs are pointed there by OUTRIDER_BIN.
function(or_program name)
  cmake_parse_arguments(P "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_library(${name}-objects OBJECT ${P_SOURCES})
  target_link_libraries(${name}-objects PUBLIC ${P_LIBRARIES} outrider_flags)

  add_executable(${name} $<TARGET_OBJECTS:${name}-objects>)
  target_link_libraries(${name} PRIVATE gpu ${P_LIBRARIES})

  add_executable(${name}-emulated $<TARGET_OBJECTS:${name}-objects>)
  target_link_libraries(${name}-emulated PRIVATE gpu_emulated ${P_LIBRARIES})
  set_target_properties(${name}-emulated PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/emulated/bin)

  if(OUTRIDER_NVCC)
    add_dependencies(cuda ${name})
  endif()
endfunction()
