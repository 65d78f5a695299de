#include "tools/simgpu/digest/kernel_name.h"

#include <catch2/catch.hpp>

using namespace simgpu::digest;

TEST_CASE("kernel name: types say what may be written") {
  CHECK(classify("float const*") == ParamType::kConstPointer);
  CHECK(classify("float*") == ParamType::kPointer);
  CHECK(classify("float const* const") == ParamType::kConstPointer);
  CHECK(classify("float const* __restrict__") == ParamType::kConstPointer);
  CHECK(classify("float volatile*") == ParamType::kPointer);
  CHECK(classify("float const**") == ParamType::kConstPointerTable);
  CHECK(classify("float const* const*") == ParamType::kConstPointerTable);
  CHECK(classify("float**") == ParamType::kPointerTable);
  CHECK(classify("unsigned long") == ParamType::kScalar);
  CHECK(classify("std::array<char*, 2ul>") == ParamType::kOther);
}

TEST_CASE("kernel name: the parameters of functions and of templates are found") {
  const KernelName plain = parse_kernel_name("_Z5scalePKfPfi");
  CHECK(plain.plain == "scale(float const*, float*, int)");
  REQUIRE(plain.types_known);
  CHECK(plain.types ==
        std::vector<ParamType>{ParamType::kConstPointer, ParamType::kPointer, ParamType::kScalar});

  const KernelName in_template = parse_kernel_name(
      "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_");
  CHECK(in_template.plain ==
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, "
        "1ul> >"
        "(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)");
  REQUIRE(in_template.types_known);
  CHECK(in_template.types ==
        std::vector<ParamType>{ParamType::kScalar, ParamType::kOther, ParamType::kOther});

  const KernelName none = parse_kernel_name("_Z4noopv");
  CHECK(none.plain == "noop()");
  CHECK((none.types_known && none.types.empty()));
}

TEST_CASE("kernel name: names that are not C++ have no types") {
  for (const char* name : {"triton_poi_fused_add_0", "", "_Z", "_Z5scalePKf\x01", "volta_sgemm_128x64_nn"}) {
    CHECK_FALSE(parse_kernel_name(name).types_known);
    CHECK(parse_kernel_name(name).plain == name);
  }
}
