#include "tools/probe/descriptor.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace tidepool::probe {
namespace {

/// A message of one byte, with room for one descriptor beside it.
struct Message {
  char byte = 'h';
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};

  Message() {
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }
};

}  // namespace

Descriptor::~Descriptor() {
  close();
}

Descriptor::Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

void Descriptor::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

std::array<Descriptor, 2> make_socket_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    throw std::system_error(errno, std::generic_category(), "socketpair");
  }
  constexpr timeval kPatience{20, 0};
  ::setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

void send_descriptor(int socket, int descriptor) {
  Message message;
  cmsghdr* part = CMSG_FIRSTHDR(&message.header);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(part), &descriptor, sizeof descriptor);
  if (::sendmsg(socket, &message.header, MSG_NOSIGNAL) != 1) {
    throw std::system_error(errno, std::generic_category(), "sendmsg");
  }
}

std::optional<Descriptor> receive_descriptor(int socket) {
  Message message;
  if (::recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC) != 1) return std::nullopt;
  const cmsghdr* part = CMSG_FIRSTHDR(&message.header);
  if (part == nullptr || part->cmsg_type != SCM_RIGHTS) return std::nullopt;
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(part), sizeof descriptor);
  return Descriptor(descriptor);
}

}  // namespace tidepool::probe
