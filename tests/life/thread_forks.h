#pragma once

namespace tidepool::test {

/// A case of life_probe. `only_records`: the driver is the one that records.
void thread_forks(bool only_records);

}  // namespace tidepool::test
