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

# or_python_test(name TESTS module ... [FOLDER f] [PYTHON p] [LABELS ...] [TIMEOUT s] [SERIAL] [ENVIRONMENT ...]): unittest modules, or single
# tests of them, of a folder (default: the CMakeLists.txt's). SERIAL: nothing else runs meanwhile. If every test was skipped CTest says so.
function(or_python_test name)
  cmake_parse_arguments(T "SERIAL" "TIMEOUT;FOLDER;PYTHON" "TESTS;LABELS;ENVIRONMENT" ${ARGN})
  foreach(default "TIMEOUT=120" "FOLDER=${CMAKE_CURRENT_SOURCE_DIR}" "PYTHON=${Python3_EXECUTABLE}")
    string(REGEX MATCH "^([A-Z]+)=(.*)$" _ "${default}")
    if(NOT T_${CMAKE_MATCH_1})
      set(T_${CMAKE_MATCH_1} "${CMAKE_MATCH_2}")
    endif()
  endforeach()
  math(EXPR seconds "${T_TIMEOUT} - 5") # it says where it was before CTest kills it
  add_test(NAME ${name} COMMAND ${T_PYTHON} -B ${PROJECT_SOURCE_DIR}/tests/support/run_unittest.py ${seconds} ${T_TESTS} WORKING_DIRECTORY ${T_FOLDER})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${T_TIMEOUT} LABELS "${T_LABELS}" SKIP_RETURN_CODE 77 RUN_SERIAL ${T_SERIAL}
    ENVIRONMENT "OUTRIDER_BIN=${CMAKE_BINARY_DIR}/bin;${T_ENVIRONMENT}")
endfunction()
