#pragma once

#include <string>
#include <vector>

namespace tidepool::gen {

/// A file to write: its path below the folder that was named, and its text.
struct Page {
  std::string path;
  std::string text;
};

/// docs/reference: the command line, variables, messages and numbers.
std::vector<Page> reference_pages();
/// docs/reference/hooks.md: what shim/hooks.def intercepts.
Page hooks_page();
/// docs/reference/events.md: what is recorded, and the form of the logs.
Page events_page();
/// man1/tidepool.1, one page for each command, man7/tidepool.7 for the variables; in mdoc(7).
std::vector<Page> manual_pages();
/// completions/: bash, zsh, fish.
std::vector<Page> completion_pages();

}  // namespace tidepool::gen
