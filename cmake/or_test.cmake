# Seconds that the longest tests of the gate take on two cores. CTest begins with them, so that none is left over at the end while a core idles.
set(or_long_tests cli_trouble=55 model_bits_test=40 methods_text_test=39 service_security=35 http_dashboard=34 families_bits_test=33 service_soak=32
  service_wire=29 text_across_test=27 cli_generate=26 cli_status=26 text_is_plain_test=25 cli_chat=22 convert_refusals=21 cli_demo=21 service_journal=20
  http_bounds=20 vocab_enumeration_test=19 orderings_test=19 failover_test=18)

# Tests that run whole models, or whole trees, on an emulated GPU, and take long: the gate has the other emulated tests (launch/test.sh).
set(or_twins accept_device_emulated_test builder_contenders_emulated_test builder_growth_emulated_test families_windows_emulated_test
  model_contenders_emulated_test model_emulated_test model_growth_emulated_test model_layers_emulated_test model_ranks_emulated_test model_tensor_emulated_test rejection_emulated_test tensor_emulated_test)

# or_test_place(name): tell CTest how long it takes, and label it `twin` where it is one.
function(or_test_place name)
  if(name IN_LIST or_twins)
    set_property(TEST ${name} APPEND PROPERTY LABELS twin)
  endif()
  foreach(entry ${or_long_tests})
    if(entry MATCHES "^${name}=([0-9]+)$")
      set_tests_properties(${name} PROPERTIES COST ${CMAKE_MATCH_1})
    endif()
  endforeach()
endfunction()

# or_test(name SOURCES ... LIBRARIES ... [LABELS ...] [TIMEOUT s] [WHOLE]): a cmocka program and its CTest entry, named as the target.
# WHOLE: it takes a share of its cases (test_share), and NAME with _whole in place of _test, label `rest`, takes all.
# Tests run from the source folder; OUTRIDER_TEST_DATA and OUTRIDER_BIN tell them where things are.
function(or_test name)
  cmake_parse_arguments(T "WHOLE" "TIMEOUT" "SOURCES;LIBRARIES;LABELS" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  if(OUTRIDER_SANITIZE) # emulated kernels take more than ten times as long then, on machines of which we know nothing
    math(EXPR T_TIMEOUT "4 * ${T_TIMEOUT}")
  endif()
  add_executable(${name} ${T_SOURCES})
  target_link_libraries(${name} PRIVATE ${T_LIBRARIES} outrider_flags PkgConfig::CMOCKA)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  set(parts ${name})
  if(T_WHOLE)
    string(REGEX REPLACE "_test$" "_whole" whole ${name})
    list(APPEND parts ${whole})
  endif()
  foreach(part ${parts})
    add_test(NAME ${part} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(${part} PROPERTIES TIMEOUT ${T_TIMEOUT} LABELS "${T_LABELS}" SKIP_RETURN_CODE 77
      ENVIRONMENT "OUTRIDER_BIN=${CMAKE_BINARY_DIR}/bin")
  endforeach()
  if(T_WHOLE)
    set_property(TEST ${whole} PROPERTY LABELS rest)
    set_property(TEST ${whole} APPEND PROPERTY ENVIRONMENT "OR_TEST_WHOLE=1")
  endif()
  or_test_place(${name})
endfunction()

# or_python_test(name TESTS module ... [FOLDER f] [PYTHON p] [LABELS ...] [TIMEOUT s] [SERIAL] [WHOLE] [ENVIRONMENT ...]): unittest modules, or
# single tests of them, of a folder (default: the CMakeLists.txt's). SERIAL: nothing else runs meanwhile. If every test was skipped CTest says so.
# WHOLE: some are marked as of the rest, or are a share (tests/cli/cli.py), and NAME_whole, label `rest`, has all, as whatever has the label has.
function(or_python_test name)
  cmake_parse_arguments(T "SERIAL;WHOLE" "TIMEOUT;FOLDER;PYTHON" "TESTS;LABELS;ENVIRONMENT" ${ARGN})
  foreach(default "TIMEOUT=120" "FOLDER=${CMAKE_CURRENT_SOURCE_DIR}" "PYTHON=${Python3_EXECUTABLE}")
    string(REGEX MATCH "^([A-Z]+)=(.*)$" _ "${default}")
    if(NOT T_${CMAKE_MATCH_1})
      set(T_${CMAKE_MATCH_1} "${CMAKE_MATCH_2}")
    endif()
  endforeach()
  math(EXPR seconds "${T_TIMEOUT} - 5") # it says where it was before CTest kills it
  set(parts ${name})
  if(T_WHOLE)
    list(APPEND parts ${name}_whole)
  endif()
  foreach(part ${parts})
    add_test(NAME ${part} COMMAND ${T_PYTHON} -B ${PROJECT_SOURCE_DIR}/tests/support/run_unittest.py ${seconds} ${T_TESTS} WORKING_DIRECTORY ${T_FOLDER})
    set_tests_properties(${part} PROPERTIES TIMEOUT ${T_TIMEOUT} LABELS "${T_LABELS}" SKIP_RETURN_CODE 77 RUN_SERIAL ${T_SERIAL}
      ENVIRONMENT "OUTRIDER_BIN=${CMAKE_BINARY_DIR}/bin;${T_ENVIRONMENT}")
    if(part MATCHES "_whole$" OR T_LABELS MATCHES "rest|long")
      set_property(TEST ${part} APPEND PROPERTY ENVIRONMENT "OR_TEST_WHOLE=1")
    endif()
  endforeach()
  if(T_WHOLE)
    set_property(TEST ${name}_whole PROPERTY LABELS rest)
  endif()
  or_test_place(${name})
endfunction()
