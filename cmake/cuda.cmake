# Kernels for NVIDIA GPUs (kernels/cuda). OUTRIDER_NVCC says whether they are compiled for one; for the CPU, where tests run them without a
# GPU, they always are.
set(OUTRIDER_CUDA AUTO CACHE STRING "Kernels for NVIDIA GPUs: ON, OFF, or AUTO, where nvcc is found; not with sanitizers")
set_property(CACHE OUTRIDER_CUDA PROPERTY STRINGS AUTO ON OFF)

# In `why` what nvcc and its toolkit lack to compile the kernels; empty: nothing.
function(or_cuda_lacks nvcc cublaslt why)
  set(${why} "" PARENT_SCOPE)
  if(NOT nvcc OR NOT cublaslt)
    set(${why} "there is no nvcc, or no cublasLt.h" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND ${nvcc} --version OUTPUT_VARIABLE text ERROR_QUIET)
  string(REGEX MATCH "release ([0-9.]+)" found "${text}")
  if(NOT found)
    set(${why} "${nvcc} does not say its version" PARENT_SCOPE)
  elseif(CMAKE_MATCH_1 VERSION_LESS 12.0)
    set(${why} "${nvcc} is of CUDA ${CMAKE_MATCH_1}, and 12.0 is the least" PARENT_SCOPE)
  endif()
endfunction()

set(OUTRIDER_NVCC OFF)
if(OUTRIDER_CUDA AND NOT OUTRIDER_SANITIZE)
  # Ampere and Hopper, and for what comes after Hopper a form that its driver compiles.
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 90-virtual)
  endif()
  find_program(CMAKE_CUDA_COMPILER nvcc PATHS /usr/local/cuda/bin)
  find_path(OUTRIDER_CUBLASLT_INCLUDE cublasLt.h PATHS /usr/local/cuda/include) # programs open the library when they need it
  or_cuda_lacks("${CMAKE_CUDA_COMPILER}" "${OUTRIDER_CUBLASLT_INCLUDE}" cuda_lacks)
  if(NOT cuda_lacks)
    enable_language(CUDA)
    set(OUTRIDER_NVCC ON)
  elseif(OUTRIDER_CUDA STREQUAL AUTO)
    message(STATUS "Without CUDA: ${cuda_lacks}")
  else()
    message(FATAL_ERROR "OUTRIDER_CUDA is ON, but ${cuda_lacks}: install NVIDIA's CUDA toolkit, 12.0 or later, and put its bin folder into PATH (or name "
      "its nvcc by -DCMAKE_CUDA_COMPILER=), or configure with -DOUTRIDER_CUDA=OFF")
  endif()
endif()

# CI builds this where there is nvcc: the kernels, and their tests for a GPU.
if(OUTRIDER_NVCC)
  add_custom_target(cuda)
endif()

# or_cuda_test(name SOURCES ... LIBRARIES ... [TIMEOUT s]): a test of what runs on a device, as NAME_emulated_test on the CPU and, where there
# is nvcc, as NAME_gpu_test with label gpu. It opens its device by cuda_test_open, which ends it as skipped where there is none.
function(or_cuda_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "SOURCES;LIBRARIES" ${ARGN})
  or_test(${name}_emulated_test SOURCES ${T_SOURCES} LIBRARIES cuda_test_support kernels_cuda_emulated ${T_LIBRARIES} TIMEOUT ${T_TIMEOUT})
  if(OUTRIDER_NVCC)
    or_test(${name}_gpu_test SOURCES ${T_SOURCES} LIBRARIES cuda_test_support kernels_cuda ${T_LIBRARIES} TIMEOUT ${T_TIMEOUT} LABELS gpu)
    add_dependencies(cuda ${name}_gpu_test)
  endif()
endfunction()
