#include "tools/workloads/common/replicas.h"

#include <cstdio>
#include <thread>

#include "tools/workloads/common/check.h"

namespace workload {
namespace {

struct Result {
  std::vector<float> losses;
  std::vector<float> parameters;
};

Result train_one(Options options, int replica, const MakeTrainer& make) {
  options.seed += static_cast<std::uint64_t>(replica);
  if (options.devices > 1) TP_CUDA(cudaSetDevice(replica % options.devices));
  Result result;
  const std::unique_ptr<Trainer> trainer = make(options);
  for (int step = 0; step < options.steps; ++step) {
    result.losses.push_back(trainer->step(step));
    if (options.threads == 1) {
      std::printf("step %d loss %a\n", step, static_cast<double>(result.losses.back()));
    }
  }
  result.parameters = trainer->read_parameters();
  return result;
}

void save(const std::string& path, const std::vector<Result>& results) {
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  bool ok = file != nullptr;
  for (const Result& result : results) {
    const std::vector<float>& values = result.parameters;
    ok = ok && std::fwrite(values.data(), sizeof(float), values.size(), file) == values.size();
  }
  if (file != nullptr) ok = std::fclose(file) == 0 && ok;
  if (!ok) fail(("--save " + path).c_str(), "cannot be written");
}

}  // namespace

Trainer::Trainer(const Options& options, int states)
    : lanes_(options.streams),
      memory_(make_memory(options.allocator, lanes_.main())),
      parameters_(*memory_, lanes_, states),
      loss_(*memory_, 1) {
  void* pinned = nullptr;
  TP_CUDA(cudaMallocHost(&pinned, sizeof(float)));
  host_loss_ = static_cast<float*>(pinned);
}

Trainer::~Trainer() {
  TP_CUDA(cudaFreeHost(host_loss_));
}

float Trainer::step(int number) {
  queue_step(number);
  TP_CUDA(cudaMemcpyAsync(host_loss_, loss_.get(), sizeof(float), cudaMemcpyDeviceToHost, lanes_.main()));
  lanes_.wait();
  return *host_loss_;
}

void train(const Options& options, const MakeTrainer& make) {
  std::vector<Result> results(static_cast<std::size_t>(options.threads));
  if (options.threads == 1) {
    results[0] = train_one(options, 0, make);
  } else {
    std::vector<std::thread> threads;
    for (int r = 0; r < options.threads; ++r) {
      threads.emplace_back([&, r] { results[static_cast<std::size_t>(r)] = train_one(options, r, make); });
    }
    for (std::thread& thread : threads) thread.join();
    for (int r = 0; r < options.threads; ++r) {
      const std::vector<float>& losses = results[static_cast<std::size_t>(r)].losses;
      for (std::size_t step = 0; step < losses.size(); ++step) {
        std::printf("replica %d step %zu loss %a\n", r, step, static_cast<double>(losses[step]));
      }
    }
  }
  std::uint64_t digest = digest_of(nullptr, 0);
  for (const Result& result : results) {
    digest = digest_of(result.parameters.data(), result.parameters.size() * sizeof(float), digest);
  }
  std::printf("digest %016llx\n", static_cast<unsigned long long>(digest));
  if (!options.save.empty()) save(options.save, results);
}

void finish_output() {
  if (std::fflush(stdout) != 0) fail("stdout", "cannot be written");
}

}  // namespace workload
