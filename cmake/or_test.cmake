# or_test(name SOURCES ... LIBRARIES ... [LABELS ...] [TIMEOUT s]): a cmocka program and its CTest entry, named as the target.
# Tests run from the source folder; OUTRIDER_TEST_DATA and OUTRIDER_BIN tell them where things are.
function(or_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "SOURCES;LIBRARIES;LABELS" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  add_executable(${name} ${T_SOURCES})
  target_link_libraries(${name} PRIVATE ${T_LIBRARIES} outrider_flags PkgConfig::CMOCKA)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${T_TIMEOUT} LABELS "${T_LABELS}" SKIP_RETURN_CODE 77
    ENVIRONMENT "OUTRIDER_BIN=${CMAKE_BINARY_DIR}/bin")
endfunction()
