// A libcupti.so.13 over the recording driver: calls back on entry and exit of each driver function, and shows
// one function within another, as CUPTI does where the driver calls itself.

#include <cupti_callbacks.h>
#include <cupti_result.h>
#include <dlfcn.h>

#include <map>
#include <mutex>
#include <string_view>

namespace {

CUpti_CallbackFunc g_callback = nullptr;

CUpti_CallbackId number_of(std::string_view entry) {
  static std::mutex g_lock;
  static std::map<std::string_view, CUpti_CallbackId> g_numbers;
  const std::lock_guard guard(g_lock);
  const auto next = static_cast<CUpti_CallbackId>(g_numbers.size() + 1);
  return g_numbers.emplace(entry, next).first->second;
}

void call(const char* entry, CUpti_ApiCallbackSite site) {
  CUpti_CallbackData data{};
  data.callbackSite = site;
  data.functionName = entry;
  g_callback(nullptr, CUPTI_CB_DOMAIN_DRIVER_API, number_of(entry), &data);
}

void on_driver_call(const char* entry) {
  call(entry, CUPTI_API_ENTER);
  if (std::string_view(entry) == "cuMemcpyHtoD_v2") {
    call("cuMemcpyHtoDAsync_v2", CUPTI_API_ENTER);
    call("cuMemcpyHtoDAsync_v2", CUPTI_API_EXIT);
  }
  call(entry, CUPTI_API_EXIT);
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) CUptiResult CUPTIAPI cuptiSubscribe(CUpti_SubscriberHandle*,
                                                                           CUpti_CallbackFunc callback,
                                                                           void*) {
  g_callback = callback;
  return CUPTI_SUCCESS;
}

__attribute__((visibility("default"))) CUptiResult CUPTIAPI cuptiEnableDomain(uint32_t,
                                                                              CUpti_SubscriberHandle,
                                                                              CUpti_CallbackDomain) {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  using Observe = void (*)(void (*)(const char*));
  const auto observe =
      driver != nullptr ? reinterpret_cast<Observe>(::dlsym(driver, "tp_recording_observe")) : nullptr;
  if (observe == nullptr) return CUPTI_ERROR_NOT_INITIALIZED;
  observe(&on_driver_call);
  return CUPTI_SUCCESS;
}
}
