#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>

#include "tests/conformance/device.h"

namespace conformance {

Partner::Partner(const std::function<void(const Channel&)>& body) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    skip("no socket for a second process");
  child_ = ::fork();
  if (child_ < 0) skip("no second process can be started");
  if (child_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(ends[0]);
    body(Channel(ends[1]));
    ::_exit(0);
  }
  ::close(ends[1]);
  channel_ = Channel(ends[0]);
}

void Partner::kill() {
  ::kill(child_, SIGKILL);
  ::waitpid(child_, nullptr, 0);
}

void Partner::join() {
  int status = 0;
  ::waitpid(child_, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    fail(__FILE__, __LINE__, "the second process did not end well");
}

void Partner::Channel::send_bytes(const void* bytes, std::size_t count) const {
  if (::send(fd_, bytes, count, MSG_NOSIGNAL) != static_cast<ssize_t>(count))
    fail(__FILE__, __LINE__, "the other process is gone");
}

void Partner::Channel::receive_bytes(void* bytes, std::size_t count) const {
  if (::recv(fd_, bytes, count, MSG_WAITALL) != static_cast<ssize_t>(count))
    fail(__FILE__, __LINE__, "the other process is gone");
}

void Partner::Channel::send_descriptor(int fd) const {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof fd)> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  if (::sendmsg(fd_, &message, MSG_NOSIGNAL) != 1) fail(__FILE__, __LINE__, "the other process is gone");
}

int Partner::Channel::receive_descriptor() const {
  char byte = 0;
  iovec data{&byte, 1};
  int fd = -1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof fd)> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  if (::recvmsg(fd_, &message, MSG_CMSG_CLOEXEC) != 1) fail(__FILE__, __LINE__, "the other process is gone");
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr) fail(__FILE__, __LINE__, "no descriptor came");
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return fd;
}

}  // namespace conformance
