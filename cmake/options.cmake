option(OUTRIDER_VERIFIER "Build the outrider-verifier program, the only one that needs MPI" ON)
option(OUTRIDER_WERROR "Treat warnings as errors; the presets do" OFF)
option(OUTRIDER_FUZZ "Build the fuzzers of tests/fuzz; needs clang, the fuzz preset sets it" OFF)
set(OUTRIDER_SANITIZE "" CACHE STRING "address,undefined or thread")

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
# C++ is what nvcc takes, and the emulator of what it makes (kernels/cuda); everything else is C. Optimised as C is.
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CXX_FLAGS_RELEASE ${CMAKE_C_FLAGS_RELEASE})
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO ${CMAKE_C_FLAGS_RELWITHDEBINFO})
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
find_program(OUTRIDER_CCACHE ccache)
if(OUTRIDER_CCACHE)
  # A clone or worktree finds what others compiled: paths below its root are relative, in debug information too. (A debugger that was
  # started in the root finds the sources.)
  set(CMAKE_C_COMPILER_LAUNCHER env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} ${OUTRIDER_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_C_COMPILER_LAUNCHER})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_C_COMPILER_LAUNCHER})
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fdebug-prefix-map=${CMAKE_SOURCE_DIR}=.>)
endif()

# Every target of ours links this: flags in one place. -ffp-contract=off is part of canonical arithmetic.
add_library(outrider_flags INTERFACE)
target_include_directories(outrider_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_definitions(outrider_flags INTERFACE _GNU_SOURCE)
target_compile_options(outrider_flags INTERFACE "$<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;-Wshadow>"
  "$<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes;-Wmissing-prototypes>"
  "$<$<COMPILE_LANGUAGE:C,CXX>:-Wpointer-arith;-Wvla;-Wformat=2;-Wundef;-fno-common;-ffp-contract=off;-fno-fast-math>"
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>")
if(OUTRIDER_WERROR)
  target_compile_options(outrider_flags INTERFACE $<IF:$<COMPILE_LANGUAGE:CUDA>,-Werror=all-warnings,-Werror>)
endif()
if(OUTRIDER_SANITIZE)
  target_compile_options(outrider_flags INTERFACE -fsanitize=${OUTRIDER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(outrider_flags INTERFACE -fsanitize=${OUTRIDER_SANITIZE})
endif()
if(OUTRIDER_FUZZ)
  target_compile_options(outrider_flags INTERFACE -fsanitize=fuzzer-no-link) # coverage; programs have their own main
endif()
