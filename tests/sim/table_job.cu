// A kernel that finds memory through a table of addresses which the program has copied to the device, as
// batched matrix products and packed copies do. Between the copy and the kernel other memory pushes
// everything out. Prints a sum over what the table leads to.
//
//   table_job WAY      how the table gets there: see main()

#include <cuda.h>
#include <cuda_runtime.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "simgpu/kernel.h"

namespace {

using Word = unsigned long long;
constexpr std::size_t kWords = (std::size_t{4} << 20) / sizeof(Word);
constexpr std::size_t kBytes = kWords * sizeof(Word);
constexpr unsigned kThreads = 64;
constexpr std::size_t kEntries = 4;
constexpr std::size_t kOthers = 12;
constexpr std::size_t kPitch = 512;  // of the two rows that a table has when it is copied as one of 2D

struct Table {
  const Word* at[kEntries];
};

/// data[i] = i * factor
struct Fill {
  template <class C>
  SIMGPU_HD static void run(C& c, Word* data, Word factor) {
    c.writes(data, kBytes);
    c.phase([&](unsigned tid) {
      for (std::size_t i = c.global_x(tid); i < kWords; i += kThreads) data[i] = i * factor;
    });
  }
};
SIMGPU_KERNEL(fill, Fill, (Word * data, Word factor), data, factor)

/// sum[0] += all words of the memory that `entries` entries of the table lead to.
struct Follow {
  template <class C>
  SIMGPU_HD static void run(C& c, const Word* const* table, Word entries, Word* sum) {
    c.reads(table, entries * sizeof(Word*));
    c.phase([&](unsigned tid) {
      if (c.global_x(tid) != 0) return;
      Word total = sum[0];
      for (Word entry = 0; entry < entries; ++entry) {
        c.reads(table[entry], kBytes);
        for (std::size_t i = 0; i < kWords; ++i) total += table[entry][i];
      }
      sum[0] = total;
    });
    c.writes(sum, sizeof(Word));
  }
};
SIMGPU_KERNEL(follow, Follow, (const Word* const* table, Word entries, Word* sum), table, entries, sum)

__device__ Table g_table;

void check(int error, const char* what) {
  if (error == 0) return;
  std::fprintf(stderr, "table_job: %s: %d\n", what, error);
  std::exit(1);
}
#define OK(call) check(static_cast<int>(call), #call)

Word* block(std::size_t bytes = kBytes) {
  void* at = nullptr;
  OK(cudaMalloc(&at, bytes));
  return static_cast<Word*>(at);
}

struct Job {
  std::array<Word*, kEntries> data{};
  std::array<Word*, kOthers> others{};
  Word* sum = block(sizeof(Word));
  cudaStream_t stream = nullptr;

  Job() {
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMemset(sum, 0, sizeof(Word)));
    for (std::size_t i = 0; i < kEntries; ++i) fill<<<1, kThreads>>>(data[i] = block(), i + 1);
    for (Word*& other : others) other = block();
    OK(cudaDeviceSynchronize());
  }
  void push_out() {
    for (Word* other : others) fill<<<1, kThreads, 0, stream>>>(other, 7);
  }
  void read(const Word* const* table, Word entries = kEntries) {
    push_out();
    follow<<<1, kThreads, 0, stream>>>(table, entries, sum);
    OK(cudaGetLastError());
    OK(cudaStreamSynchronize(stream));
  }
};

/// Each of the other blocks in its turn is what a table of one address leads to, in memory of its own or,
/// where there is none, at `entry`.
void go_round(Job& job, const Word** entry) {
  job.push_out();  // they are written here
  for (Word* other : job.others) {
    const Word** at = entry;
    if (entry == nullptr) OK(cudaMalloc(&at, sizeof *at));
    OK(cudaMemcpyAsync(at, &other, sizeof other, cudaMemcpyHostToDevice, job.stream));
    follow<<<1, kThreads, 0, job.stream>>>(at, 1, job.sum);
    OK(cudaStreamSynchronize(job.stream));
    if (entry == nullptr) OK(cudaFree(at));
  }
}

