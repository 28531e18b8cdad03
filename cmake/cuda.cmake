# Kernels for NVIDIA GPUs (kernels/cuda). OUTRIDER_NVCC says whether they are compiled for one; for the CPU, where tests run them without a
# GPU, they always are.
set(OUTRIDER_CUDA AUTO CACHE STRING "Kernels for NVIDIA GPUs: ON, OFF, or AUTO, where nvcc is found; not with sanitizers")
set_property(CACHE OUTRIDER_CUDA PROPERTY STRINGS AUTO ON OFF)

set(OUTRIDER_NVCC OFF)
if(OUTRIDER_CUDA AND NOT OUTRIDER_SANITIZE)
  # Ampere and Hopper, and for what comes after Hopper a form that its driver compiles.
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 90-virtual)
  endif()
  find_program(CMAKE_CUDA_COMPILER nvcc PATHS /usr/local/cuda/bin)
  find_path(OUTRIDER_CUBLASLT_INCLUDE cublasLt.h PATHS /usr/local/cuda/include) # programs open the library when they need it
  if(CMAKE_CUDA_COMPILER AND OUTRIDER_CUBLASLT_INCLUDE)
    enable_language(CUDA)
    set(OUTRIDER_NVCC ON)
  elseif(NOT OUTRIDER_CUDA STREQUAL AUTO)
    message(FATAL_ERROR "OUTRIDER_CUDA is ON and there is no nvcc, or no cublasLt.h: install NVIDIA's CUDA toolkit and put its bin folder into PATH, or "
      "configure with -DOUTRIDER_CUDA=OFF")
  endif()
endif()

# What CI builds where there is nvcc: the kernels, and their tests for a GPU.
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
