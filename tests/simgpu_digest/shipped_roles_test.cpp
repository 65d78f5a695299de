#include <array>
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "tests/simgpu_digest/device.h"
#include "tools/simgpu/digest/tensor_lists.h"

/// The role file that is shipped, on structures laid out as PyTorch's are.
using namespace digest_test;

namespace {

constexpr std::size_t kSize = 4096;

std::string shipped() {
  std::ifstream file(SIMGPU_SHIPPED_ROLES);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A device with sixteen tensors.
struct Setup {
  Setup() : d(1 << 20, 1, shipped()) {
    for (std::size_t i = 0; i < t.size(); ++i) t[i] = d.allocate(i * 2 * kSize, kSize);
  }
  /// The access of each tensor that the launch touches: "0 out, 1 in".
  std::string roles(const std::string& kernel, const Params& params,
                    std::array<std::uint32_t, 3> grid = {1, 1, 1}) {
    const dg::Effect effect = d.launch(kernel, grid, params);
    knowledge = effect.knowledge;
    std::string text;
    for (std::size_t i = 0; i < t.size(); ++i) {
      for (const dg::Touched& touched : effect.touched) {
        if (touched.span.begin != t[i]) continue;
        static const char* const kNames[] = {"none", "in", "out", "inout"};
        text +=
            (text.empty() ? "" : ", ") + std::to_string(i) + " " + kNames[static_cast<int>(touched.access)];
      }
    }
    return text;
  }

  Device d;
  std::array<std::uint64_t, 16> t{};
  dg::Knowledge knowledge = dg::Knowledge::kUnknown;
};

template <int kDepth, int kTensors, int kBlocks, class Index>
struct TensorList {
  std::uint64_t addresses[kDepth][kTensors];
  std::int64_t numel[kTensors];
  Index block_to_tensor[kBlocks];
  std::int32_t block_to_chunk[kBlocks];
  std::int32_t start_tensor;
};

template <class Scalar, int kDepth, int kTensors, int kBlocks, class Index>
struct ScalarList {
  std::uint64_t addresses[kDepth][kTensors];
  std::int64_t numel[kTensors];
  Scalar scalars[kTensors];
  Index block_to_tensor[kBlocks];
  std::int32_t block_to_chunk[kBlocks];
};

template <int kDepth, int kTensors, int kBlocks, class Index>
struct FusedList {
  std::uint64_t addresses[kDepth][kTensors];
  std::int64_t numel[kTensors];
  std::uint64_t steps[kTensors];
  Index block_to_tensor[kBlocks];
  std::int32_t block_to_chunk[kBlocks];
  std::int32_t start_tensor;
};

}  // namespace

TEST_CASE("shipped roles: the file is good") {
  const dg::ParsedRoles parsed = dg::parse_roles(shipped(), "roles.txt");
  CHECK(parsed.error.empty());
  CHECK(parsed.file.rules.size() > 40);
}

TEST_CASE("shipped roles: element by element") {
  Setup s;
  const char* vectorized =
      "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_";
  CHECK(s.roles(vectorized, Params(4, 1.5F, std::array<std::uint64_t, 1>{s.t[0]})) == "0 out");
  CHECK(s.knowledge == dg::Knowledge::kKnown);
  const char* name =
      "void at::native::vectorized_elementwise_kernel<4, F, std::array<char*, 3ul> >(int, F, A)";
  CHECK(s.roles(name, Params(4, 'f', std::array<std::uint64_t, 3>{s.t[0], s.t[1], s.t[2]})) ==
        "0 out, 1 in, 2 in");
  CHECK(s.roles(name, Params(4, 'f', std::array<std::uint64_t, 3>{s.t[0], s.t[0], s.t[2]})) ==
        "0 inout, 2 in");
  struct Closure {
    std::uint32_t sizes[26];
    std::uint64_t data[3];
  };
  CHECK(s.roles("void at::native::elementwise_kernel<128, 2, F>(int, F)",
                Params(4, Closure{{}, {s.t[0], s.t[1], s.t[2]}})) == "0 out, 1 in, 2 in");
  CHECK(s.roles("void at::native::index_elementwise_kernel<128, 4, "
                "at::native::index_put_kernel_impl<F>(G)>(long, F)",
                Params(4L, Closure{{}, {s.t[0], s.t[1], s.t[2]}})) == "0 inout, 1 in, 2 in");
}

TEST_CASE("shipped roles: a reduction with one output does not use its second, stale one") {
  struct Reduction {
    char front[100];
    std::uint64_t src, dst[2], acc, cta, semaphores;
    std::int64_t base;
    bool accumulate, final;
    int noutputs;
  };
  const char* name = "void at::native::reduce_kernel<512, 1, R>(R)";
  Setup s;
  Reduction r{{}, s.t[0], {s.t[1], s.t[2]}, 0, s.t[3], s.t[4], 0, false, true, 1};
  CHECK(s.roles(name, Params(r)) == "0 in, 1 out, 3 out, 4 out");
  r.noutputs = 2;
  CHECK(s.roles(name, Params(r)) == "0 in, 1 out, 2 out, 3 out, 4 out");
}

TEST_CASE("shipped roles: typed pointers of norms and softmax are written whole") {
  Setup s;
  CHECK(s.roles("_Z20softmax_warp_forwardIfffLi5ELb1ELb0EEvPT0_PKT_iiiPKbib",
                Params(s.t[0], s.t[1], 1, 1, 1, s.t[2], 1, false)) == "0 out, 1 in, 2 in");
  CHECK(s.roles("_ZN2at6native12_GLOBAL__N_128vectorized_layer_norm_kernelIffEEviT0_PKT_S6_S6_PS3_S7_PS4_",
                Params(1, 1.0F, s.t[0], s.t[1], s.t[2], s.t[3], s.t[4], s.t[5])) ==
        "0 in, 1 in, 2 in, 3 out, 4 out, 5 out");
}

TEST_CASE("shipped roles: lists of tensors have as many tensors as the blocks name") {
  using List = TensorList<2, 64, 320, unsigned char>;
  static_assert(sizeof(List) == 3144);
  List list{};
  Setup s;
  for (std::size_t i = 0; i < 4; ++i) {
    list.addresses[0][i] = s.t[i];
    list.addresses[1][i] = s.t[8 + i];
  }
  list.block_to_tensor[1] = 1;
  list.block_to_tensor[2] = 3;  // beyond this launch's grid
  const std::array<std::uint32_t, 3> grid{2, 1, 1};
  const std::string start =
      "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<"
      "at::native::(anonymous namespace)::TensorListMetadata<2>, ";
  CHECK(s.roles(start + "BinaryOpScalarFunctor<float, 2, 1, 1>, std::plus<float>, float>(X)",
                Params(list, 'f', 2.0F), grid) == "0 in, 1 in, 8 out, 9 out");
  CHECK(s.roles(start + "BinaryOpListAlphaFunctor<float, 2, 2, 0>, std::plus<float>, float>(X)",
                Params(list, 'f', 2.0F), grid) == "0 inout, 1 inout, 8 in, 9 in");
  CHECK(s.roles(start + "SomethingNew>(X)", Params(list, 'f'), grid) == "0 inout, 1 inout, 8 inout, 9 inout");
  CHECK(s.knowledge == dg::Knowledge::kKnown);
}

TEST_CASE("shipped roles: fused optimizers read their step counters") {
  using List = FusedList<4, 252, 2240, std::uint16_t>;
  List list{};
  Setup s;
  for (std::size_t i = 0; i < 4; ++i) list.addresses[i][0] = s.t[i];
  list.steps[0] = s.t[4];
  list.steps[1] = s.t[5];
  CHECK(s.roles("void multi_tensor_apply_kernel<at::native::FusedOptimizerTensorListMetadata<4>, "
                "at::native::FusedAdamMathFunctor<float, 4, (ADAM_MODE)0, false>, double>(X)",
                Params(list, 'f', 0.1)) == "0 inout, 1 inout, 2 inout, 3 inout, 4 in");
}

TEST_CASE("shipped roles: every layout of lists of tensors is known by its size") {
  const auto check = [](std::uint32_t depth, std::size_t bytes, std::uint32_t capacity, std::size_t blocks,
                        std::size_t steps) {
    INFO("depth " << depth << ", " << bytes << " bytes");
    const auto lists = dg::tensor_lists(depth, static_cast<std::uint32_t>(bytes));
    REQUIRE(lists.has_value());
    CHECK(lists->capacity == capacity);
    CHECK(lists->blocks == blocks);
    CHECK(lists->steps == steps);
  };
  using Small1 = TensorList<1, 110, 320, unsigned char>;
  using Small5 = TensorList<5, 30, 320, unsigned char>;
  using Large3 = TensorList<3, 336, 2240, std::uint16_t>;
  using Floats = ScalarList<float, 1, 96, 320, unsigned char>;
  using Doubles = ScalarList<double, 3, 48, 320, unsigned char>;
  using LargeFloats = ScalarList<float, 2, 448, 2240, std::uint16_t>;
  using Fused3 = FusedList<3, 48, 320, unsigned char>;
  using Fused5 = FusedList<5, 210, 2240, std::uint16_t>;
  check(1, sizeof(Small1), 110, offsetof(Small1, block_to_tensor), 0);
  check(5, sizeof(Small5), 30, offsetof(Small5, block_to_tensor), 0);
  check(3, sizeof(Large3), 336, offsetof(Large3, block_to_tensor), 0);
  check(1, sizeof(Floats), 96, offsetof(Floats, block_to_tensor), 0);
  check(3, sizeof(Doubles), 48, offsetof(Doubles, block_to_tensor), 0);
  check(2, sizeof(LargeFloats), 448, offsetof(LargeFloats, block_to_tensor), 0);
  check(3, sizeof(Fused3), 48, offsetof(Fused3, block_to_tensor), offsetof(Fused3, steps));
  check(5, sizeof(Fused5), 210, offsetof(Fused5, block_to_tensor), offsetof(Fused5, steps));
  CHECK_FALSE(dg::tensor_lists(2, 3145).has_value());
  CHECK_FALSE(dg::tensor_lists(0, 3144).has_value());
  CHECK_FALSE(dg::tensor_lists(6, 3144).has_value());
}

TEST_CASE("shipped roles: cat reads as many inputs as its grid has rows") {
  struct Metadata {
    std::uint64_t input[64];
    unsigned offset[64], dim[64], elements[64];
    bool contiguous[64];
  } m{};
  Setup s;
  for (std::size_t i = 0; i < 4; ++i) m.input[i] = s.t[1 + i];
  CHECK(s.roles("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned, 2, 64, 64>(X)",
                Params(s.t[0], m, std::array<unsigned, 8>{}, 0, 1U),
                {264, 3, 1}) == "0 inout, 1 in, 2 in, 3 in");
}

TEST_CASE("shipped roles: arange from an address makes a table of pointers") {
  Setup s;
  const std::string name =
      "void at::native::(anonymous namespace)::elementwise_kernel_with_index<int, F>(int, F, long*)";
  struct Closure {
    std::uint64_t step, start;
  };
  CHECK(s.roles(name, Params(4, Closure{1024, s.t[1]}, s.t[0])) == "0 out");
  CHECK(s.d.map.pointers_known() == 4);
  CHECK(s.roles(name, Params(4, Closure{1, 7}, s.t[0])) == "0 out");
  CHECK(s.d.map.pointers_known() == 0);
}
