#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

/// How the workloads end when something goes wrong: one line on stderr and exit status 1.
namespace workload {

/// What error lines begin with. Call it first, from one thread; the text must live as long as the program.
void set_program_name(const char* name);

/// Prints "program: what: why" and ends the process with status 1. If several threads fail, the first one
/// speaks. Thread-safe.
[[noreturn]] void fail(const char* what, const char* why);

/// Ends the program if a call failed: "program: cudaMalloc failed: cudaErrorMemoryAllocation (out of
/// memory)". `call` is the call's source text, of which the function's name is printed.
void check(cudaError_t error, const char* call);

/// The same for the driver API, whose names of errors come from the driver itself.
void check(CUresult result, const char* call);

/// Ends the program if a kernel could not be launched.
void check_launch(const char* kernel);

}  // namespace workload

#define TP_CUDA(call) ::workload::check((call), #call)
