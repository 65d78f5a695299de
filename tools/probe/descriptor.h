#pragma once

#include <array>
#include <optional>

namespace tidepool::probe {

/// A file descriptor that is closed with its owner.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  [[nodiscard]] int get() const noexcept { return fd_; }
  void close();

 private:
  int fd_ = -1;
};

/// Two ends of a unix socket that keeps messages apart. Throws std::system_error.
std::array<Descriptor, 2> make_socket_pair();

/// Sends a descriptor to the other process. Throws std::system_error.
void send_descriptor(int socket, int descriptor);
/// Receives one; nothing if the other end is closed or nothing comes within the socket's patience of 20 s.
std::optional<Descriptor> receive_descriptor(int socket);

}  // namespace tidepool::probe
