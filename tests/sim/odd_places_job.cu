// Pointers at places where few programs have them: beside the memory that they are for (arrays that count
// from one, sums that run backwards from the end), in packed structs that a kernel gets, and in descriptions
// of copies whose address lies elsewhere than what they copy. Between its uses other memory pushes it out.
// Prints sums.
//
//   odd_places_job WAY     see main()

#include <cuda.h>
#include <cuda_runtime.h>

#include <array>
#include <cstdio>
#include <string_view>

#include "simgpu/kernel.h"
#include "tests/sim/job.h"

namespace {

using Word = unsigned long long;
constexpr std::size_t kBytes = std::size_t{4} << 20;  // whole granules: nothing is left at the end
constexpr std::size_t kWords = kBytes / sizeof(Word);
constexpr std::size_t kRow = 4096;
constexpr std::size_t kRows = kBytes / kRow;
constexpr unsigned kThreads = 64;
constexpr std::size_t kBlocks = 8;
constexpr int kRounds = 5;

struct [[gnu::packed, gnu::aligned(4)]] Packed {
  unsigned number;
  Word* data;
};

// Larger ones, as tables of arguments are: 324 bytes with pointers at four above a multiple of eight, and 257
// bytes with pointers at one above it.
struct [[gnu::packed, gnu::aligned(4)]] PackedTable {
  unsigned number;
  Word* data[kBlocks];
  unsigned more[64];
};
struct [[gnu::packed]] PackedBytes {
  char kind;
  Word* data[kBlocks];
  unsigned number;
  char more[188];
};
static_assert(sizeof(PackedTable) == 324 && sizeof(PackedBytes) == 257);

// Its size does not betray it.
struct [[gnu::packed]] Unseen {
  char kind[3];
  Word* data;
  char more[5];
  Word number;
};
static_assert(sizeof(Unseen) == 24);

/// data[i] += i + number
struct Add {
  template <class C>
  SIMGPU_HD static void run(C& c, Word* data, Word number) {
    c.reads(data, kBytes);
    c.writes(data, kBytes);
    c.phase([&](unsigned tid) {
      for (std::size_t i = c.global_x(tid); i < kWords; i += kThreads) data[i] += i + number;
    });
  }
};
SIMGPU_KERNEL(add, Add, (Word * data, Word number), data, number)

/// The same for data = from + first.
struct AddBeside {
  template <class C>
  SIMGPU_HD static void run(C& c, Word* from, long first, Word number) {
    Add::run(c, from + first, number);
  }
};
SIMGPU_KERNEL(add_beside, AddBeside, (Word * from, long first, Word number), from, first, number)

struct AddPacked {
  template <class C>
  SIMGPU_HD static void run(C& c, Packed what) {
    Add::run(c, what.data, what.number);
  }
  template <class C>
  SIMGPU_HD static void run(C& c, Unseen what) {
    Add::run(c, what.data, what.number);
  }
};
SIMGPU_KERNEL(add_packed, AddPacked, (Packed what), what)
SIMGPU_KERNEL(add_unseen, AddPacked, (Unseen what), what)

/// The same for the last array of a table.
struct AddLast {
  template <class C>
  SIMGPU_HD static void run(C& c, PackedTable what) {
    Add::run(c, what.data[kBlocks - 1], what.number);
  }
  template <class C>
  SIMGPU_HD static void run(C& c, PackedBytes what) {
    Add::run(c, what.data[kBlocks - 1], what.number);
  }
};
SIMGPU_KERNEL(add_of_table, AddLast, (PackedTable what), what)
SIMGPU_KERNEL(add_of_bytes, AddLast, (PackedBytes what), what)

/// How many words in front of its memory the pointer leads that a kernel gets; 0: no such way.
long words_in_front(std::string_view way) {
  constexpr long kFar = (1L << 20) / static_cast<long>(sizeof(Word));
  constexpr long kAll = kWords;
  if (way == "one-based") return 1;
  if (way == "far-in-front") return kFar;
  if (way == "backwards") return -kAll;
  if (way == "far-behind") return -kAll - kFar + 1;
  return 0;
}

CUdeviceptr address_of(const void* at) {
  return reinterpret_cast<CUdeviceptr>(at);
}

// Both sides are told by addresses far in front of them.
constexpr std::size_t kColumns = 64;
constexpr std::size_t kSkippedRows = 600;  // 4.7 MiB: into the block in front
constexpr std::size_t kPitch = 2 * kRow;

CUDA_MEMCPY2D rows(const Word* from, const Word* to) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcPitch = kPitch;
  copy.srcXInBytes = kColumns;
  copy.srcY = kSkippedRows;
  copy.srcDevice = address_of(from) - kSkippedRows * kPitch - kColumns;
  copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.dstPitch = kPitch;
  copy.dstY = kSkippedRows;
  copy.dstDevice = address_of(to) - kSkippedRows * kPitch;
  copy.WidthInBytes = kRow;
  copy.Height = kRows / 2;
  return copy;
}