/// What the first entry leads to is freed and allocated again; where that is elsewhere, as without Tidepool
/// it may be, the table is made anew.
void use_again(Job& job, Table* table) {
  for (Word round = 1; round <= 3; ++round) {
    Word* const before = job.data[0];
    OK(cudaFree(before));
    job.data[0] = block();
    if (job.data[0] != before) OK(cudaMemcpy(table, job.data.data(), sizeof(Word*), cudaMemcpyHostToDevice));
    fill<<<1, kThreads, 0, job.stream>>>(job.data[0], round);
    job.read(table->at);
  }
}

CUdeviceptr address_of(const void* at) {
  return reinterpret_cast<CUdeviceptr>(at);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view way = argc > 1 ? argv[1] : "";
  Job job;
  Table* table = nullptr;
  OK(cudaMalloc(&table, 4 * kPitch));
  Table* host = nullptr;  // pinned, as what is copied asynchronously should be
  OK(cudaMallocHost(&host, 4 * kPitch));
  std::memset(host, 0, 4 * kPitch);
  for (std::size_t i = 0; i < kEntries; ++i) host->at[i] = job.data[i] + 1 - 1;
  const auto copied = [&] { job.read(table->at); };

  if (way == "copy") {
    const Table pageable = *host;
    OK(cudaMemcpy(table, &pageable, sizeof pageable, cudaMemcpyHostToDevice));
    OK(cudaDeviceSynchronize());  // such a copy may return before its bytes have arrived
    copied();
  } else if (way == "async") {
    OK(cudaMemcpyAsync(table, host, sizeof *host, cudaMemcpyHostToDevice, job.stream));
    copied();
  } else if (way == "any-pinned") {
    OK(cuMemcpyAsync(address_of(table), address_of(host), sizeof *host, job.stream));
    copied();
  } else if (way == "any-pageable") {
    const Table pageable = *host;
    OK(cuMemcpy(address_of(table), address_of(&pageable), sizeof pageable));
    OK(cudaDeviceSynchronize());
    copied();
  } else if (way == "odd") {  // in the middle of what is copied, and at no multiple of eight there
    auto* const bytes = reinterpret_cast<unsigned char*>(host);
    std::memmove(bytes + 5, host, sizeof *host);
    auto* const to = reinterpret_cast<unsigned char*>(table) + 3;
    OK(cudaMemcpy(to, bytes, 5 + sizeof *host, cudaMemcpyHostToDevice));
    job.read(reinterpret_cast<Table*>(to + 5)->at);
  } else if (way == "rows") {
    const auto half = kEntries / 2 * sizeof(Word*);
    auto* const second = reinterpret_cast<unsigned char*>(host) + kPitch;
    std::memcpy(second, &host->at[kEntries / 2], half);
    OK(cudaMemcpy2DAsync(table, 2 * kPitch, host, kPitch, half, 2, cudaMemcpyHostToDevice, job.stream));
    job.read(table->at, kEntries / 2);
    job.read(reinterpret_cast<Table*>(reinterpret_cast<unsigned char*>(table) + 2 * kPitch)->at,
             kEntries / 2);
  } else if (way == "box") {
    cudaMemcpy3DParms box{};
    box.srcPtr = make_cudaPitchedPtr(host, kPitch, kPitch, 1);
    box.dstPtr = make_cudaPitchedPtr(table, kPitch, kPitch, 1);
    box.extent = make_cudaExtent(sizeof *host, 1, 1);
    box.kind = cudaMemcpyHostToDevice;
    OK(cudaMemcpy3DAsync(&box, job.stream));
    copied();
  } else if (way == "batch") {
    CUdeviceptr to = address_of(table);
    CUdeviceptr from = address_of(host);
    std::size_t size = sizeof *host;
    CUmemcpyAttributes attributes{};
    attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    std::size_t first = 0;
    OK(cuMemcpyBatchAsync(&to, &from, &size, 1, &attributes, &first, 1, job.stream));
    copied();
  } else if (way == "again") {
    OK(cudaMemcpy(table, host, sizeof *host, cudaMemcpyHostToDevice));
    use_again(job, table);
  } else if (way == "ring" || way == "freed") {
    go_round(job, way == "ring" ? &table->at[0] : nullptr);
  } else if (way == "moved" || way == "moved-rows" || way == "moved-batch") {
    auto* const copy = reinterpret_cast<Table*>(reinterpret_cast<unsigned char*>(table) + 2 * kPitch);
    OK(cudaMemcpy(table, host, sizeof *host, cudaMemcpyHostToDevice));
    if (way == "moved") {
      OK(cudaMemcpyAsync(copy, table, sizeof *table, cudaMemcpyDeviceToDevice, job.stream));
    } else if (way == "moved-rows") {  // of one entry each, not as far apart as they were
      const std::size_t entry = sizeof(Word*);
      OK(cudaMemcpy2DAsync(copy, entry, table, entry, entry, kEntries, cudaMemcpyDeviceToDevice, job.stream));
    } else {
      CUdeviceptr to = address_of(copy);
      CUdeviceptr from = address_of(table);
      std::size_t size = sizeof *table;
      CUmemcpyAttributes attributes{};
      attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
      std::size_t first = 0;
      OK(cuMemcpyBatchAsync(&to, &from, &size, 1, &attributes, &first, 1, job.stream));
    }
    std::memset(host, 0, sizeof *host);
    OK(cudaMemcpyAsync(table, host, sizeof *host, cudaMemcpyHostToDevice, job.stream));
    go_round(job, &table->at[0]);  // until all that nothing names has been let go
    job.read(copy->at);
  } else if (way == "symbol") {
    OK(cudaMemcpyToSymbol(g_table, host, sizeof *host));
    void* at = nullptr;
    OK(cudaGetSymbolAddress(&at, g_table));
    job.read(static_cast<Table*>(at)->at);
  } else if (way == "value") {
    OK(cuStreamWriteValue64(job.stream, address_of(table), address_of(job.data[0]), 0));
    job.read(table->at, 1);
  } else if (way == "values") {
    CUstreamBatchMemOpParams both[2]{};
    for (std::size_t i = 0; i < 2; ++i) {
      both[i].operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
      both[i].writeValue.address = address_of(&table->at[i]);
      both[i].writeValue.value64 = address_of(job.data[i]);
    }
    OK(cuStreamBatchMemOp(job.stream, 2, both, 0));
    job.read(table->at, 2);
  } else if (way == "capture") {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t work = nullptr;
    OK(cudaStreamBeginCapture(job.stream, cudaStreamCaptureModeThreadLocal));
    OK(cudaMemcpyAsync(table, host, sizeof *host, cudaMemcpyHostToDevice, job.stream));
    follow<<<1, kThreads, 0, job.stream>>>(table->at, kEntries, job.sum);
    OK(cudaStreamEndCapture(job.stream, &graph));
    OK(cudaGraphInstantiate(&work, graph, 0));
    job.push_out();
    OK(cudaGraphLaunch(work, job.stream));
    OK(cudaStreamSynchronize(job.stream));
    OK(cudaGraphExecDestroy(work));
    OK(cudaGraphDestroy(graph));
  } else if (way == "node") {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t work = nullptr;
    cudaGraphNode_t node = nullptr;
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddMemcpyNode1D(&node, graph, nullptr, 0, table, host, sizeof *host, cudaMemcpyHostToDevice));
    OK(cudaGraphInstantiate(&work, graph, 0));
    OK(cudaGraphLaunch(work, job.stream));
    copied();
    OK(cudaGraphExecDestroy(work));
    OK(cudaGraphDestroy(graph));
  } else {
    std::fprintf(stderr, "table_job: no way \"%.*s\"\n", static_cast<int>(way.size()), way.data());
    return 2;
  }

  Word sum = 0;
  OK(cudaMemcpy(&sum, job.sum, sizeof sum, cudaMemcpyDeviceToHost));
  std::printf("sum %llu\n", sum);
  // What the table led to has stayed; once it is freed its memory serves others: these need nearly all there
  // is.
  for (Word* at : job.data) OK(cudaFree(at));
  for (Word* at : job.others) OK(cudaFree(at));
  Word* const large = block(8 * kBytes);
  OK(cudaMemset(large, 1, 8 * kBytes));
  OK(cudaDeviceSynchronize());
  return 0;
}
