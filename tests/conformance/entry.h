#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

/// How cases call CUDA. `CU(cuMemAlloc)(&p, 64)` and `RT(cudaMalloc)(&p, 64)` call the function that cuda.h
/// and cuda_runtime_api.h give this name, with its type, and look it up when the case gets there: a driver
/// that lacks it fails this case and no other.
namespace conformance {

/// The driver's exported symbol; ends the case where there is none.
void* driver_symbol(const char* name);
/// The same for the shared CUDA runtime that the program found.
void* runtime_symbol(const char* name);
/// True if the driver exports it: for what a case cannot do without and older drivers lack.
bool driver_has(const char* name);

template <class Function>
Function driver(const char* name) {
  return reinterpret_cast<Function>(driver_symbol(name));
}
template <class Function>
Function runtime(const char* name) {
  return reinterpret_cast<Function>(runtime_symbol(name));
}

}  // namespace conformance

#define TP_TEXT_(name) #name
#define TP_TEXT(name) TP_TEXT_(name)
// cuda.h defines most names as macros for a version of the function: the type and the symbol follow them.
#define CU(name) (::conformance::driver<decltype(&::name)>(TP_TEXT(name)))
#define RT(name) (::conformance::runtime<decltype(&::name)>(TP_TEXT(name)))