CUDA_MEMCPY3D layers(const Word* from, const Word* to) {
  constexpr std::size_t kHeight = 16;
  constexpr std::size_t kSkippedLayers = 100;
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcPitch = copy.dstPitch = kRow;
  copy.srcHeight = copy.dstHeight = kHeight;
  copy.srcZ = copy.dstZ = kSkippedLayers;
  copy.srcDevice = address_of(from) - kSkippedLayers * kHeight * kRow;
  copy.dstDevice = address_of(to) - kSkippedLayers * kHeight * kRow;
  copy.WidthInBytes = kRow;
  copy.Height = kHeight;
  copy.Depth = kRows / kHeight;
  return copy;
}

void run_graph(CUcontext context, const CUDA_MEMCPY3D& copy) {
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec instance = nullptr;
  OK(cuGraphCreate(&graph, 0));
  OK(cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, context));
  OK(cuGraphInstantiate(&instance, graph, 0));
  OK(cuGraphLaunch(instance, nullptr));
  OK(cuGraphExecDestroy(instance));
  OK(cuGraphDestroy(graph));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view way = argc > 1 ? argv[1] : "";
  std::array<Word*, kBlocks> data{};
  for (Word*& block : data) {
    OK(cudaMalloc(&block, kBytes));
    OK(cudaMemset(block, 0, kBytes));
  }
  const long first = words_in_front(way);
  CUcontext context = nullptr;
  OK(cuCtxGetCurrent(&context));
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < kBlocks; ++i) {
      const Word* const from = data[(i + kBlocks / 2) % kBlocks];
      const unsigned number = static_cast<unsigned>(i) + 1;
      if (first != 0) {
        add_beside<<<1, kThreads>>>(data[i] - first, first, number);
      } else if (way == "packed") {
        add_packed<<<1, kThreads>>>(Packed{number, data[i]});
      } else if (way == "packed-table") {
        PackedTable what{number, {}, {}};
        what.data[kBlocks - 1] = data[i];
        add_of_table<<<1, kThreads>>>(what);
      } else if (way == "packed-bytes") {
        PackedBytes what{};
        what.data[kBlocks - 1] = data[i];
        what.number = number;
        add_of_bytes<<<1, kThreads>>>(what);
      } else if (way == "unseen") {
        add_unseen<<<1, kThreads>>>(Unseen{{}, data[i], {}, number});
      } else if (way == "rows") {
        const CUDA_MEMCPY2D copy = rows(from, data[i]);
        OK(cuMemcpy2DAsync(&copy, nullptr));
      } else if (way == "layers") {
        const CUDA_MEMCPY3D copy = layers(from, data[i]);
        OK(cuMemcpy3D(&copy));
      } else if (way == "graph" && round == 0 && i == 0) {  // names two blocks, which stay
        run_graph(context, layers(from, data[i]));
      } else if (way != "graph") {
        std::fprintf(stderr, "odd_places_job: no way '%s'\n", argc > 1 ? argv[1] : "");
        return 2;
      }
      add<<<1, kThreads>>>(data[(i + 1) % kBlocks], number);
    }
    OK(cudaGetLastError());
  }
  for (const Word* block : data) tidepool::test::print_sum_of(block, kWords);
  return 0;
}
